//go:build linux

package command_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"go.uber.org/goleak"

	"github.com/batchfleet/batchfleet/command"
)

// childEnv makes the test binary run as one of children instead of the tests.
const childEnv = "COMMAND_TEST_CHILD"

// noRaceSleep keeps the race detector from sleeping a second at every exit.
const noRaceSleep = "GORACE=atexit_sleep_ms=0"

// What is different for a child with the race detector.
var (
	raceMemory  int64 // what it needs more
	outOfMemory = 2   // its exit code when it is refused memory
)

func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		children[name](os.Args[1:])
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// children are what a process may do, good and bad.
var children = map[string]func(args []string){
	"nothing": func([]string) {},
	"echo": func([]string) {
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			fmt.Println("echo", in.Text())
		}
	},
	"env": func(args []string) {
		dir, _ := os.Getwd()
		env := slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, command.Marker+"=") })
		fmt.Printf("%q %q %s\n", args, env, dir)
	},
	"say":      func(args []string) { fmt.Print(strings.Join(args, "\n")) },
	"say-exit": func(args []string) { fmt.Print(args[1]); os.Exit(number(args[0])) },
	"exit":     func(args []string) { fmt.Fprint(os.Stderr, args[1]); os.Exit(number(args[0])) },
	"die":      func([]string) { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL); select {} },
	"crash": func([]string) {
		await()
		for range 200 { // a long trace
			go func() { select {} }()
		}
		panic("the first words")
	},
	"huge-line": func([]string) { _, _ = io.CopyN(os.Stdout, endless("x"), 1<<20); fmt.Println() },
	"endless":   func([]string) { _, _ = io.Copy(os.Stdout, endless("line\n")) },
	"endless-stderr": func([]string) {
		_, _ = io.Copy(os.Stderr, endless("complaint\n"))
	},
	"both": func([]string) { // more than a pipe holds, on both sides
		for range 20_000 {
			fmt.Println("0123456789")
			fmt.Fprintln(os.Stderr, "0123456789")
		}
	},
	"memory": func([]string) {
		await()
		var hog [][]byte
		for range 64 {
			hog = append(hog, bytes.Repeat([]byte{1}, 16<<20))
		}
		fmt.Println(len(hog))
	},
	"cpu": func([]string) {
		await()
		for i := 0; ; i++ {
			_ = i
		}
	},
	"spin": func([]string) {
		await()
		for spent := time.Duration(0); spent < 950*time.Millisecond; {
			var u syscall.Rusage
			if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
				panic(err)
			}
			spent = time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	},
	"limits": func([]string) {
		await()
		var l syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_CORE, &l); err != nil {
			panic(err)
		}
		score, err := os.ReadFile("/proc/self/oom_score_adj")
		fmt.Printf("core %d, score %s%v\n", l.Max, score, err)
	},
	"sleep": func([]string) { fmt.Println(os.Getpid()); time.Sleep(time.Hour) },
	"polite": func([]string) { // ends on SIGTERM with a last word
		term := make(chan os.Signal, 1)
		signal.Notify(term, syscall.SIGTERM)
		fmt.Println("ready")
		<-term
		fmt.Println("bye")
	},
	"stubborn": func([]string) {
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
		time.Sleep(time.Hour)
	},
	"parent": func(args []string) { // leaves a child behind that holds the pipes
		child := self("sleep")
		c := exec.Command(child.Path)
		c.Env, c.Stdout, c.Stderr = child.Env, os.Stdout, os.Stderr
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: args[0] != "leave" && args[0] != "stay"}
		if strings.HasPrefix(args[0], "daemon") { // keeps what it was given, as most do
			c.Env = append(os.Environ(), child.Env...)
		}
		if err := c.Start(); err != nil {
			panic(err)
		}
		fmt.Println(c.Process.Pid)
		if strings.HasSuffix(args[0], "stay") {
			time.Sleep(time.Hour)
		}
	},
	"runner": func(args []string) { // a worker that runs a command until it is killed
		if len(args) == 0 {
			args = []string{"sleep"}
		}
		c := self(args[0], args[1:]...)
		c.Line = func(line []byte) error { fmt.Println(string(line)); return nil }
		_, err := c.Run(context.Background())
		panic(err)
	},
	"files": func([]string) {
		await()
		for i := range 100 {
			if _, err := os.Open("/dev/null"); err != nil {
				fmt.Fprintln(os.Stderr, i, err)
				os.Exit(4)
			}
		}
	},
	"file": func(args []string) {
		await()
		signal.Ignore(syscall.SIGXFSZ)
		if err := os.WriteFile(args[0], make([]byte, 1<<20), 0o600); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(5)
		}
	},
}

// await is how a well-behaved child starts: with reading its request.
func await() { _, _ = bufio.NewReader(os.Stdin).ReadString('\n') }

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

type endless string

func (e endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		n += copy(p[n:], e)
	}
	return n, nil
}

// self is a command that runs one of children with a request on its stdin.
func self(child string, args ...string) *command.Command {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return &command.Command{
		Path: path, Args: args, Env: []string{childEnv + "=" + child, noRaceSleep},
		Stdin:  strings.NewReader("request\n"),
		Limits: command.Limits{Wall: time.Minute},
	}
}

// withTrace makes the panic of a Go child print all its goroutines.
func withTrace(c *command.Command) *command.Command {
	c.Env = append(c.Env, "GOTRACEBACK=all")
	return c
}

// run runs c and returns what it printed.
func run(t *testing.T, c *command.Command) ([]string, error) {
	t.Helper()
	var lines []string
	if c.Line == nil {
		c.Line = func(line []byte) error { lines = append(lines, string(line)); return nil }
	}
	_, err := c.Run(t.Context())
	return lines, err
}

// wantExit checks that err is an ExitError and returns it.
func wantExit(t *testing.T, err error, reason command.Reason) *command.ExitError {
	t.Helper()
	exit := new(command.ExitError)
	if !errors.As(err, &exit) || exit.Reason != reason {
		t.Fatalf("Run = %v, want one that %s", err, reason)
	}
	return exit
}

// wantGone waits until the process has gone and fails if it does not.
func wantGone(t *testing.T, pid int) {
	t.Helper()
	fd, err := pidfdOpen(pid)
	if errors.Is(err, syscall.ESRCH) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(fd) }()
	if !readable(t, fd, 10*time.Second) {
		t.Errorf("process %d is still there", pid)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

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
	func() {
		defer func() {
			if p := recover(); p != "ouch" {
				t.Errorf("recovered %v", p)
			}
		}()
		_, _ = c.Run(t.Context())
	}()
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

func TestGroupIsSwept(t *testing.T) {
	for _, how := range []string{"leave", "stay"} {
		t.Run(how, func(t *testing.T) {
			c, pid := self("parent", how), 0
			var began time.Time // when both processes are there
			c.Line = func(line []byte) error {
				if pid == 0 {
					began = time.Now()
				}
				pid = number(string(line))
				if how == "stay" {
					return io.ErrShortBuffer
				}
				return nil
			}
			if _, err := c.Run(t.Context()); (err == nil) != (how == "leave") {
				t.Errorf("Run = %v", err)
			}
			wantGone(t, pid)
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("Run took %v", took)
			}
		})
	}
}

func TestEscapedGrandchildDoesNotHoldUpRun(t *testing.T) {
	c, pid := self("parent", "escape"), 0
	var began time.Time // when both processes are there
	c.Line = func(line []byte) error {
		if pid == 0 {
			pid, began = number(string(line)), time.Now()
		}
		return nil
	}
	if _, err := c.Run(t.Context()); err != nil {
		t.Errorf("Run = %v", err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("Run took %v", took)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil { // or the test has shown nothing
		t.Errorf("kill %d: %v", pid, err)
	}
}

func TestF73GrandchildWithASessionOfItsOwnIsGone(t *testing.T) {
	got, err := run(t, self("parent", "daemon"))
	if err != nil || len(got) == 0 {
		t.Fatalf("got %q, %v", got, err)
	}
	wantGone(t, number(got[0]))
}

// What others run at the same time is left alone, by the end of a run and by Sweep.
func TestF73RunsThatGoOnAreNotSwept(t *testing.T) {
	sweep := func([]byte) error {
		if _, err := self("nothing").Run(t.Context()); err != nil {
			return err
		}
		command.Sweep()
		return nil
	}
	c := self("polite")
	c.Grace = time.Minute
	said := []string{}
	ctx, stop := context.WithCancel(t.Context())
	c.Line = func(line []byte) error {
		said = append(said, string(line))
		defer stop()
		return sweep(line)
	}
	if _, err := c.Run(ctx); !errors.Is(err, context.Canceled) || strings.Join(said, " ") != "ready bye" {
		t.Errorf("got %q, %v", said, err)
	}
}

func TestF73WhatAKilledRunnerLeavesIsSwept(t *testing.T) {
	runner := self("runner", "parent", "daemon-stay")
	c := exec.CommandContext(t.Context(), runner.Path, runner.Args...)
	c.Env = runner.Env
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	in, pid := bufio.NewScanner(out), 0
	for range 2 { // from its parent and from itself: later it may not speak
		if !in.Scan() {
			t.Fatal(in.Err())
		}
		pid = number(in.Text())
	}
	command.Sweep() // which is not of those whose runner lives
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("the grandchild of a runner that lives: %v", err)
	}
	if err := syscall.Kill(c.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()    // killed
	command.Sweep() // or that of another test's worker, which has started just now
	wantGone(t, pid)
}

func TestStdinThatFailsStopsTheProcess(t *testing.T) {
	broken := errors.New("broken")
	c := self("sleep")
	c.Stdin = io.MultiReader(strings.NewReader("half a requ"), iotest.ErrReader(broken))
	if _, err := run(t, c); !errors.Is(err, broken) {
		t.Errorf("Run = %v, want the reader's error", err)
	}
}

func TestStdinNobodyReadsIsNoError(t *testing.T) {
	c := self("nothing")
	c.Stdin = io.LimitReader(endless("x"), 10<<20)
	if _, err := run(t, c); err != nil {
		t.Errorf("Run = %v", err)
	}
}

func TestStdinThatHangsDoesNotHoldUpRun(t *testing.T) {
	r, w := io.Pipe()
	defer func() { _ = w.Close() }()
	c := self("nothing")
	c.Stdin = r
	if _, err := run(t, c); err != nil {
		t.Errorf("Run = %v", err)
	}
}

func TestSlowReaderMissesNothing(t *testing.T) {
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
	for _, c := range []*command.Command{
		{Path: "/nonexistent/file"}, {Path: ""}, {Path: t.TempDir()}, {Path: "/bin/true", Dir: "/nonexistent"}, {Path: "/bin/true", Args: []string{"a\x00b"}},
	} {
		if _, err := c.Run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "start ") {
			t.Errorf("Run of %+v = %v, want an error", c, err)
		}
	}
}

func TestF73KilledCallerTakesTheProcessAlong(t *testing.T) {
	runner := self("runner")
	c := exec.CommandContext(t.Context(), runner.Path)
	c.Env = runner.Env
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	child := number(strings.TrimSpace(line))
	if err := syscall.Kill(child, 0); err != nil {
		t.Fatalf("the child is not there yet: %v", err)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	wantGone(t, child)
	_ = c.Wait() // killed
}

func TestManyRunsLeakNothing(t *testing.T) {
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
