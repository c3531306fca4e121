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
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/command"
	"github.com/batchfleet/batchfleet/internal/testrun"
)

func TestGroupIsSwept(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it waits for seconds")
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
	testrun.Long(t, "it waits for seconds")
	defer command.WithoutCgroups()() // in which it would be found
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
	wantAlive(t, pid) // or the test has shown nothing
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

// needCgroups skips a test where no cgroup can be made, and checks that it leaves none.
func needCgroups(t *testing.T) {
	t.Helper()
	if command.OwnCgroup() == "" {
		t.Skip("no cgroup can be made here")
	}
	t.Cleanup(func() {
		if left := cgroups(t); left > 0 {
			t.Errorf("%d cgroups are left", left)
		}
	})
}

// eachWay runs a test with the cgroups of runs, where there can be any, and with
// markers only.
func eachWay(t *testing.T, test func(t *testing.T, env []string)) {
	t.Run("cgroup", func(t *testing.T) {
		needCgroups(t)
		test(t, nil)
	})
	t.Run("marker", func(t *testing.T) {
		defer command.WithoutCgroups()()
		test(t, []string{noCgroupEnv + "=1"})
	})
}

// cgroups returns how many cgroups there are of runs of this process.
func cgroups(t *testing.T) (n int) {
	t.Helper()
	entries, err := os.ReadDir(command.OwnCgroup())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.Contains(e.Name(), fmt.Sprintf("].%d.", os.Getpid())) && !strings.HasSuffix(e.Name(), ".worker") {
			n++
		}
	}
	return n
}

func TestF73GrandchildWithASessionOfItsOwnIsGone(t *testing.T) {
	eachWay(t, func(t *testing.T, _ []string) {
		got, err := run(t, self("parent", "daemon"))
		if err != nil || len(got) == 0 {
			t.Fatalf("got %q, %v", got, err)
		}
		wantGone(t, number(got[0]))
	})
}

func TestK12GrandchildWithoutTheMarkerIsGoneWithItsCgroup(t *testing.T) {
	needCgroups(t)
	got, err := run(t, self("parent", "escape"))
	if err != nil || len(got) == 0 {
		t.Fatalf("got %q, %v", got, err)
	}
	wantGone(t, number(got[0]))
}

func TestK12CgroupsThatAProcessMakesAreDeleted(t *testing.T) {
	needCgroups(t)
	c := shell(`cd ` + command.OwnCgroup() + ` && cd "batchfleet-$BATCHFLEET_RUN" && mkdir -p a/b c && echo $$ >a/b/cgroup.procs &&
		setsid sh -c 'sleep 1000 >/dev/null 2>&1 & echo $!'`)
	got, err := run(t, c)
	if err != nil || len(got) != 1 {
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
	eachWay(t, func(t *testing.T, env []string) {
		sweepAfterKill(t, "daemon-stay", env)
	})
}

func TestK12WhatAKilledRunnerLeavesWithoutTheMarkerIsSwept(t *testing.T) {
	needCgroups(t)
	sweepAfterKill(t, "escape-stay", nil)
}

// sweepAfterKill kills a runner with env whose process has a child, and sweeps.
func sweepAfterKill(t *testing.T, child string, env []string) {
	t.Helper()
	c, pid := startRunner(t, child, env)
	command.Sweep() // which leaves those whose runner lives
	wantAlive(t, pid)
	if err := syscall.Kill(c.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()    // killed
	command.Sweep() // or that of another test's worker, which has started just now
	wantGone(t, pid)
}

// startRunner starts a runner with env whose process has a child, and returns the id of that.
func startRunner(t *testing.T, child string, env []string) (c *exec.Cmd, pid int) {
	t.Helper()
	runner := self("runner", "parent", child)
	c = exec.CommandContext(t.Context(), runner.Path, runner.Args...)
	c.Env = append(runner.Env, env...)
	in := bufio.NewScanner(startOf(t, c))
	for range 2 { // from its parent and from itself: later it may not speak
		if !in.Scan() {
			t.Fatal(in.Err())
		}
		pid = number(in.Text())
	}
	return c, pid
}

// startOf starts c and returns its stdout.
func startOf(t *testing.T, c *exec.Cmd) io.Reader {
	t.Helper()
	out, err := c.StdoutPipe()
	if err := errors.Join(err, c.Start()); err != nil {
		t.Fatal(err)
	}
	return out
}

// stray starts a process as an earlier life of an owner has left it.
func stray(t *testing.T, marker string) command.Process {
	t.Helper()
	c := exec.CommandContext(t.Context(), "/bin/sh", "-c", "sleep 1000 & echo; wait")
	c.Env = []string{"PATH=/usr/bin:/bin", command.Marker + "=" + marker}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out := startOf(t, c)
	t.Cleanup(func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL); _ = c.Wait() })
	if _, err := out.Read(make([]byte, 1)); err != nil { // it has its child
		t.Fatal(err)
	}
	start, err := command.StartTime(c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return command.Process{PID: c.Process.Pid, Start: start, Marker: marker}
}

func TestR42StoredProcessIsSweptByItsIDAndStartTime(t *testing.T) {
	p := stray(t, "")
	other := p
	other.Start++
	command.Sweep(other, command.Process{}, command.Process{PID: os.Getpid()}) // may kill what is not of this test
	wantAlive(t, p.PID)                                                        // to Sweep it is one that has got the id later
	if n := command.Sweep(p); n < 1 {
		t.Errorf("killed %d processes, want 1", n)
	}
	wantGone(t, p.PID)
	for end := time.Now().Add(time.Minute); groupLives(p.PID); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("its group is still there")
		}
	}
}

// groupLives reports whether there is a process in a group that has not exited.
func groupLives(id int) bool {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		stat, _ := os.ReadFile(name) // empty if it has gone
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) > 2 && fields[2] == strconv.Itoa(id) && fields[0] != "Z" {
			return true
		}
	}
	return false
}

func TestR42StoredProcessIsSweptByItsMarker(t *testing.T) {
	p, other := stray(t, "an earlier run"), stray(t, "another run")
	// Those of a run are found even if the process itself has ended.
	if n := command.Sweep(command.Process{PID: p.PID, Start: p.Start + 1, Marker: p.Marker}); n < 2 {
		t.Errorf("killed %d processes, want the process and its child", n)
	}
	wantGone(t, p.PID)
	wantAlive(t, other.PID)
}

func TestF73KilledCallerTakesTheProcessAlong(t *testing.T) {
	runner := self("runner")
	c := exec.CommandContext(t.Context(), runner.Path)
	c.Env = runner.Env
	line, err := bufio.NewReader(startOf(t, c)).ReadString('\n')
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
