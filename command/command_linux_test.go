package command_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/command"
	"github.com/batchfleet/batchfleet/internal/testrun"
)

func TestF73LinesArriveInOrder(t *testing.T) {
	c := self("echo")
	c.Stdin = strings.NewReader("one\ntwo\n\nfour")
	got, err := run(t, c)
	if want := "echo one|echo two|echo |echo four"; err != nil || strings.Join(got, "|") != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	got, err = run(t, self("say", "no newline", "at the end"))
	if err != nil || strings.Join(got, "|") != "no newline|at the end" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestF73TruncatedLastLineIsNotALine(t *testing.T) {
	got, err := run(t, self("say-exit", "3", "whole\nhal"))
	_ = wantExit(t, err, command.Exited)
	if strings.Join(got, "|") != "whole" {
		t.Errorf("got %q, want only the whole line", got)
	}
}

func TestF73NothingIsInherited(t *testing.T) {
	t.Setenv("SECRET", "x")
	c := self("env", "a b", "$HOME")
	c.Dir = t.TempDir()
	got, err := run(t, c)
	if want := fmt.Sprintf(`["a b" "$HOME"] ["%s=env" "%s"] %s`, childEnv, noRaceSleep, c.Dir); err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	bare := &command.Command{Path: "/usr/bin/env"} // no Env at all
	if got, err := run(t, bare); err != nil || len(got) != 1 || !strings.HasPrefix(got[0], command.Marker+"=") {
		t.Errorf("env without an environment printed %q, %v", got, err)
	}
}

func TestF73ExitErrorsSayHowItEnded(t *testing.T) {
	testrun.Long(t, "it waits for seconds")
	tests := []struct {
		name   string
		c      *command.Command
		limits command.Limits
		reason command.Reason
		code   int
		signal syscall.Signal
		says   string
	}{
		{"exit code", self("exit", "3", "what went wrong\n"), command.Limits{}, command.Exited, 3, 0, "exit status 3: what went wrong"},
		{"signal", self("die"), command.Limits{CPU: time.Minute}, command.Signaled, -1, syscall.SIGKILL, "ended by signal 9 (killed)"},
		{"a crash keeps its first words", withTrace(self("crash")), command.Limits{}, command.Exited, 2, 0, "panic: the first words"},
		{"wall", self("sleep"), command.Limits{Wall: 200 * time.Millisecond}, command.OverWall, -1, syscall.SIGKILL, "took too long (limit: 200ms)"},
		{"cpu", self("cpu"), command.Limits{CPU: 500 * time.Millisecond}, command.OverCPU, -1, syscall.SIGKILL, "limit: 1s of CPU time"},
		{"memory", self("memory"), command.Limits{Memory: 256<<20 + raceMemory}, command.OverMemory, outOfMemory, 0, "bytes of memory"},
		{"huge line", self("huge-line"), command.Limits{LineBytes: 64 << 10}, command.OverOutput, -1, syscall.SIGKILL, "limit: 65536 bytes a line"},
		{"endless output", self("endless"), command.Limits{OutputBytes: 1 << 20}, command.OverOutput, -1, syscall.SIGKILL, "limit: 1048576 bytes of output"},
		{"endless stderr", self("endless-stderr"), command.Limits{OutputBytes: 1 << 20}, command.OverOutput, -1, syscall.SIGKILL, "complaint"},
		{"open files", self("files"), command.Limits{OpenFiles: 20}, command.Exited, 4, 0, "too many open files"},
		{"file size", self("file", t.TempDir()+"/f"), command.Limits{FileBytes: 1000}, command.Exited, 5, 0, "file too large"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.c.Limits = tt.limits
			tt.c.Limits.Wall = cmp.Or(tt.limits.Wall, time.Minute)
			_, err := run(t, tt.c)
			exit := wantExit(t, err, tt.reason)
			if exit.Code != tt.code || exit.Signal != tt.signal {
				t.Errorf("code %d, signal %d; want %d, %d", exit.Code, exit.Signal, tt.code, tt.signal)
			}
			if !strings.Contains(err.Error(), tt.says) {
				t.Errorf("the error says\n%v\nwant it to say %q", err, tt.says)
			}
			if len(exit.Stderr) > 4<<10 {
				t.Errorf("kept %d bytes of stderr, want at most 4 KiB", len(exit.Stderr))
			}
		})
	}
}

func TestF73HealthyChildRunsUnderLimits(t *testing.T) {
	c := self("echo")
	c.Limits = command.Limits{
		Memory: 128<<20 + raceMemory, CPU: 10 * time.Second, Wall: time.Minute, FileBytes: 1 << 20,
		OpenFiles: 64, LineBytes: 1000, OutputBytes: 1000,
	}
	if got, err := run(t, c); err != nil || strings.Join(got, "|") != "echo request" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestF73ProcessDiesBeforeTheCallerAndLeavesNoCore(t *testing.T) {
	got, err := run(t, self("limits"))
	if want := "core 0, score 1000|<nil>"; err != nil || strings.Join(got, "|") != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestUsageIsReported(t *testing.T) {
	testrun.Long(t, "it waits for seconds")
	// It ends by the account that is reported. The kernel's limit goes by ticks,
	// which run ahead of that when others want the CPU.
	usage, err := self("spin").Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if usage.CPU < 900*time.Millisecond || usage.Wall < usage.CPU/4 || usage.MaxMemory < 1<<20 || usage.MaxMemory > 1<<30 {
		t.Errorf("usage %+v", usage)
	}
}

func TestBothPipesAreDrained(t *testing.T) {
	lines := 0
	c := self("both")
	c.Line = func([]byte) error { lines++; return nil }
	if _, err := run(t, c); err != nil || lines != 20_000 {
		t.Errorf("%d lines, %v; want 20000", lines, err)
	}
	c.Line = nil
	c.Stdin = nil
	if _, err := c.Run(t.Context()); err != nil {
		t.Errorf("without Line: %v", err)
	}
}

func TestLineErrorStopsTheProcess(t *testing.T) {
	enough := errors.New("enough")
	c, calls := self("endless"), 0
	c.Line = func([]byte) error {
		if calls++; calls == 3 {
			return enough
		}
		return nil
	}
	if _, err := run(t, c); !errors.Is(err, enough) || calls != 3 {
		t.Errorf("Run = %v after %d calls, want the error of the third", err, calls)
	}
}

func TestLinePanicLeavesNothing(t *testing.T) {
	c, pid := self("sleep"), 0
	c.Line = func(line []byte) error { pid = number(string(line)); panic("ouch") }
	wantPanic(t, c, "ouch")
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is still there: %v", pid, err)
	}
}

func TestCanceledContextStopsTheProcess(t *testing.T) {
	for _, tt := range []struct {
		child string
		grace time.Duration
		want  string
	}{
		{"sleep", 0, ""},
		{"polite", time.Minute, "ready|bye"},
		{"stubborn", 100 * time.Millisecond, "ready"},
	} {
		t.Run(tt.child, func(t *testing.T) {
			lost := errors.New("lost the lease")
			ctx, cancel := context.WithCancelCause(t.Context())
			var lines []string
			c := self(tt.child)
			c.Grace = tt.grace
			c.Line = func(line []byte) error {
				lines = append(lines, string(line))
				cancel(lost)
				return nil
			}
			if _, err := c.Run(ctx); !errors.Is(err, lost) {
				t.Errorf("Run = %v, want the cause", err)
			}
			if got := strings.Join(lines, "|"); tt.want != "" && got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if _, err := c.Run(ctx); !errors.Is(err, lost) {
				t.Errorf("Run with a canceled context = %v, want the cause", err)
			}
		})
	}
}

func TestSlowReaderMissesNothing(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it waits for seconds")
	// The process is gone for longer than Run has patience when the first line
	// has been handled; the rest is still in the pipe.
	c, got := self("say", "x", strings.Repeat("y", 40<<10), "z", ""), ""
	c.Line = func(line []byte) error {
		if got += string(line[:1]); got == "x" {
			<-time.After(2500 * time.Millisecond)
		}
		return nil
	}
	if _, err := run(t, c); err != nil || got != "xyz" {
		t.Errorf("got %q, %v; want xyz", got, err)
	}
}

func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("echo\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]*command.Command{
		"start /nonexistent/file: no such file or directory": {Path: "/nonexistent/file"},
		"start : no such file or directory":                  {},
		"start " + dir + ": permission denied":               {Path: dir},
		"start /bin/true: no such file or directory":         {Path: "/bin/true", Dir: "/nonexistent"},
		"start /bin/true: invalid argument":                  {Path: "/bin/true", Args: []string{"a\x00b"}},
		"start " + text + ": exec format error: a script begins with a line such as #!/bin/sh, and other programs are built for the machine they run on": {Path: text},
	} {
		if _, err := c.Run(t.Context()); err == nil || err.Error() != want {
			t.Errorf("Run of %+v = %v, want %s", c, err, want)
		}
	}
}

func TestManyRunsLeakNothing(t *testing.T) {
	testrun.Long(t, "it waits for seconds")
	runs := func(n int) {
		for i := range n {
			c := self([]string{"echo", "huge-line", "sleep", "exit"}[i%4], "3", "x")
			c.Limits = command.Limits{LineBytes: 1000, Wall: time.Minute}
			if i%4 == 2 {
				c.Line = func([]byte) error { return io.ErrNoProgress }
			}
			_, _ = run(t, c) // most fail as they should
		}
	}
	runs(8)
	before := openFiles(t)
	runs(192)
	if after := openFiles(t); after > before {
		t.Errorf("%d open files, %d before", after, before)
	}
	var status syscall.WaitStatus
	if pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
		t.Errorf("a child is left: %d, %v", pid, err)
	}
	// Goroutines are checked in TestMain.
}

func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

func BenchmarkRunTrue(b *testing.B) {
	for b.Loop() {
		c := &command.Command{Path: "/bin/true"}
		if _, err := c.Run(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRunGoChild(b *testing.B) {
	for b.Loop() {
		if _, err := self("nothing").Run(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
