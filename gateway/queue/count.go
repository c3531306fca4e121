package queue

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
)

// Counts are the numbers of the jobs of kind zpe, or of all other kinds.
type Counts struct {
	States map[string]int // by States
	Kinds  []KindCount    // those that have jobs queued or running, by name; of zpe always one
	Dead   int            // dead letters
	Total  Flow           // since Redis has its data
	Hours  []Flow         // the last 24 and the current one, oldest first, without those that had no job
}

// KindCount counts the jobs of a kind.
type KindCount struct {
	Kind            jobs.Kind
	Queued, Running int
	Oldest          time.Time // when the one was submitted that waits longest; zero without one
}

// Flow is how many jobs came and ended. A dead letter that is queued again has ended, and ends again.
type Flow struct {
	Start                           time.Time // of the hour; zero for a total
	In, Succeeded, Failed, Canceled int64
}

// sampled is how many running and how many delayed jobs [Queue.Count] looks at for their kinds. With more, it takes
// these for all: the numbers of a state are exact, and those of the kinds within it are not.
const sampled = 1000

// hourForm is how the counts name an hour: the beginning of a moment in RFC 3339.
const hourForm = "2006-01-02T15"

// Count counts the jobs of kind zpe, or of all other kinds, in one round trip. An entry in a queue of a job that has
// ended meanwhile counts among the queued ones of its kind until its turn comes, but never beyond all that are queued.
func (q *Queue) Count(ctx context.Context, others bool) (Counts, error) {
	a, err := q.run(ctx, "count jobs", countScript, nil, others, sampled)
	if err != nil {
		return Counts{}, err
	}
	if len(a) != 4 {
		return Counts{}, unexpected("count jobs", a)
	}
	c := Counts{States: map[string]int{}, Dead: int(a.Number(1))}
	for i, state := range States {
		c.States[state] = int(listAt(a, 0).Number(i))
	}
	for k := listAt(a, 2); len(k) >= 4; k = k[4:] {
		one := KindCount{Kind: jobs.Kind(k.Text(0)), Queued: int(k.Number(1)), Running: int(k.Number(2))}
		if ms, err := strconv.ParseInt(k.Text(3), 10, 64); err == nil && one.Queued > 0 {
			one.Oldest = time.UnixMilli(ms).UTC()
		}
		c.Kinds = append(c.Kinds, one)
	}
	slices.SortFunc(c.Kinds, func(a, b KindCount) int { return cmp.Compare(a.Kind, b.Kind) })
	c.flows(listAt(a, 3), q.Now().Add(-24*time.Hour).UTC().Format(hourForm))
	return c, nil
}

func listAt(a redisdb.Reply, i int) redisdb.Reply {
	list, _ := a[i].([]any)
	return list
}

// flows reads the fields of the counts: "in", and "2026-11-28T22 in" of an hour. Those from first on are kept apart.
func (c *Counts) flows(fields redisdb.Reply, first string) {
	hours := map[string]*Flow{}
	for ; len(fields) >= 2; fields = fields[2:] {
		n, err := strconv.ParseInt(fields.Text(1), 10, 64)
		hour, word, ofHour := strings.Cut(fields.Text(0), " ")
		if !ofHour {
			hour, word = "", fields.Text(0)
		}
		if err != nil || !c.Total.add(word, n) || hour < first {
			continue
		}
		if hours[hour] == nil {
			start, err := time.Parse(hourForm, hour)
			if err != nil {
				continue
			}
			hours[hour] = &Flow{Start: start}
		}
		hours[hour].add(word, n)
	}
	for _, f := range hours {
		c.Hours = append(c.Hours, *f)
	}
	slices.SortFunc(c.Hours, func(a, b Flow) int { return a.Start.Compare(b.Start) })
}

// add adds n to what a word of the counts means. It reports whether there is such a word.
func (f *Flow) add(word string, n int64) bool {
	switch word {
	case "in":
		f.In += n
	case "succeeded":
		f.Succeeded += n
	case "failed":
		f.Failed += n
	case "canceled":
		f.Canceled += n
	default:
		return false
	}
	return true
}

// hoursKept is how long what came and ended is known by the hour.
const hoursKept = 25 * time.Hour

// FoldHours adds to the totals what came and ended in hours that are over for longer than 25 hours.
func (q *Queue) FoldHours(ctx context.Context) error {
	first := q.Now().Add(-hoursKept).UTC().Format(hourForm)
	for _, others := range []bool{false, true} {
		if _, err := q.run(ctx, "add hours to the totals", hoursScript, []string{countsKey(others)}, first); err != nil {
			return err
		}
	}
	return nil
}
