package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A process is this program as a server, in a process of its own.
type process struct {
	cmd   *exec.Cmd
	lines []string // what it said when it was ready
}

// startProcess runs one of servers and waits until it has written lines lines,
// which are its addresses.
func startProcess(ctx context.Context, server string, lines int) (*process, error) {
	return spawn(ownCommand(ctx, server), lines)
}

// ownCommand is this program once more.
func ownCommand(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "/proc/self/exe", args...)
}

// spawn starts a command and waits until it has written lines lines.
func spawn(cmd *exec.Cmd, lines int) (*process, error) {
	p, server := &process{cmd: cmd}, strings.Join(cmd.Args, " ")
	if cmd.Stderr == nil {
		p.cmd.Stderr = os.Stderr
	}
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 5 * time.Second
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", server, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", server, err)
	}
	for in := bufio.NewScanner(out); len(p.lines) < lines; {
		if !in.Scan() {
			return nil, errors.Join(fmt.Errorf("start %s: it ended early", server), p.cmd.Wait())
		}
		p.lines = append(p.lines, in.Text())
	}
	return p, nil
}

// address is the last word of what it said first.
func (p *process) address() string {
	return p.lines[0][strings.LastIndexByte(p.lines[0], ' ')+1:]
}

// stop ends the process and waits for it.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop server: %w", err)
	}
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("stop server: %w", err)
	}
	return nil
}

// kill ends the process at once and waits for it.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails if it has ended
	_ = p.cmd.Wait()         // it was killed
}

// cpuDuring returns the processor time the process uses while f runs, to 10 ms.
func (p *process) cpuDuring(f func() error) (time.Duration, error) {
	before, err := p.cpu()
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := p.cpu()
	return after - before, err
}

// cpu returns the processor time the process has used, to 10 ms.
func (p *process) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	// The name, in parentheses, may hold anything. Behind it, utime and stime
	// are fields 14 and 15 of proc(5), in ticks of 1/100 s.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(err1, err2)
}

// memory returns a line of the process's status, VmRSS or VmHWM, in bytes.
func (p *process) memory(name string) (float64, error) {
	return memoryOf(strconv.Itoa(p.cmd.Process.Pid), name)
}

// memoryOf is [process.memory] of any process by its id, or "self". The maximum in
// rusage would not do: it begins with what the parent had when it started the process.
func memoryOf(pid, name string) (float64, error) {
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kb, err := strconv.Atoi(strings.Fields(rest)[0])
			return float64(kb) * 1024, err
		}
	}
	return 0, fmt.Errorf("read memory: no %s", name)
}

// ownCPU returns the processor time this process has used.
func ownCPU() time.Duration { return cpuOf(syscall.RUSAGE_SELF) }

// cpuOf returns the processor time that this process has used, or those it has waited for.
func cpuOf(who int) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		panic(err) // fails only for a bad argument
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
