package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/batchfleet/batchfleet/command"
	gridexec "github.com/batchfleet/batchfleet/grid/exec"
	"github.com/batchfleet/batchfleet/grid/member"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

// gridPrograms is how many programs run at once.
const gridPrograms = 4

// workGridPrograms is a worker that runs programs: work-grid-programs LEADER DIR.
func workGridPrograms(ctx context.Context) error {
	command.ControlCgroup() // as a worker does first
	dir := os.Args[3]
	runner := &gridexec.Runner{ExeDir: filepath.Join(dir, "exe"), JobsDir: filepath.Join(dir, "jobs"), CacheDir: filepath.Join(dir, "cache"), Log: quietLog()}
	if err := runner.Open(); err != nil {
		return err
	}
	m := &member.Member{Leaders: []string{os.Args[2]}, MaxParallel: gridPrograms, Dir: filepath.Join(dir, "member"), Log: quietLog()}
	if err := m.Open(ctx); err != nil {
		return err
	}
	w := &worker.Worker{
		Source: m, Status: m, Handlers: map[jobs.Kind]worker.Handler{member.Kind: m.Handler(&gridexec.Handler{Runner: runner})},
		Pools: []worker.Pool{{Slots: gridPrograms}}, Log: quietLog(),
	}
	delivering, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var delivered sync.WaitGroup
	delivered.Go(func() { m.Run(delivering) })
	fmt.Println("working for", os.Args[2])
	err := w.Run(ctx)
	stop()
	delivered.Wait()
	return errors.Join(err, m.Close(), runner.Close())
}

// writeTrue writes a program that does nothing: a static one of one page, whose start costs least.
func writeTrue(path string) error {
	if runtime.GOARCH != "amd64" {
		return errors.New("the program that does nothing is one for amd64")
	}
	const base = 0x400000
	code := []byte{0x31, 0xff, 0xb8, 60, 0, 0, 0, 0x0f, 0x05} // exit(0)
	le := binary.LittleEndian
	b := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 9)...)
	b = le.AppendUint32(le.AppendUint16(le.AppendUint16(b, 2), 62), 1)
	b = le.AppendUint64(le.AppendUint64(le.AppendUint64(b, base+120), 64), 0)
	b = le.AppendUint32(b, 0)
	for _, n := range []uint16{64, 56, 1, 0, 0, 0} {
		b = le.AppendUint16(b, n)
	}
	b = le.AppendUint32(le.AppendUint32(b, 1), 5)
	size := uint64(120 + len(code))
	for _, n := range []uint64{0, base, base, size, size, 0x1000} {
		b = le.AppendUint64(b, n)
	}
	return os.WriteFile(path, append(b, code...), 0o755) //nolint:gosec // it is a program
}

// gridProgramRuns compares programs as jobs of the grid with a bare loop in Go, which makes a directory, starts the program with three pipes and
// deletes the directory, and with GNU parallel. All of them are on one disk.
func gridProgramRuns(ctx context.Context, r *report) error {
	dir := filepath.Join(r.dir, "programs")
	if err := os.MkdirAll(filepath.Join(dir, "exe"), 0o755); err != nil { //nolint:gosec // programs are read there
		return err
	}
	program := filepath.Join(dir, "exe", gridExec+".exe")
	if err := writeTrue(program); err != nil {
		return err
	}
	leader, err := startLeader(ctx, "", "")
	if err != nil {
		return err
	}
	defer leader.kill()
	w, err := spawn(ownCommand(ctx, "work-grid-programs", leader.address(), dir), 1)
	if err != nil {
		return err
	}
	defer w.kill()
	c, err := callGrid(ctx, leader.address(), gridSlots, 0)
	if err != nil {
		return err
	}
	defer c.close()
	const n, turns = 1500, 7
	var rates, bare, cpu, ratios, shares, leaders, clients []float64
	for range turns {
		b, err := measureSpawns(n, func() error { return repeat(gridPrograms, n, func() error { return bareSpawn(ctx, r.dir, program) }) })
		if err != nil {
			return err
		}
		began, own := time.Now(), ownCPU()
		before, err := cpuOfAll([]*process{leader, w})
		if err != nil {
			return err
		}
		if err := repeat(16, n, func() error { return c.succeed(ctx) }); err != nil {
			return err
		}
		after, err := cpuOfAll([]*process{leader, w})
		if err != nil {
			return err
		}
		each := func(d time.Duration) float64 { return d.Seconds() * 1e6 / n }
		leaders, clients = append(leaders, each(after[0]-before[0])), append(clients, each(ownCPU()-own))
		used := after[1] - before[1]
		rate := float64(n) / time.Since(began).Seconds()
		rates, bare, ratios = append(rates, rate), append(bare, b.rate), append(ratios, rate/b.rate)
		cpu, shares = append(cpu, used.Seconds()*1e6/n), append(shares, b.own)
	}
	memory, err := w.memory("VmHWM")
	if err != nil {
		return err
	}
	gnu, err := gridGNU(ctx, program, n/5)
	if err != nil {
		return err
	}
	r.add("programs that do nothing, 4 at once, bare loop in Go", median(bare), "programs/s", bar{})
	r.add("… processor time of the loop alone", median(shares), "µs/program", bar{})
	r.add("… as jobs of the grid", median(rates), "jobs/s", bar{})
	r.add("… processor time of the worker alone", median(cpu), "µs/job", bar{})
	r.add("… of the leader", median(leaders), "µs/job", bar{})
	r.add("… of the client", median(clients), "µs/job", bar{})
	r.add("… memory of the worker, at most", memory/1e6, "MB", bar{})
	r.add("jobs of the grid against the bare loop", median(ratios), "ratio", atLeast(0.9))
	r.add("… the best turn", quantile(ratios, 1), "ratio", bar{})
	r.add("GNU parallel -j4", gnu.rate, "programs/s", bar{})
	r.add("jobs of the grid against GNU parallel", median(rates)/gnu.rate, "ratio", atLeast(8))
	return nil
}

// succeed runs one job, which must succeed.
func (c *gridCaller) succeed(ctx context.Context) error {
	j, err := c.Submit(ctx, wire.JobRequest{ExecName: gridExec})
	if err != nil {
		return err
	}
	result, err := j.Wait(ctx)
	if err == nil && result.Status != wire.OK {
		err = fmt.Errorf("a program has failed: %+v", result)
	}
	return err
}

// gridGNU has GNU parallel run a program n times, as many at once as a worker of the grid.
func gridGNU(ctx context.Context, program string, n int) (spawned, error) {
	path, err := exec.LookPath("parallel")
	if err != nil {
		return spawned{}, fmt.Errorf("%w; install it: apt-get install parallel", err)
	}
	return measureSpawns(n, func() error {
		cmd := exec.CommandContext(ctx, path, "-n0", fmt.Sprintf("-j%d", gridPrograms), program)
		cmd.Stdin, cmd.Stderr, cmd.SysProcAttr = strings.NewReader(strings.Repeat("\n", n)), os.Stderr, &syscall.SysProcAttr{Setpgid: true}
		return cmd.Run()
	})
}
