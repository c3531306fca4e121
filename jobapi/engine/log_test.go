package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/batchfleet/batchfleet/jobapi"
)

// written returns the lines that a step leaves in a log, without the engine's.
func written(t *testing.T, run func(Run)) []string {
	t.Helper()
	e := newEngine(t, Limits{})
	j := end(t, e, create(t, e, step("one", func(_ context.Context, r Run) (string, error) {
		run(r)
		return "", nil
	})))
	if j.Error != nil { // run has panicked, say
		t.Errorf("the step has failed: %+v, log %s", j.Error, logOf(t, e, j.ID))
	}
	lines := strings.Split(strings.TrimSuffix(logOf(t, e, j.ID), "\n"), "\n")
	return lines[1 : len(lines)-2] // started, succeeded, job succeeded
}

func TestJ12LogIsMadeOfLines(t *testing.T) {
	tests := []struct {
		name string
		run  func(Run)
		want []string
	}{
		{"one", func(r Run) { r.Logf("a %d%%", 1) }, []string{"a 1%"}},
		{"a text is no format", func(r Run) { text := "100%"; r.Logf(text) }, []string{"100%"}},
		{"ends with a newline", func(r Run) { r.Logf("a\n") }, []string{"a"}},
		{"several", func(r Run) { r.Logf("a\n\nb") }, []string{"a", "", "b"}},
		{"CR LF", func(r Run) { r.Logf("a\r\nb\r\n") }, []string{"a", "b"}},
		{"progress bar", func(r Run) { r.Logf("1%%\r2%%") }, []string{"1%%\r2%%"}},
		{"colors", func(r Run) { r.Logf("\x1b[1;31mred\x1b[0m \x1b]0;title\x07x\x07") }, []string{"red x "}},
		{"control", func(r Run) { r.Logf("a\tb\x00c\u202ed\u0085e\u2028f") }, []string{"a b c d e f"}},
		{"not UTF-8", func(r Run) { r.Logf("a\xffb") }, []string{"a\uFFFDb"}},
		{"Japanese", func(r Run) { r.Logf("ページ %d", 3) }, []string{"ページ 3"}},
		{"parts", func(r Run) {
			w := LogWriter(r)
			for _, part := range []string{"a", "b\nc", "", "d\n\ne", "f"} {
				if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
					panic(err)
				}
			}
			_ = w.Close()
			if _, err := w.Write([]byte("x")); err == nil {
				panic("a closed writer writes")
			}
		}, []string{"ab", "cd", "", "ef"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "progress bar" {
				tt.want = []string{"1%% 2%%"}
			}
			if d := cmp.Diff(tt.want, written(t, tt.run)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestJ12LinesOfSeveralWritersDoNotMix(t *testing.T) {
	lines := written(t, func(r Run) {
		var all sync.WaitGroup
		for w := range 8 {
			all.Go(func() {
				out := LogWriter(r)
				for i := range 100 {
					r.Logf("%d first %d\n%d second %d", w, i, w, i)
					for _, c := range fmt.Sprintf("%d writes %d\n", w, i) {
						_, _ = out.Write([]byte(string(c)))
					}
				}
			})
		}
		all.Wait()
	})
	if len(lines) != 8*300 {
		t.Errorf("%d lines", len(lines))
	}
	next := map[string]int{}
	for i, line := range lines {
		var w, n int
		var what string
		if _, err := fmt.Sscanf(line, "%d %s %d", &w, &what, &n); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		key := what + strconv.Itoa(w)
		if next[key] != n {
			t.Errorf("line %q comes after %d", line, next[key])
		}
		next[key]++
		if what == "first" && lines[i+1] != fmt.Sprintf("%d second %d", w, n) {
			t.Errorf("behind %q is %q", line, lines[i+1])
		}
	}
}

// TestJ12LinesOfOneCallAreSeenTogether looks at the last line of a log all the
// while that texts are written.
func TestJ12LinesOfOneCallAreSeenTogether(t *testing.T) {
	const first = "first of them"
	lines := written(t, func(r Run) {
		var reader sync.WaitGroup
		reading, done := make(chan struct{}), make(chan struct{})
		reader.Go(func() {
			close(reading)
			for {
				last, err := r.(*stepRun).job.log.read(jobapi.LogQuery{Tail: 1})
				if err != nil || last.Lines[0].Text == first {
					t.Errorf("a text is seen as far as line %v, %v", last.Lines, err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
		<-reading
		for range 50 {
			r.Logf(strings.Repeat(first+"\n", 2000) + "last")
		}
		close(done)
		reader.Wait()
	})
	if len(lines) == 0 || lines[len(lines)-1] != "last" {
		t.Errorf("%d lines", len(lines))
	}
}

func TestJ13LongLineIsCutBetweenCharacters(t *testing.T) {
	lines := written(t, func(r Run) {
		for i := range 3 { // one of them would be cut within é
			r.Logf("%s", strings.Repeat("x", i)+strings.Repeat("é ", 40_000))
		}
		r.Logf("%s", strings.Repeat("x ", maxLine/2))
		w := LogWriter(r)
		for range 3000 {
			_, _ = w.Write([]byte(strings.Repeat("ab ", 1000)))
		}
		if held := cap(w.(*logWriter).held); held > 2*maxHeld {
			panic(fmt.Sprintf("a writer holds %d bytes of a line", held))
		}
		_ = w.Close()
		r.Logf("%s\n%s", strings.Repeat("x ", maxLine), strings.Repeat("y ", maxLine))
		r.Logf("next")
	})
	if len(lines) != 8 || lines[7] != "next" {
		t.Fatalf("%d lines", len(lines))
	}
	for i, cut := range []bool{true, true, true, false, true, true, true} {
		if line := lines[i]; len(line) > maxLine || !utf8.ValidString(line) || strings.HasSuffix(line, " bytes cut]") != cut {
			t.Errorf("line %d has %d bytes and ends with %q", i, len(line), line[len(line)-30:])
		}
	}
}

func TestJ13FullLogLosesItsOldestLines(t *testing.T) {
	const n = 200_000
	e := newEngine(t, Limits{})
	j := end(t, e, create(t, e, step("one", func(_ context.Context, r Run) (string, error) {
		for i := range n {
			r.Logf("%09d %s", i, "some forty bytes of text for each line..")
		}
		return "", nil
	})))
	l := e.byID[j.ID].log
	if l.size > maxLog || l.size < maxLog-200 {
		t.Errorf("it keeps %d bytes", l.size)
	}
	if held := l.held.Load(); held > maxLog+2*chunkSize || held != e.Logs.Used() {
		t.Errorf("it holds %d bytes, the budget says %d", held, e.Logs.Used())
	}
	got, err := e.Log(t.Context(), j.ID, jobapi.LogQuery{Tail: n + 10})
	if err != nil || got.Dropped == 0 || got.Dropped+len(got.Lines) != n+3 {
		t.Fatalf("%d lines and %d dropped, %v", len(got.Lines), got.Dropped, err)
	}
	if bytes := len(got.Lines) * 50; bytes < maxLog*90/100 {
		t.Errorf("only %d bytes of text are kept", bytes)
	}
	for i, line := range got.Lines[:len(got.Lines)-2] {
		if want := fmt.Sprintf("%09d ", got.Dropped-1+i); !strings.HasPrefix(line.Text, want) || line.Pos != strconv.Itoa(got.Dropped+i+1) {
			t.Fatalf("line %d is %+v, want %s", i, line, want)
		}
	}
}

// TestJ13LimitsAreThoseOfTheContract has the numbers of SPEC.md, whatever the
// constants say.
func TestJ13LimitsAreThoseOfTheContract(t *testing.T) {
	e := newEngine(t, Limits{})
	j := end(t, e, create(t, e, step("one", func(_ context.Context, r Run) (string, error) {
		for range 120 {
			r.Logf("%s", strings.Repeat("x ", 32<<10-10)) // just fits
		}
		r.Logf("%s", strings.Repeat("x ", 32<<10+1))
		return "", nil
	})))
	l, err := e.Log(t.Context(), j.ID, jobapi.LogQuery{Tail: 5000})
	if err != nil {
		t.Fatal(err)
	}
	bytes, longest, cuts := 0, 0, 0
	for _, line := range l.Lines {
		bytes += len(line.Text)
		longest = max(longest, len(line.Text))
		if strings.HasSuffix(line.Text, " bytes cut]") {
			cuts++
		}
	}
	if bytes > 5<<20 || bytes < 5<<20-128<<10 || l.Dropped == 0 {
		t.Errorf("%d bytes are kept, %d lines dropped; want 5 MiB", bytes, l.Dropped)
	}
	if longest > 64<<10 || longest < 64<<10-100 || cuts != 1 {
		t.Errorf("the longest line has %d bytes, %d are cut; want 64 KiB and one", longest, cuts)
	}
	if got := (&LogBudget{}).limit(); got != 256<<20 {
		t.Errorf("all logs together may have %d bytes", got)
	}
}

func TestJ13AnEndedLogHasNoRoomToGrow(t *testing.T) {
	e := newEngine(t, Limits{})
	j := end(t, e, create(t, e, says("one", "")))
	if l := e.byID[j.ID].log; l.held.Load() != int64(l.size) || e.Logs.Used() != int64(l.size) {
		t.Errorf("a log of %d bytes holds %d, the budget says %d", l.size, l.held.Load(), e.Logs.Used())
	}
}

func TestJ11LogQueries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, Limits{})
		var began time.Time
		id := create(t, e, step("one", func(_ context.Context, r Run) (string, error) {
			began = time.Now()
			for i := range 10 {
				r.Logf("line %d", i)
				time.Sleep(time.Second)
			}
			return "", nil
		}))
		time.Sleep(9500 * time.Millisecond) // 11 lines: the engine's, then 0 to 9
		synctest.Wait()
		tests := []struct {
			name        string
			q           jobapi.LogQuery
			first, last int // Pos
		}{
			{"all", jobapi.LogQuery{Tail: 100}, 1, 11},
			{"tail", jobapi.LogQuery{Tail: 3}, 9, 11},
			{"since", jobapi.LogQuery{Tail: 100, Since: began.Add(4 * time.Second)}, 6, 11},
			{"just after", jobapi.LogQuery{Tail: 100, Since: began.Add(4*time.Second + time.Microsecond)}, 7, 11},
			{"since, then tail", jobapi.LogQuery{Tail: 2, Since: began.Add(4 * time.Second)}, 10, 11},
			{"since the future", jobapi.LogQuery{Tail: 2, Since: began.Add(time.Hour)}, 0, -1},
			{"since long ago", jobapi.LogQuery{Tail: 2, Since: began.Add(-time.Hour)}, 10, 11},
			{"after: the first of them", jobapi.LogQuery{Tail: 2, After: "4"}, 5, 6},
			{"after the start", jobapi.LogQuery{Tail: 2, After: jobapi.LogStart}, 1, 2},
			{"after and since", jobapi.LogQuery{Tail: 2, After: "4", Since: began.Add(6 * time.Second)}, 8, 9},
			{"after the last", jobapi.LogQuery{Tail: 2, After: "11"}, 0, -1},
			{"after what is not yet", jobapi.LogQuery{Tail: 2, After: "99"}, 0, -1},
		}
		for _, tt := range tests {
			l, err := e.Log(t.Context(), id, tt.q)
			if err != nil {
				t.Fatal(err)
			}
			var got, want []string
			for _, line := range l.Lines {
				got = append(got, line.Pos)
			}
			for pos := tt.first; pos <= tt.last; pos++ {
				want = append(want, strconv.Itoa(pos))
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s: %s", tt.name, d)
			}
		}
		var bad *jobapi.FieldError
		if _, err := e.Log(t.Context(), id, jobapi.LogQuery{Tail: 1, After: "4-2"}); !errors.As(err, &bad) || bad.Field != "after" {
			t.Errorf("bad place: %v", err)
		}
	})
}

// TestJ11SinceTheEdgesOfWhatIsKept asks for the lines since the last of a chunk,
// which is a full one, and since before the first that the log still has.
func TestJ11SinceTheEdgesOfWhatIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		l := newLog("job_x", &LogBudget{}, func(int) {})
		const line = chunkSize/4 - 50 // four a chunk
		for i := range 8*maxLog/chunkSize + 2 {
			l.add(own, strconv.Itoa(i)+strings.Repeat("x", line))
			time.Sleep(time.Second)
		}
		read := func(since time.Duration) []jobapi.Line {
			got, err := l.read(jobapi.LogQuery{Tail: 5000, Since: began.Add(since)})
			if err != nil {
				t.Fatal(err)
			}
			return got.Lines
		}
		kept := read(0)
		if first := strconv.FormatUint(l.first, 10); kept[0].Pos != first || l.head == 0 {
			t.Fatalf("since ever the log begins at line %s, want %s; it has lost %d bytes of a chunk", kept[0].Pos, first, l.head)
		}
		if dropped := time.Duration(l.first-3) * time.Second; len(read(dropped)) != len(kept) { //nolint:gosec // small
			t.Errorf("since a line that is dropped there are %d lines, want the %d that are left", len(read(dropped)), len(kept))
		}
		for i, want := range kept {
			if got := read(want.Time.Sub(began)); len(got) != len(kept)-i || got[0].Pos != want.Pos {
				t.Fatalf("since line %s there are %d lines from %s, want %d", want.Pos, len(got), got[0].Pos, len(kept)-i)
			}
		}
	})
}

// TestJ11TimesOfLinesDoNotDrift writes lines that are no whole microseconds apart.
func TestJ11TimesOfLinesDoNotDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog("job_x", &LogBudget{}, func(int) {})
		for range 100 {
			time.Sleep(1900 * time.Nanosecond)
			l.add(own, "line")
		}
		got, err := l.read(jobapi.LogQuery{Tail: 1})
		if err != nil || len(got.Lines) != 1 {
			t.Fatalf("%d lines, %v", len(got.Lines), err)
		}
		if off := time.Since(got.Lines[0].Time); off < 0 || off > time.Microsecond {
			t.Errorf("the last line is shown %s before it was written", off)
		}
	})
}

// TestLogIsWhatWasWritten holds a log against a plain list of lines.
func TestLogIsWhatWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLog("job_x", &LogBudget{}, func(int) {})
		var all []string
		for range rapid.IntRange(0, 40).Draw(t, "writes") {
			size := rapid.SampledFrom([]int{0, 1, 100, 20_000, maxLine}).Draw(t, "size")
			lines := make([]string, rapid.IntRange(1, 9).Draw(t, "lines"))
			for i := range lines {
				lines[i] = strconv.Itoa(len(all)+i) + strings.Repeat("x", size)
			}
			l.add(own, lines...)
			all = append(all, lines...)
			if rapid.IntRange(0, 9).Draw(t, "give") == 0 {
				l.budget.used.Add(-l.give())
			}
		}
		if rapid.Bool().Draw(t, "end") {
			l.end()
		}
		tail := rapid.IntRange(0, 400).Draw(t, "tail")
		got, err := l.read(jobapi.LogQuery{Tail: tail})
		if err != nil {
			t.Fatal(err)
		}
		want := all[got.Dropped:]
		want = want[max(0, len(want)-tail):]
		if len(got.Lines) != len(want) {
			t.Fatalf("%d lines of %d, %d dropped, tail %d", len(got.Lines), len(all), got.Dropped, tail)
		}
		kept, memory := 0, int64(0)
		for i, line := range got.Lines {
			if line.Text != want[i] || line.Pos != strconv.Itoa(len(all)-len(want)+i+1) {
				t.Fatalf("line %d is %.20q at %s, want %.20q", i, line.Text, line.Pos, want[i])
			}
		}
		for _, c := range l.parts {
			kept += len(c.buf)
			memory += int64(cap(c.buf))
		}
		if kept-l.head != l.size || l.size > maxLog || memory != l.held.Load() || memory != l.budget.Used() {
			t.Errorf("%d bytes kept, size %d; %d of memory, held %d, used %d", kept-l.head, l.size, memory, l.held.Load(), l.budget.Used())
		}
	})
}

func TestBudgetTakesFromEndedJobsFirstThenFromTheLargest(t *testing.T) {
	lost := map[string]int{}
	b := &LogBudget{Bytes: 10 * chunkSize}
	logs := map[string]*joblog{}
	for _, id := range []string{"a", "b", "c", "d"} {
		logs[id] = newLog(id, b, func(n int) { lost[id] += n })
	}
	line := strings.Repeat("x", chunkSize/4-20)
	fill := func(id string, chunks int) {
		for range 4 * chunks {
			logs[id].add(own, line)
		}
	}
	chunks := func() (s string) {
		for _, id := range []string{"a", "b", "c", "d"} {
			s += fmt.Sprint(len(logs[id].parts))
		}
		return s
	}
	fill("b", 2)
	fill("a", 2)
	fill("c", 2)
	fill("d", 2)
	logs["b"].end()
	logs["a"].end()
	if got := chunks(); got != "2222" {
		t.Fatalf("chunks are %s", got)
	}
	fill("d", 4) // a is the oldest that has ended
	if got := chunks(); got != "0226" {
		t.Errorf("chunks are %s after the first", got)
	}
	fill("d", 2)
	if got := chunks(); got != "0028" {
		t.Errorf("chunks are %s after the second", got)
	}
	fill("c", 3) // nothing of ended jobs is left: d has most
	if got := chunks(); got != "0055" {
		t.Errorf("chunks are %s after the third", got)
	}
	if lost["a"] != 8 || lost["b"] != 8 || lost["c"] != 0 || lost["d"] != 12 {
		t.Errorf("lost lines are %v", lost)
	}
	if b.Used() > b.Bytes {
		t.Errorf("%d bytes are used, of %d", b.Used(), b.Bytes)
	}
	for _, l := range logs {
		b.forget(l)
	}
	if b.Used() != 0 {
		t.Errorf("%d bytes are used by no log", b.Used())
	}
}

func TestAppendedLineCostsNoMemoryBesideItsText(t *testing.T) {
	l := newLog("job_x", &LogBudget{}, func(int) {})
	r := &stepRun{engine: &Engine{}, job: &job{log: l}}
	l.turn(1)
	line := "page 17 of 240: 3 tables, 1204 words, took 12.5ms, next: 18"
	for range 200_000 {
		r.Logf(line) // until it is full
	}
	if n := testing.AllocsPerRun(10_000, func() { r.Logf(line) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkLogf(b *testing.B) {
	l := newLog("job_x", &LogBudget{}, func(int) {})
	r := &stepRun{engine: &Engine{}, job: &job{log: l}}
	l.turn(1)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r.Logf("page %d of 240: 3 tables, 1204 words, took 12.5ms, next: %d", i, i+1)
	}
}
