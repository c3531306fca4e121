package command_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/command"
	"github.com/batchfleet/batchfleet/internal/testrun"
)

// shell is a command that runs a script.
func shell(script string) *command.Command {
	return &command.Command{
		Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"PATH=/usr/bin:/bin"},
		Limits: command.Limits{Wall: time.Minute},
	}
}

// runLog runs c and returns what it wrote, with "…" after lines that were cut.
func runLog(t *testing.T, c *command.Command) (log map[command.Stream][]string, usage command.Usage, err error) {
	t.Helper()
	log = map[command.Stream][]string{}
	c.Output = func(s command.Stream, line []byte, cut bool) error {
		text := string(line)
		if cut {
			text += "…"
		}
		log[s] = append(log[s], text)
		return nil
	}
	usage, err = c.Run(t.Context())
	return log, usage, err
}

func TestK06OutputPassesTheLinesOfBothStreams(t *testing.T) {
	log, usage, err := runLog(t, shell(`printf 'one\r\n'; printf '\r 10%%\r 20%%\n' >&2; printf 'two\rthree\n\nfo'; printf 'ur'; printf 'bye' >&2; exit 3`))
	exit := wantExit(t, err, command.Exited)
	if exit.Code != 3 || !strings.HasSuffix(exit.Stderr, " 20%\nbye") || usage.Dropped != 0 {
		t.Errorf("code %d, stderr %q, dropped %d", exit.Code, exit.Stderr, usage.Dropped)
	}
	if got, want := log[command.Stdout], []string{"one", "two", "three", "", "four"}; !slices.Equal(got, want) {
		t.Errorf("stdout %q, want %q", got, want)
	}
	if got, want := log[command.Stderr], []string{"", " 10%", " 20%", "bye"}; !slices.Equal(got, want) {
		t.Errorf("stderr %q, want %q", got, want)
	}
}

func TestK06LinesThatAreWrittenOverAreToldApart(t *testing.T) {
	c := shell(`printf 'one\r\n 10%%\r 20%%\r\n\rtwo\nlast\r'`)
	var over []string
	c.Overwritten = func(s command.Stream, line []byte) error {
		over = append(over, s.String()+" "+string(line))
		return nil
	}
	log, _, err := runLog(t, c)
	if got, want := log[command.Stdout], []string{"one", " 20%", "two"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("lines %q, %v; want %q", got, err, want)
	}
	if want := []string{"stdout  10%", "stdout ", "stdout last"}; !slices.Equal(over, want) {
		t.Errorf("overwritten %q, want %q", over, want)
	}
}

func TestK06LongLineIsCutAndTheProgramGoesOn(t *testing.T) {
	c := shell(`head -c 1000000 /dev/zero | tr '\0' x; echo; echo after`)
	c.Limits.LineBytes = 64 << 10
	log, _, err := runLog(t, c)
	want := []string{strings.Repeat("x", 64<<10) + "…", "after"}
	if got := log[command.Stdout]; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %d lines, %v; want the first 64 KiB and the next line", len(got), err)
	}
}

func TestR43ProgramThatWritesTooMuchDoesNotBlock(t *testing.T) {
	c := self("both") // more than the pipes hold
	c.Limits.OutputBytes = 1001
	log, usage, err := runLog(t, c)
	if err != nil || usage.Dropped != 2*20_000*11-1001 {
		t.Errorf("dropped %d bytes, %v", usage.Dropped, err)
	}
	kept := 0
	for s, lines := range log {
		for i, line := range lines {
			whole := line == "0123456789"
			if cut := strings.HasSuffix(line, "…") && i == len(lines)-1; !whole && !cut {
				t.Errorf("%s: line %q", s, line)
			}
			kept += len(strings.TrimSuffix(line, "…"))
		}
	}
	if kept > 1001 || kept < 800 {
		t.Errorf("kept %d bytes", kept)
	}
}

func TestOutputErrorStopsTheProcess(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it waits for seconds")
	for _, script := range []string{"yes", "yes >&2", "echo once >&2; sleep 1000", "printf unfinished; exec >&-; sleep 1000"} {
		enough := errors.New("enough")
		c, calls := shell(script), 0
		c.Output = func(command.Stream, []byte, bool) error { calls++; return enough }
		if _, err := c.Run(t.Context()); !errors.Is(err, enough) || calls != 1 {
			t.Errorf("Run of %q = %v after %d calls, want the error of the first", script, err, calls)
		}
	}
}

func TestOutputPanicLeavesNothing(t *testing.T) {
	t.Parallel()
	c, pid := shell("echo pain >&2; yes; sleep 1000"), 0
	c.Started = func(p command.Process) error { pid = p.PID; return nil }
	c.Output = func(s command.Stream, _ []byte, _ bool) error {
		if s == command.Stderr {
			panic("ouch")
		}
		return nil
	}
	wantPanic(t, c, "ouch")
	wantGone(t, pid)
}

func TestStopEndsAProcessThatWritesToBothStreams(t *testing.T) {
	t.Parallel()
	stopped := errors.New("canceled")
	ctx, cancel := context.WithCancelCause(t.Context())
	c, seen := shell("yes & yes >&2"), map[command.Stream]bool{}
	c.Output = func(s command.Stream, _ []byte, _ bool) error {
		if seen[s] = true; len(seen) == 2 {
			cancel(stopped)
		}
		return nil
	}
	if _, err := c.Run(ctx); !errors.Is(err, stopped) {
		t.Errorf("Run = %v, want the cause", err)
	}
}

func TestLineAndOutputExcludeEachOther(t *testing.T) {
	c := shell("true")
	c.Line = func([]byte) error { return nil }
	if _, _, err := runLog(t, c); err == nil {
		t.Error("both Line and Output were accepted")
	}
}

func BenchmarkOutput(b *testing.B) {
	c := shell("yes 'a line of the log as programs write it' | head -c 50000000")
	c.Output = func(command.Stream, []byte, bool) error { return nil }
	b.SetBytes(50_000_000)
	for b.Loop() {
		if _, err := c.Run(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func ExampleCommand_output() {
	c := command.Command{
		Path: "/bin/sh", Args: []string{"-c", `printf '10%%\r100%%\r\n'; echo a very long line`},
		Limits: command.Limits{LineBytes: 6},
		Output: func(_ command.Stream, line []byte, cut bool) error {
			fmt.Printf("%s, cut: %t\n", line, cut)
			return nil
		},
	}
	if _, err := c.Run(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 10%, cut: false
	// 100%, cut: false
	// a very, cut: true
}

func TestChunkPassesBytesAsTheyAre(t *testing.T) {
	var got [command.Stderr + 1][]byte
	c := shell(`printf 'a\r\n\000\377b'; printf 'c\nd' >&2; exit 3`)
	c.Chunk = func(s command.Stream, p []byte) error {
		got[s] = append(got[s], p...)
		return nil
	}
	c.Limits.OutputBytes = 1 // is for the others
	_, err := c.Run(t.Context())
	e := wantExit(t, err, command.Exited)
	if e.Code != 3 || e.Stderr != "c\nd" {
		t.Errorf("ended with %d and %q, want 3 and what was written to stderr", e.Code, e.Stderr)
	}
	if string(got[command.Stdout]) != "a\r\n\x00\xffb" || string(got[command.Stderr]) != "c\nd" {
		t.Errorf("got %q and %q", got[command.Stdout], got[command.Stderr])
	}
}

func TestChunkStopsTheProcess(t *testing.T) {
	enough := errors.New("enough")
	total := 0
	c := shell(`exec yes >&2`)
	c.Chunk = func(_ command.Stream, p []byte) error {
		if total += len(p); total > 1<<20 {
			return enough
		}
		return nil
	}
	if _, err := c.Run(t.Context()); !errors.Is(err, enough) {
		t.Errorf("Run returned %v, want %v", err, enough)
	}
}
