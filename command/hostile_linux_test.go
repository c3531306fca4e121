package command_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/command"
	"github.com/batchfleet/batchfleet/internal/testrun"
)

// hostile is a program that runs script, in which $SLEEP ends all too late and can be told from what others run.
// It is stopped after a minute, and wantNothingLeft looks for what is left of it.
func hostile(t *testing.T, script string) (c *command.Command, wantNothingLeft func()) {
	t.Helper()
	mark := fmt.Sprintf("9%d", rand.Uint32())
	c = &command.Command{
		Path: "/bin/bash", Args: []string{"-c", script}, Dir: t.TempDir(), Env: []string{"PATH=/usr/bin:/bin", "SLEEP=sleep " + mark},
		Output: func(command.Stream, []byte, bool) error { return nil }, Limits: command.Limits{Wall: time.Minute},
	}
	return c, func() {
		t.Helper()
		left := withArgument(mark)
		for end := time.Now().Add(time.Minute); len(left) > 0 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			left = withArgument(mark)
		}
		if len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// withArgument returns the processes that have text in their arguments.
func withArgument(text string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range files {
		if args, _ := os.ReadFile(name); strings.Contains(string(args), text) { // empty of one that has ended
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestK12NothingIsLeftOfAnyProgram(t *testing.T) {
	testrun.Long(t, "it waits for seconds")
	canceled := errors.New("canceled")
	for _, tt := range []struct {
		name, script string
		limits       command.Limits
		stop         time.Duration // then it is canceled; 0 for never
		grace        time.Duration
		want         string // of the error
		cgroup       bool   // only there it is found
	}{
		{name: "it closes its outputs and fails", script: `exec >&- 2>&-; exit 3`, want: "exit status 3"},
		{name: "it closes its outputs and goes on", script: `exec >&- 2>&-; $SLEEP`, limits: command.Limits{Wall: 300 * time.Millisecond}, want: "took too long"},
		{name: "it does not read its input", script: `exit 0`},
		{name: "it closes its input", script: `exec <&-; echo x`},
		{name: "it ignores SIGTERM", script: `trap '' TERM INT HUP; while :; do $SLEEP; done`, stop: 300 * time.Millisecond, grace: 100 * time.Millisecond, want: "canceled"},
		{name: "its children ignore SIGTERM", script: `bash -c "trap '' TERM; while :; do $SLEEP; done" & $SLEEP`, stop: 300 * time.Millisecond, grace: time.Second, want: "canceled"},
		{name: "it leaves a child", script: `$SLEEP & disown; exit 0`},
		{name: "it leaves a child that ignores SIGHUP", script: `nohup $SLEEP >/dev/null 2>&1 & exit 0`},
		{name: "it forks twice into a session of its own", script: `(setsid bash -c "$SLEEP & $SLEEP" >/dev/null 2>&1 &) ; exit 0`},
		{name: "it leaves a daemon that holds its outputs", script: `setsid bash -c "trap '' TERM; $SLEEP" & exit 0`},
		{name: "it leaves a child without its environment in its group", script: `env -i $SLEEP & exit 0`},
		{name: "it leaves a child without its environment in another session", script: `env -i setsid $SLEEP & sleep 0.2; exit 0`, cgroup: true},
		{name: "it replaces itself", script: `exec setsid -w $SLEEP`, stop: 300 * time.Millisecond, want: "canceled"},
		{name: "it stops itself", script: `$SLEEP & kill -STOP $!; kill -STOP $$`, stop: 300 * time.Millisecond, grace: 100 * time.Millisecond, want: "canceled"},
		{
			name: "it forks without end", script: `for i in {1..2000}; do $SLEEP & done; wait`,
			limits: command.Limits{Processes: 40}, grace: time.Minute, want: "started too many processes (limit: 40 processes and threads)",
		},
		{
			name: "it forks without end into other sessions", script: `trap '' TERM; for i in {1..1000}; do setsid $SLEEP & done; wait`,
			limits: command.Limits{Processes: 40}, want: "started too many processes",
		},
		{name: "it has as many processes as it may", script: `for i in {1..10}; do $SLEEP & done; sleep 1; exit 0`, limits: command.Limits{Processes: 40}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, env []string) {
				if tt.cgroup && env != nil {
					t.Skip("it is not found without a cgroup")
				}
				c, wantNothingLeft := hostile(t, tt.script)
				c.Limits, c.Grace = tt.limits, tt.grace
				c.Limits.Wall = cmp.Or(c.Limits.Wall, time.Minute)
				c.Stdin = strings.NewReader(strings.Repeat("x", 10<<20))
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if tt.stop > 0 {
					defer time.AfterFunc(tt.stop, func() { cancel(canceled) }).Stop()
				}
				_, err := c.Run(ctx)
				if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
					t.Errorf("Run = %v, want %q", err, tt.want)
				}
				wantNothingLeft()
			})
		})
	}
}

// While a process becomes another program, its environment cannot be read: it is looked at again.
func TestK12WhatBecomesOtherProgramsWithoutEndIsFound(t *testing.T) {
	testrun.Long(t, "it starts many programs")
	defer command.WithoutCgroups()()
	for i := range 100 {
		c, _ := hostile(t, "setsid sh become & disown; for i in {1.."+strconv.Itoa(i%20)+"}; do :; done")
		mark := strings.TrimPrefix(c.Env[1], "SLEEP=sleep ")
		if err := os.WriteFile(filepath.Join(c.Dir, "become"), []byte("exec sh become "+mark), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 8 { // its arguments cannot be read then, either
			for _, pid := range withArgument(mark) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				t.Fatalf("after %d runs: left: %d", i, pid)
			}
		}
	}
}

func TestK12DiskUseIsLimited(t *testing.T) {
	testrun.Long(t, "it waits for seconds")
	for _, script := range []string{
		`trap 'touch asked' TERM; head -c 3M /dev/zero >a; head -c 3M /dev/zero >b; while :; do $SLEEP; done`,
		`trap 'touch asked' TERM; truncate -s 100G sparse; while :; do $SLEEP; done`,
	} {
		c, wantNothingLeft := hostile(t, script)
		c.Grace = 5 * time.Second
		c.Limits.Disk = 5 << 20
		c.DiskUsage = func() (sum int64, err error) {
			err = filepath.WalkDir(c.Dir, func(_ string, d fs.DirEntry, err error) error {
				if info, e := d.Info(); err == nil && e == nil && info.Mode().IsRegular() {
					sum += info.Size()
				}
				return err
			})
			return sum, err
		}
		_, err := c.Run(t.Context())
		exit := wantExit(t, err, command.OverDisk)
		if want := "used too much disk (limit: 5 MiB of disk)"; !strings.Contains(exit.Error(), want) {
			t.Errorf("Run = %v, want %q", err, want)
		}
		if _, err := os.Lstat(filepath.Join(c.Dir, "asked")); err == nil {
			t.Error("it was asked to end, and could go on meanwhile")
		}
		wantNothingLeft()
	}
}

func TestK12DiskUseThatCannotBeMeasuredStopsAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		denied := fs.ErrPermission
		used := int64(0)
		check := command.DiskCheck(&command.Command{
			Limits: command.Limits{Disk: 10 << 30}, DiskUsage: func() (int64, error) { return used, denied },
		})
		for range 9 {
			time.Sleep(time.Second)
			if err := check(); err != nil {
				t.Fatalf("after less than 10 s: %v", err)
			}
		}
		denied = nil
		if err := check(); err != nil {
			t.Fatalf("when it can be measured: %v", err)
		}
		denied = fs.ErrPermission
		time.Sleep(9 * time.Second)
		if err := check(); err != nil {
			t.Fatalf("less than 10 s later: %v", err)
		}
		time.Sleep(2 * time.Second)
		if err := check(); err == nil || !strings.Contains(err.Error(), "used too much disk (limit: 10 GiB of disk, and what it uses cannot be measured: permission denied)") {
			t.Errorf("more than 10 s later: %v", err)
		}
		used = 11 << 30
		if err := check(); err == nil || !strings.Contains(err.Error(), "limit: 10 GiB of disk)") {
			t.Errorf("too much is used, and something cannot be seen: %v", err)
		}
	})
}

func TestK12ChecksThatTakeLongAreMadeSeldom(t *testing.T) {
	for _, tt := range []struct{ takes, atMost time.Duration }{
		{0, time.Second}, {10 * time.Millisecond, time.Second}, {10 * time.Second, 200 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			command.CheckFor(time.Hour, time.Second, func() error {
				calls++
				time.Sleep(tt.takes)
				return nil
			})
			if want := int(time.Hour / tt.atMost); calls < want*9/10 || calls > want {
				t.Errorf("one that takes %v is made %d times in an hour, want %d", tt.takes, calls, want)
			}
		})
	}
}

// Where a cgroup cannot limit it, each process is limited.
func TestK12MemoryOfAllProcessesIsThatOfEachWithoutControllers(t *testing.T) {
	testrun.Long(t, "it computes for seconds")
	defer command.WithoutCgroups()()
	c := self("memory")
	c.Limits.TotalMemory = 256<<20 + raceMemory
	_, err := run(t, c)
	_ = wantExit(t, err, command.OverMemory)
}

// needControllers skips a test where cgroups cannot have limits.
func needControllers(t *testing.T) {
	t.Helper()
	needCgroups(t)
	if !command.ControlCgroup() {
		t.Skip("the cgroups that can be made here have no limits")
	}
}

func TestK12MemoryOfAllProcessesIsLimitedByTheCgroup(t *testing.T) {
	needControllers(t)
	// Each of them alone is below the limit.
	script := `for i in {1..8}; do head -c 20M /dev/zero | tail -c 20M | (sleep 1; cat >/dev/null) & done; wait; $SLEEP`
	c, wantNothingLeft := hostile(t, script)
	c.Limits.TotalMemory = 64 << 20
	_, err := c.Run(t.Context())
	exit := wantExit(t, err, command.OverMemory)
	if !strings.Contains(exit.Error(), "used too much memory (limit: 64 MiB of memory)") {
		t.Errorf("Run = %v", err)
	}
	wantNothingLeft()

	c, wantNothingLeft = hostile(t, `$SLEEP & kill -9 $$`)
	c.Limits.TotalMemory = 64 << 20
	_, err = c.Run(t.Context())
	_ = wantExit(t, err, command.Signaled)
	wantNothingLeft()
}

func TestK12ForksOverTheLimitAreRefusedByTheCgroup(t *testing.T) {
	needControllers(t)
	for _, script := range []string{
		`f() { f | f & }; f; $SLEEP`,
		`while :; do setsid $SLEEP & done`,
		`for i in {1..100}; do $SLEEP & done; $SLEEP`,
	} {
		c, wantNothingLeft := hostile(t, script)
		c.Limits.Processes = 50
		_, err := c.Run(t.Context())
		_ = wantExit(t, err, command.OverProcesses)
		wantNothingLeft()
	}
	c, wantNothingLeft := hostile(t, `for i in {1..40}; do $SLEEP & done; sleep 1; exit 0`)
	c.Limits.Processes = 50
	if _, err := c.Run(t.Context()); err != nil {
		t.Errorf("with fewer: %v", err)
	}
	wantNothingLeft()
}

// The sweep of a worker that starts leaves alone what others of the machine run.
func TestK12SweepLeavesTheProgramsOfOtherWorkers(t *testing.T) {
	eachWay(t, func(t *testing.T, env []string) {
		first, its := startRunner(t, "daemon-stay", env)
		second, others := startRunner(t, "daemon-stay", env)
		if err := first.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = first.Wait() // killed
		third, thirds := startRunner(t, "daemon-stay", append([]string{sweepEnv + "=1"}, env...))
		wantGone(t, its)
		wantAlive(t, others)
		wantAlive(t, thirds)
		for _, c := range []*exec.Cmd{second, third} {
			if err := c.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = c.Wait() // killed
		}
		command.Sweep()
		wantGone(t, others)
		wantGone(t, thirds)
	})
}

// Without root there is seldom a cgroup. What has the marker is found.
func TestK12ProgramsOfAnOrdinaryUserLeaveNothing(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("all the tests show it")
	}
	c := self("nobody")
	path, err := os.ReadFile(c.Path)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "command-test-") //nolint:usetesting // that of the test is closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	exe := filepath.Join(dir, "test")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(exe, path, 0o755)); err != nil { //nolint:gosec // others have to execute it
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Dir, cmd.Env = dir, c.Env
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for field := range strings.FieldsSeq(string(out)) {
		wantGone(t, number(field))
	}
}
