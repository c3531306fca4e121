package status

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
)

// How many jobs came and ended is in a hash: "WORD HOUR" is the number of an hour (since 1970, by the clock of
// whoever counts), and WORD that of the hours before those which are kept. A job is counted in the round trip
// that enters it; one that is entered twice, because an answer was lost, may be counted twice.

// count is what a move adds. The zero value is nothing.
type count struct {
	word string
	n    int64
}

// cameIn is the word of jobs that came: they were submitted, queued again or found in the queue.
const cameIn = "in"

// ended counts a job that this call has ended.
func ended(state jobs.State) count { return count{state.String(), 1} }

// keptHours is how many hours are kept beside the current one.
const keptHours = 24

func hourOf(t time.Time) int64 { return t.Unix() / 3600 }

// tell counts moves, and adds their jobs to the feed.
func tell(ctx context.Context, pipe redis.Pipeliner, moves []move) (cmds []redis.Cmder) {
	sums := map[string]int64{}
	ids := make([]string, 0, len(moves))
	for _, m := range moves {
		if m.count.n != 0 {
			sums[m.count.word] += m.count.n
		}
		if !m.quiet {
			ids = append(ids, string(m.id))
		}
	}
	for word, n := range sums {
		if n != 0 {
			cmds = append(cmds, pipe.HIncrBy(ctx, flowKey, word+" "+strconv.FormatInt(hourOf(time.Now()), 10), n))
		}
	}
	return append(cmds, publish(ctx, pipe, ids)...)
}

// Flow is how many jobs came and ended.
type Flow struct {
	Start                           time.Time // of the hour; zero for a total
	In, Succeeded, Failed, Canceled int64
}

func (f *Flow) add(word string, n int64) {
	switch word {
	case cameIn:
		f.In += n
	case jobs.Succeeded.String():
		f.Succeeded += n
	case jobs.Failed.String():
		f.Failed += n
	case jobs.Canceled.String():
		f.Canceled += n
	}
}

// parseFlow returns the total, and the hours that are kept, oldest first.
func parseFlow(fields map[string]string, now time.Time) (total Flow, hours []Flow) {
	current := hourOf(now)
	byHour := map[int64]*Flow{}
	for name, text := range fields {
		n, _ := strconv.ParseInt(text, 10, 64)
		word, at, inHour := strings.Cut(name, " ")
		total.add(word, n)
		hour, err := strconv.ParseInt(at, 10, 64)
		if !inHour || err != nil || hour < current-keptHours || hour > current {
			continue
		}
		if byHour[hour] == nil {
			byHour[hour] = &Flow{Start: time.Unix(hour*3600, 0).UTC()}
		}
		byHour[hour].add(word, n)
	}
	for hour := current - keptHours; hour <= current; hour++ {
		if f := byHour[hour]; f != nil {
			hours = append(hours, *f)
		}
	}
	return total, hours
}

// foldFlow adds hours that are no longer kept to the total.
func (s *Store) foldFlow(ctx context.Context) error {
	_, err := s.run(ctx, "add up old hours", flowScript, []string{flowKey}, keptHours)
	return err
}
