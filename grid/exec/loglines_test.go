package exec

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/command"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestG18LinesReachTheLog(t *testing.T) {
	for _, tt := range []struct {
		name   string
		writes []string
		want   []string
	}{
		{"lines", []string{"a\nb\n\nc\n"}, []string{"a", "b", "", "c"}},
		{"in parts", []string{"a", "b\nc", "\n", "d"}, []string{"ab", "c", "d"}},
		{"of Windows", []string{"a\r\nb\r", "\n"}, []string{"a", "b"}},
		{"written over", []string{"1%\r2%\r", "3%\r", "4%", "\r5%\rdone\n"}, []string{"done"}},
		{"no text", []string{"a\xff\n"}, []string{"a\uFFFD"}},
		{"a long one", []string{strings.Repeat("x", logLine), "y", "z\nb\n"}, []string{jobs.LogLine(strings.Repeat("x", logLine), true), "b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			l := &logLines{log: func(line string) { got = append(got, line) }}
			for _, w := range tt.writes {
				l.write(command.Stdout, []byte(w))
			}
			l.close()
			if !slices.Equal(got, tt.want) {
				t.Errorf("the log has %.200q, want %.200q", got, tt.want)
			}
		})
	}
}

func TestG18StreamsAreSeparate(t *testing.T) {
	var got []string
	l := &logLines{log: func(line string) { got = append(got, line) }}
	l.write(command.Stdout, []byte("a"))
	l.write(command.Stderr, []byte("x\n"))
	l.write(command.Stdout, []byte("b\n"))
	l.close()
	if want := []string{"x", "ab"}; !slices.Equal(got, want) {
		t.Errorf("the log has %q, want %q", got, want)
	}
}

func TestG18FloodKeepsNewestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		l := &logLines{log: func(line string) { got = append(got, line) }}
		n := 0
		flood := func(chunks int) {
			for range chunks {
				var b bytes.Buffer
				for b.Len() < 16<<10 {
					n++
					fmt.Fprintln(&b, n)
				}
				l.write(command.Stdout, b.Bytes())
			}
		}
		flood(1000)
		l.mu.Lock() // the timer gives to the log as well
		looked := len(got)
		l.mu.Unlock()
		time.Sleep(logEvery)
		synctest.Wait()
		if newest := got[len(got)-1]; newest != fmt.Sprint(n) {
			t.Errorf("a second after a flood the newest line in the log is %q, want %d", newest, n)
		}
		if len(got) > 2*looked || looked > logBytes/2 {
			t.Errorf("of %d lines %d are looked at", n, len(got))
		}
		all := 0
		for _, line := range got {
			all += jobs.LinesIn(line)
		}
		if all != n {
			t.Errorf("%d lines are in the log or were counted, want %d", all, n)
		}
		time.Sleep(time.Minute)
		flood(1)
		l.close()
		if newest := got[len(got)-1]; newest != fmt.Sprint(n) {
			t.Errorf("at the end the newest line is %q, want %d", newest, n)
		}
	})
}

func TestG18FloodTakesLittleMemory(t *testing.T) {
	l := &logLines{log: func(string) {}}
	chunk := bytes.Repeat([]byte("y\n"), 8<<10)
	l.write(command.Stdout, bytes.Repeat(chunk, 17)) // more than is looked at
	l.write(command.Stdout, chunk)
	if n := testing.AllocsPerRun(1000, func() { l.write(command.Stdout, chunk) }); n > 0 {
		t.Errorf("a chunk of a flood costs %v allocations", n)
	}
	l.close()
}

func BenchmarkFloodOfLines(b *testing.B) {
	l := &logLines{log: func(string) {}}
	chunk := bytes.Repeat([]byte("y\n"), 8<<10)
	b.SetBytes(int64(len(chunk)))
	for b.Loop() {
		l.write(command.Stdout, chunk)
	}
	l.close()
}
