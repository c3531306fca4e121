package output_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/command"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/output"
)

// rig is a Reader and what it has passed on, in virtual time.
type rig struct {
	output.Reader
	t     *testing.T
	began time.Time

	mu       sync.Mutex // the Reader has timers
	log      []string
	progress []string // "3/10 text", after the time in ms; "+" if the log has it
}

func inBubble(t *testing.T, test func(*testing.T, *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, began: time.Now()}
		r.Log = func(line string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.log = append(r.log, line)
		}
		r.Progress = func(p jobs.Progress) {
			line := fmt.Sprintf("%d: %d/%d %s", time.Since(r.began).Milliseconds(), p.Done, p.Total, p.Message)
			if p.Logged {
				line += " +"
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.progress = append(r.progress, line)
		}
		test(t, r)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// out writes lines to stdout: one that ends in "\r" is written over.
func (r *rig) out(lines ...string) { r.t.Helper(); r.to(command.Stdout, lines...) }

func (r *rig) to(stream command.Stream, lines ...string) {
	r.t.Helper()
	for _, line := range lines {
		var err error
		if over, ok := strings.CutSuffix(line, "\r"); ok {
			err = r.Overwritten(stream, []byte(over))
		} else {
			err = r.Line(stream, []byte(line), false)
		}
		if err != nil {
			r.t.Error(err)
		}
	}
}

// seen returns the log and the progress so far.
func (r *rig) seen() (log, progress []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.log), slices.Clone(r.progress)
}

// newest returns the newest progress.
func (r *rig) newest() string {
	_, progress := r.seen()
	return progress[len(progress)-1]
}

func (r *rig) wantLog(want ...string) {
	r.t.Helper()
	if log, _ := r.seen(); !slices.Equal(log, want) {
		r.t.Errorf("the log is %q, want %q", log, want)
	}
}

func (r *rig) wantProgress(want ...string) {
	r.t.Helper()
	if _, progress := r.seen(); !slices.Equal(progress, want) {
		r.t.Errorf("progress %q, want %q", progress, want)
	}
}

func TestK06EveryLineIsInTheLog(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.out("one", "", "two")
		r.to(command.Stderr, "warning: \xff\xfe\x1b[2J", "日本")
		if err := r.Line(command.Stdout, []byte(strings.Repeat("x", 64<<10)), true); err != nil {
			t.Error(err)
		}
		r.wantLog("one", "", "two", "warning: \uFFFD"+`\x1b[2J`, "日本", strings.Repeat("x", 64<<10-25)+" … (line cut at 64 KiB)")
	})
}

// lines returns which lines of a numbered output the log has, and how many it has or says were left out.
func (r *rig) lines() (numbers []int, all int) {
	r.t.Helper()
	log, _ := r.seen()
	for _, line := range log {
		all += jobs.LinesIn(line)
		if n := 0; jobs.LinesIn(line) == 1 {
			if _, err := fmt.Sscanf(line, "line %d", &n); err != nil {
				r.t.Fatalf("the log has %q", line)
			}
			numbers = append(numbers, n)
		}
	}
	return numbers, all
}

func TestK06OfAFloodTheNewestLinesOfEachSecondAreInTheLog(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		const second = 50_000
		for n := range 3 * second { // in three seconds, and the program goes on to run
			r.out(fmt.Sprintf("line %d", n))
			if n%100 == 99 {
				time.Sleep(2 * time.Millisecond)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		numbers, all := r.lines()
		if all != 3*second || !slices.IsSorted(numbers) || numbers[len(numbers)-1] != 3*second-1 {
			t.Errorf("the log tells of %d lines up to %d, want all of %d in order", all, numbers[len(numbers)-1], 3*second)
		}
		for i := range 1000 {
			if numbers[i] != i {
				t.Fatalf("line %d of the log is %d: the first thousand are to be there", i, numbers[i])
			}
		}
		if len(numbers) < 3*1400 || len(numbers) > 3*1600 {
			t.Errorf("the log has %d lines of three seconds, want 1500 of each", len(numbers))
		}
		r.out("line 150000")
		if numbers, _ := r.lines(); numbers[len(numbers)-1] != 150_000 {
			t.Errorf("after a pause the log ends with line %d, want the newest at once", numbers[len(numbers)-1])
		}
	})
}

func TestK06LinesThatAreNoFloodAreInTheLogAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		for n := range 5000 {
			r.out(fmt.Sprintf("line %d", n))
			if got := len(r.log); got != n+1 { // no timer is set
				t.Fatalf("after line %d the log has %d lines", n, got)
			}
			time.Sleep(time.Second / 999)
		}
	})
}

func TestK06FloodIsHeldInLittleMemory(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		for n := range 3000 {
			r.out(fmt.Sprintf("line %d %s", n, strings.Repeat("x", 5000)))
		}
		r.out("half\r") // which will be written over
		cut := strings.Repeat("é", 10)
		if err := r.Line(command.Stdout, []byte("cut "+cut), true); err != nil {
			t.Error(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		log, _ := r.seen()
		n, all, size := len(log), 0, 0
		for _, line := range log[1000:] {
			all, size = all+jobs.LinesIn(line), size+len(line)
		}
		if all != 2002 || size > 140_000 || size < 120_000 {
			t.Errorf("after the first thousand the log has %d bytes for %d lines, want some 128 KiB for 2002", size, all)
		}
		if want := []string{"half", "cut … (line cut)"}; !slices.Equal(log[n-2:], want) {
			t.Errorf("the log ends with %q, want %q", log[n-2:], want)
		}
	})
}

func TestK06ProgressBarIsALineASecond(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		for i := range 1000 { // for 10 s
			r.to(command.Stderr, fmt.Sprintf("%d downloaded\r", i))
			time.Sleep(10 * time.Millisecond)
		}
		r.to(command.Stderr, "1000 downloaded\r", "  \r", "done")
		synctest.Wait()
		log, _ := r.seen()
		n := len(log)
		if n < 12 || n > 13 || !slices.Equal(log[n-2:], []string{"1000 downloaded", "done"}) {
			t.Errorf("the log is %q, want a line a second, the last and done", log)
		}
	})
}

func TestK06LastLineThatIsWrittenOverIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.out("1 %\r", "2 %\r")
		r.wantLog("1 %")
		time.Sleep(time.Minute) // the program is silent
		synctest.Wait()
		r.wantLog("1 %", "2 %")
		r.out("3 %\r", "4 %\r")
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		r.wantLog("1 %", "2 %", "3 %", "4 %")
	})
}

func TestK06LineWhoseEndCameInTwoPartsIsNotLost(t *testing.T) {
	inBubble(t, func(_ *testing.T, r *rig) {
		r.out("one\r", "two\r", "three", "four\r", "five", "::progress 1/2\r", "six")
		r.wantLog("one", "two", "three", "four", "five", "six")
		r.wantProgress("0: 1/2 1/2")
	})
}

func TestK07ProgressOfACommandIsNoLineOfTheLog(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"::progress 3/10 resizing  b.png", "3/10 resizing  b.png"},
		{"::progress 3/10", "3/10 3/10"},
		{"::progress\t3/10\ttext", "3/10 text"},
		{"::progress 0.3 text", "3000/10000 text"},
		{"::progress 0.3", "3000/10000 30%"},
		{"::progress 30% text", "3000/10000 text"},
		{"::progress 30 text", "3000/10000 text"},
		{"::progress 30", "3000/10000 30%"},
		{"::progress 29%", "2901/10000 29%"}, // 2900 would be shown as 28 percent
		{"::progress 12.5%", "1250/10000 12%"},
		{"::progress 0", "0/10000 0%"},
		{"::progress 1", "100/10000 1%"},
		{"::progress 1.0", "10000/10000 100%"},
		{"::progress 250%", "10000/10000 100%"},
		{"::progress 11/10", "10/10 11/10"},
		{"::progress 1.5/3 GB", "5000/10000 GB"},
		{"::progress 99999999999/100000000000", "9999/10000 99999999999/100000000000"},
		{"::progress 3/10 \x1b[1m\xff", "3/10 \\x1b[1m\uFFFD"},
		{"::progress 3/10 " + strings.Repeat("x", 1000), "3/10 " + strings.Repeat("x", 508) + " …"},
	} {
		inBubble(t, func(_ *testing.T, r *rig) {
			r.out(tt.line)
			r.wantProgress("0: " + tt.want)
			r.wantLog()
		})
	}
}

func TestK07WhatIsNoProgressIsALine(t *testing.T) {
	for _, line := range []string{
		"::progress", "::progress ", "::progress half", "::progress 3/0", "::progress 0/0", "::progress -3/10", "::progress 3/-10",
		"::progress NaN", "::progress Inf%", "::progress nan/3", "::progress 0x10", "::progress 1e3/1e4", "::progress 1_0", "::progress 3/", "::progress /3", "::progress 1/2/3",
		"::progress .", "::progress %", "::progress 1.2.3", "::progress " + strings.Repeat("9", 400), "::progressed 3/10", " ::progress 3/10", "::PROGRESS 3/10",
	} {
		inBubble(t, func(_ *testing.T, r *rig) {
			r.out(line)
			r.wantProgress()
			r.wantLog(line)
		})
	}
}

func TestK07PatternFindsProgress(t *testing.T) {
	for _, tt := range []struct{ name, pattern, line, want string }{
		{"two groups are done and total", `^page (\d+) of (\d+)`, "page 3 of 10: ok", "3/10 page 3 of 10: ok +"},
		{"one group is a percentage", `(\d+) percent`, "at 41 percent", "4100/10000 at 41 percent +"},
		{"one with its sign", `(\d+%)`, "at 41%", "4100/10000 at 41% +"},
		{"the sign may follow", `at ([\d.]+)`, "at 0.5 %", "50/10000 at 0.5 % +"},
		{"or a fraction", `at ([\d.]+)`, "at 0.41", "4100/10000 at 0.41 +"},
		{"1 is a percent", `at ([\d.]+)`, "at 1", "100/10000 at 1 +"},
		{"1.0 is all", `at ([\d.]+)`, "at 1.0", "10000/10000 at 1.0 +"},
		{"further groups do not count", `(\d+) of (\d+) (.*)`, "3 of 10 files", "3/10 3 of 10 files +"},
		{"blanks in a group do not count", `\[(.{3})%\]`, "[ 41%] building", "4100/10000 [ 41%] building +"},
		{"a group that is not there is none", `(\d+) of x|(\d+)%`, "41%", ""},
		{"nor is one of letters", `page (\S+) of (\S+)`, "page one of ten", ""},
		{"nor a total of 0", `page (\d+) of (\d+)`, "page 0 of 0", ""},
		{"a pattern without groups finds nothing", `page`, "page 1", ""},
		{"what comes late in a line is not looked for", `(\d+)%`, strings.Repeat("x", 4096) + "41%", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(_ *testing.T, r *rig) {
				r.Pattern = regexp.MustCompile(tt.pattern)
				r.out(tt.line)
				if tt.want == "" {
					r.wantProgress()
				} else {
					r.wantProgress("0: " + tt.want)
				}
				r.wantLog(tt.line) // it is both
			})
		})
	}
}

func TestK07PatternDoesNotHoldUpAProgram(t *testing.T) {
	inBubble(t, func(_ *testing.T, r *rig) {
		r.Pattern = regexp.MustCompile(`(\d+)%`)
		r.out("1%")
		for range 257 { // a MiB
			r.out(strings.Repeat("x", 5000))
		}
		for range 257 {
			r.out(strings.Repeat("x", 5000))
		}
		r.out("2%") // is not looked at
		time.Sleep(2 * time.Second)
		r.out("3%")
		r.wantProgress("0: 100/10000 1% +", "2000: 300/10000 3% +")
	})
}

func TestK07ProgressBarIsNoLineOfTheLog(t *testing.T) {
	inBubble(t, func(_ *testing.T, r *rig) {
		r.Pattern = regexp.MustCompile(`(\d+)%`)
		r.to(command.Stderr, " 10%|#   |\r", " 20%|##  |\r")
		time.Sleep(time.Second)
		synctest.Wait()
		r.wantLog()
		r.wantProgress("0: 1000/10000 10%|#   |", "100: 2000/10000 20%|##  |")
	})
}

func TestK07ProgressNeverGoesBack(t *testing.T) {
	inBubble(t, func(_ *testing.T, r *rig) {
		for _, line := range []string{"3/10 a", "2/10 b", "1/100 c", "31% d", "0/1 e", "1/1 f", "5/10 g"} {
			r.out("::progress " + line)
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
		r.wantProgress("0: 3/10 a", "2000: 3/10 b", "4000: 3/10 c", "6000: 3100/10000 d", "8000: 3100/10000 e", "10000: 1/1 f", "12000: 1/1 g")
	})
}

func TestK07ProgressIsThinnedOutAndTheLastValueIsShown(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		for i := range 10_000 { // for 10 s
			r.out(fmt.Sprintf("::progress %d/10000", i+1))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		_, progress := r.seen()
		if n := len(progress); n < 95 || n > 105 {
			t.Errorf("%d values in 10 s, want ten a second", n)
		}
		if last := progress[len(progress)-1]; !strings.HasSuffix(last, " 10000/10000 10000/10000") {
			t.Errorf("the last value is %q", last)
		}
	})
}

func TestK07TextAloneIsShownOnceASecond(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		for i := range 1000 { // for 10 s
			r.out(fmt.Sprintf("::progress 3/10 file %d", i))
			time.Sleep(10 * time.Millisecond)
		}
		synctest.Wait()
		if _, progress := r.seen(); len(progress) < 10 || len(progress) > 12 {
			t.Errorf("%d texts in 10 s, want one a second: %q", len(progress), progress)
		}
		r.out("::progress 4/10 file", "::progress 4/10 file") // a value does not wait for that second
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if last := r.newest(); !strings.HasSuffix(last, "4/10 file") {
			t.Errorf("the last is %q", last)
		}
		r.out("::progress 4/10 done")
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if last := r.newest(); !strings.HasSuffix(last, "4/10 done") {
			t.Errorf("after the end the last is %q", last)
		}
	})
}

func TestLastLineOfStderrIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		want := func(want string) {
			t.Helper()
			if got := r.Last(); got != want {
				t.Errorf("last line %q, want %q", got, want)
			}
		}
		want("")
		r.Pattern = regexp.MustCompile(`(\d+)%`)
		r.to(command.Stderr, "10%\r")
		want("10%")
		r.to(command.Stderr, "Traceback:", "  \tValueError: no\tsuch \x1b[1mfile\xff", "", "  ", "::progress 1/2", "20%", "30%\r")
		r.out("bye")
		want(`ValueError: no such \x1b[1mfile` + "\uFFFD")
		r.to(command.Stderr, strings.Repeat("x", 60_000))
		want(strings.Repeat("x", 1020) + " …")
	})
}

func TestK06TheWholeTextIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var text strings.Builder
		r.Text = &text
		r.out("one", "", "two\r", "::progress 1/2", "th\xffree")
		r.to(command.Stderr, "four")
		if err := r.Line(command.Stderr, []byte("five"), true); err != nil {
			t.Error(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if got, want := text.String(), "one\n\ntwo\n::progress 1/2\nth\xffree\nfour\nfive … (line cut)\n"; got != want {
			t.Errorf("the text is %q, want %q", got, want)
		}
	})
}

func TestK06TextOverItsLimitSaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var text strings.Builder
		r.Text, r.TextLimit = &text, 10
		r.out("1234", "12345", "x", "1234", "1")
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if got, want := text.String(), "1234\n… (15 bytes left out here: the limit is 10 bytes)\n"; got != want {
			t.Errorf("the text is %q, want %q", got, want)
		}
		r.wantLog("1234", "12345", "x", "1234", "1")
	})
}

func TestK06TextThatCannotBeWrittenStopsTheProgram(t *testing.T) {
	full := errors.New("no space left")
	r := output.Reader{Log: func(string) {}, Text: writer(func() error { return full })}
	var err error
	for range 10_000 {
		if err = r.Line(command.Stdout, []byte("a line"), false); err != nil {
			break
		}
	}
	if !errors.Is(err, full) || !errors.Is(r.Close(), full) {
		t.Errorf("line %v, then close %v; want the error of the writer", err, r.Close())
	}
}

type writer func() error

func (w writer) Write([]byte) (int, error) { return 0, w() }

// FuzzProgress gives a Reader any lines: progress stays what it must be.
func FuzzProgress(f *testing.F) {
	f.Add("::progress 3/10 x\n::progress 1e309\n::progress 0.999999999999", `(\d+)/(\d+)`)
	f.Add("10% 20%\r\n0.5\r1.0 of 3", `([\d.]+)(%| of \d)?`)
	f.Add("page \xff3 of 10", `page .?(.+) of (.+)`)
	f.Fuzz(func(t *testing.T, text, pattern string) {
		r := output.Reader{Log: func(line string) {
			if len(line) > jobs.MaxLine || jobs.Visible(line) != line {
				t.Errorf("line %q", line)
			}
		}}
		before := 0.0
		r.Progress = func(p jobs.Progress) {
			now := float64(p.Done) / float64(p.Total)
			if p.Done < 0 || p.Total <= 0 || p.Done > p.Total || now < before || len(p.Message) > 512 || p.Message != jobs.VisibleLine(p.Message) {
				t.Errorf("progress %+v after %f", p, before)
			}
			before = now
		}
		r.Pattern, _ = regexp.Compile(pattern) // nil if it is none
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			over, isOver := strings.CutSuffix(line, "\r")
			var err error
			if isOver {
				err = r.Overwritten(command.Stderr, []byte(over))
			} else {
				err = r.Line(command.Stderr, []byte(line), false)
			}
			if err != nil {
				t.Error(err)
			}
		}
		if last := r.Last(); len(last) > 1<<10 || last != jobs.VisibleLine(last) {
			t.Errorf("last %q", last)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

func BenchmarkLine(b *testing.B) {
	line := []byte("a line of the log as programs write it: 1204 words, 12.5 ms")
	for name, pattern := range map[string]*regexp.Regexp{
		"without a pattern": nil,
		"with one":          regexp.MustCompile(`^page (\d+) of (\d+)`),
		"with a slow one":   regexp.MustCompile(`(\d+)%`),
	} {
		b.Run(name, func(b *testing.B) {
			r := output.Reader{Log: func(string) {}, Progress: func(jobs.Progress) {}, Pattern: pattern}
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				_ = r.Line(command.Stdout, line, false)
			}
		})
	}
}
