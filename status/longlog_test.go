package status_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

// A grown is the log of a job that grows, with all lines it ever had.
type grown struct {
	t   *testing.T
	s   *status.Store
	c   jobs.Claim
	all []string
	n   int // lines of the attempt
}

func grow(t *testing.T, s *status.Store, id jobs.ID) *grown {
	t.Helper()
	return &grown{t: t, s: s, c: claim(t, s, id, time.Minute, jobs.Granted), all: []string{"attempt 1 started by w1"}}
}

func (g *grown) add(lines ...string) {
	g.t.Helper()
	report(g.t, g.s, g.c, time.Minute, nil, jobs.Lines{Before: g.n, Text: lines})
	g.n += len(lines)
	g.all = append(g.all, lines...)
}

// check compares what is read of the log with all its lines: the first, a mark for as many
// as are missing, and the last. It returns it.
func (g *grown) check() []status.LogLine {
	g.t.Helper()
	kept, err := g.s.Lines(g.t.Context(), g.c.Job, status.LogQuery{Tail: 1 << 30})
	if err != nil {
		g.t.Fatal(err)
	}
	seen := map[string]bool{}
	next := 0
	for i, l := range kept {
		if seen[l.Pos] || i > 0 && l.Time.Before(kept[i-1].Time) {
			g.t.Errorf("line %+v after %+v", l, kept[max(0, i-1)])
		}
		seen[l.Pos] = true
		if l.Text == g.all[next] {
			next++
			continue
		}
		missing := len(g.all) - next - (len(kept) - i - 1)
		out := 0
		for _, text := range g.all[next : next+missing] {
			out += jobs.LinesIn(text)
		}
		if l.Text != jobs.LeftOut(out) {
			g.t.Fatalf("line %d of %d is %q, want %q", i, len(kept), l.Text, jobs.LeftOut(out))
		}
		next += missing
	}
	if next != len(g.all) {
		g.t.Errorf("the log ends after %d lines of %d", next, len(g.all))
	}
	return kept
}

// follower reads a log as it grows, in pages of any size.
type follower struct {
	*grown
	after string
	next  int // the line that it must see next
}

// read reads a page and reports whether there was one.
func (f *follower) read(most int) bool {
	f.t.Helper()
	lines, err := f.s.Lines(f.t.Context(), f.c.Job, status.LogQuery{Tail: most, After: f.after})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, l := range lines {
		f.after = l.Pos
		if f.next < len(f.all) && l.Text == f.all[f.next] {
			f.next++
			continue
		}
		if jobs.LinesIn(l.Text) == 1 {
			f.t.Fatalf("follower reads %+v, want %q or a mark", l, f.all[min(f.next, len(f.all)-1)])
		}
		// The lines that come after a mark are the next that there are.
		var n int
		if _, err := fmt.Sscanf(l.Pos[strings.Index(l.Pos, "-"):], "-%d-0", &n); err != nil || n < f.next {
			f.t.Fatalf("follower reads the mark %+v after line %d, %v", l, f.next, err)
		}
		f.next = n
	}
	return len(lines) > 0
}

// TestF35K06FollowersOfALongLogMissNothingUnmarked lets logs grow over their limit in any
// way, while some follow them: slowly, so that lines are dropped that they have not seen.
func TestF35K06FollowersOfALongLogMissNothingUnmarked(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it takes much CPU")
	onBoth(t, func(t *testing.T, s *status.Store, _ *redis.Client) {
		for round := range 12 {
			seed := rand.Uint64()
			r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // no secret
			s.LogCap = 500 + r.IntN(8000)
			g := grow(t, s, jobs.ID(fmt.Sprintf("a%d", round)))
			followers := []*follower{{grown: g, after: "0"}, {grown: g, after: "0"}, {grown: g, after: "0"}}
			for range 60 {
				lines := make([]string, 1+r.IntN(20))
				for i := range lines {
					lines[i] = fmt.Sprintf("%d %s", len(g.all)+i, strings.Repeat("x", r.IntN(40)))
					if r.IntN(5) == 0 {
						lines[i] = jobs.LeftOut(2 + r.IntN(1000)) // a worker's
					}
				}
				g.add(lines...)
				for i, f := range followers {
					if r.IntN(1+8*i) == 0 {
						f.read(1 + r.IntN(30))
					}
				}
				if r.IntN(6) == 0 {
					g.check()
				}
			}
			kept := g.check()
			if len(kept) == len(g.all) && s.LogCap < 4000 {
				t.Errorf("seed %d: nothing was dropped", seed)
			}
			for _, f := range followers {
				for f.read(1 + r.IntN(30)) {
				}
				if f.next != len(g.all) {
					t.Errorf("seed %d: a follower has read %d lines of %d", seed, f.next, len(g.all))
				}
			}
			g.readsTheSame(kept)
			finish(t, s, g.c, jobs.Outcome{State: jobs.Succeeded})
			g.all = append(g.all, "attempt 1 completed")
			g.readsTheSame(g.check()) // packed
			if t.Failed() {
				t.Fatalf("seed %d, cap %d", seed, s.LogCap)
			}
		}
	})
}

// readsTheSame reads parts of a log: lines after, before and up to each.
func (g *grown) readsTheSame(all []status.LogLine) {
	g.t.Helper()
	for i, l := range all {
		if i%7 != 0 && !strings.HasPrefix(l.Text, "…") {
			continue
		}
		for how, q := range map[string]status.LogQuery{"after": {Tail: 3, After: l.Pos}, "last": {Tail: i + 1}, "since": {Tail: 3, After: "0", Since: l.Time}} {
			first := slices.IndexFunc(all, func(o status.LogLine) bool { return !o.Time.Before(l.Time) })
			want := map[string][]status.LogLine{
				"after": all[i+1 : min(i+4, len(all))], "last": all[len(all)-i-1:], "since": all[first:min(first+3, len(all))],
			}[how]
			if got, err := g.s.Lines(g.t.Context(), g.c.Job, q); err != nil || !slices.Equal(got, want) {
				g.t.Errorf("%s %+v: %+v, %v; want %+v", how, l, got, err, want)
			}
		}
		if got, err := g.s.LinesBefore(g.t.Context(), g.c.Job, l.Pos, 2); err != nil || !slices.Equal(got, all[max(0, i-2):i]) {
			g.t.Errorf("before %+v: %+v, %v; want %+v", l, got, err, all[max(0, i-2):i])
		}
	}
}

func TestK06HeadOfALogStaysOverAllAttempts(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, _ *redis.Client) {
		s.LogCap = 4000
		g := grow(t, s, "a")
		g.add("the first line", "the second line")
		for attempt := range 5 {
			for range 5 {
				g.add(slices.Repeat([]string{strings.Repeat("x", 80)}, 10)...)
			}
			release(t, s, g.c, "again")
			g.c, g.n = claim(t, s, "a", time.Minute, jobs.Granted), 0
			g.all = append(g.all, fmt.Sprintf("attempt %d handed back: again", attempt+1), fmt.Sprintf("attempt %d started by w1", attempt+2))
		}
		finish(t, s, g.c, jobs.Outcome{State: jobs.Failed, Reason: "no PDF"})
		g.all = append(g.all, "attempt 6 failed: no PDF")
		if _, err := s.Requeue(t.Context(), jobs.Job{ID: "a", Kind: "mock"}); err != nil { // of a packed log
			t.Fatal(err)
		}
		g.all = append(g.all, "queued again after a failure")
		if kept := g.check(); len(kept) > 60 || kept[2].Text != "the second line" {
			t.Errorf("%d lines kept, the third is %q", len(kept), kept[2].Text)
		}
	})
}

// TestK06EmptyLinesAreNotForFree bounds the memory of a log of empty lines.
func TestK06EmptyLinesAreNotForFree(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		s.LogCap = 16_000
		g := grow(t, s, "a")
		for range 20 {
			g.add(make([]string, 100)...)
		}
		if n := rdb.LLen(t.Context(), "{job:a}:log").Val(); n > 1001 {
			t.Errorf("%d lines are kept in 16 kB of log", n)
		}
		g.check()
	})
}

// TestK06LineLongerThanALogIsKept shows that there is always a newest line.
func TestK06LineLongerThanALogIsKept(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, _ *redis.Client) {
		s.LogCap = 100
		g := grow(t, s, "a")
		for i := range 3 {
			g.add(strings.Repeat("x", 200) + fmt.Sprint(i))
			g.check()
		}
	})
}

// TestF35LogThatHasLostItsHeadGoesOn takes a log as earlier versions have left it, which
// dropped the oldest lines.
func TestF35LogThatHasLostItsHeadGoesOn(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		s.LogCap = 1000
		c := claim(t, s, "a", time.Minute, jobs.Granted)
		key, ms := "{job:a}:log", time.Now().Add(-time.Minute).UnixMilli()
		rdb.Del(t.Context(), key)
		if err := rdb.RPush(t.Context(), key, "7 3", fmt.Sprintf("%d a", ms), fmt.Sprintf("%d b", ms), fmt.Sprintf("%d c", ms)).Err(); err != nil {
			t.Fatal(err)
		}
		for i := range 30 {
			report(t, s, c, time.Minute, nil, jobs.Lines{Before: i, Text: []string{fmt.Sprintf("line %d %s", i, strings.Repeat("x", 90))}})
		}
		lines, err := s.Lines(t.Context(), "a", status.LogQuery{Tail: 100})
		if err != nil || len(lines) < 5 || len(lines) > 9 {
			t.Fatalf("%d lines, %v; want the newest 1000 bytes", len(lines), err)
		}
		for i, l := range lines {
			if n := 30 - len(lines) + i; !strings.HasPrefix(l.Text, fmt.Sprintf("line %d ", n)) || !strings.HasSuffix(l.Pos, fmt.Sprintf("-%d", 7+3+n+1)) {
				t.Errorf("line %+v, want number %d", l, n)
			}
		}
	})
}
