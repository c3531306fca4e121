package command_test

import (
	"bufio"
	"bytes"
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
	"time"

	"go.uber.org/goleak"

	"github.com/batchfleet/batchfleet/command"
	"github.com/batchfleet/batchfleet/internal/testrun"
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

// noCgroupEnv makes a child use markers only.
const noCgroupEnv = "COMMAND_TEST_NO_CGROUP"

// sweepEnv makes a runner sweep before it runs its command, as a worker does.
const sweepEnv = "COMMAND_TEST_SWEEP"

func TestMain(m *testing.M) {
	if os.Getenv(noCgroupEnv) != "" {
		command.WithoutCgroups()
	}
	if name := os.Getenv(childEnv); name != "" {
		children[name](os.Args[1:])
		os.Exit(0)
	}
	testrun.Parallel(8) // those that run in parallel mostly wait
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		command.Sweep() // the cgroups of runners that were killed
		os.Exit(code)
	}))
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
		if os.Getenv(sweepEnv) != "" {
			command.Sweep()
		}
		c := self(args[0], args[1:]...)
		c.Line = func(line []byte) error { fmt.Println(string(line)); return nil }
		_, err := c.Run(context.Background())
		panic(err)
	},
	"nobody": func([]string) { // whose programs leave children; prints their ids
		for _, script := range []string{`sleep 1000 & echo $!`, `setsid sleep 1000 & echo $!`, `setsid sh -c "sleep 1000 & echo \$!" & wait`} {
			c := shell(script)
			c.Limits.Processes, c.Limits.TotalMemory = 100, 1<<30
			c.Line = func(line []byte) error { fmt.Println(string(line)); return nil }
			if _, err := c.Run(context.Background()); err != nil {
				panic(err)
			}
		}
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

// wantPanic checks that a panic of a callback leaves Run.
func wantPanic(t *testing.T, c *command.Command, want any) {
	t.Helper()
	defer func() {
		t.Helper()
		if p := recover(); p != want {
			t.Errorf("recovered %v", p)
		}
	}()
	_, _ = c.Run(t.Context())
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

// wantAlive fails if the process has exited.
func wantAlive(t *testing.T, pid int) {
	t.Helper()
	fd, err := pidfdOpen(pid)
	if err != nil {
		t.Errorf("process %d: %v", pid, err)
		return
	}
	defer func() { _ = syscall.Close(fd) }()
	if readable(t, fd, 0) {
		t.Errorf("process %d has ended", pid)
	}
}
