package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/batchfleet/batchfleet/worker"
	"github.com/batchfleet/batchfleet/worker/memory"
)

// programSlots is how many programs run at once, here and in what a kind is compared with.
const programSlots = 8

// programsSection runs a program that does nothing as jobs of a kind: by a worker whose queue,
// statuses and results are in memory. What it is compared with takes none of the care: a loop
// in Go that makes a directory, starts the program with three pipes and deletes the directory,
// and GNU parallel.
func programsSection(ctx context.Context, r *report) error {
	program, err := exec.LookPath("true")
	if err != nil {
		return err
	}
	rig, err := startProgramRig(ctx, r.dir, fmt.Sprintf("[true]\ncommand = [%q]\n", program), new(memory.Status), worker.Pool{Slots: programSlots})
	if err != nil {
		return err
	}
	const n, turns = 1500, 7
	var kind, bare []spawned
	for range turns {
		b, err := measureSpawns(n, func() error { return bareSpawns(ctx, r.dir, program, n) })
		if err != nil {
			return err
		}
		k, err := measureSpawns(n, func() error {
			rig.submit("true", n)
			_, err := rig.wait(ctx, "true", n)
			return err
		})
		if err != nil {
			return err
		}
		kind, bare = append(kind, k), append(bare, b)
	}
	if err := rig.close(); err != nil {
		return err
	}
	gnu, err := gnuParallel(ctx, program, n/5)
	if err != nil {
		return err
	}
	each := func(value func(k, b spawned) float64) float64 {
		var values []float64
		for i := range turns {
			values = append(values, value(kind[i], bare[i]))
		}
		return median(values)
	}
	r.add("bare loop in Go", each(func(_, b spawned) float64 { return b.rate }), "programs/s", bar{})
	r.add("kind", each(func(k, _ spawned) float64 { return k.rate }), "jobs/s", bar{})
	r.add("kind against the bare loop", each(func(k, b spawned) float64 { return k.rate / b.rate }), "ratio", atLeast(0.85))
	r.add("processor time of the bare loop, with its program", each(func(_, b spawned) float64 { return b.all }), "µs/program", bar{})
	r.add("… against that of the kind", each(func(k, b spawned) float64 { return b.all / k.all }), "ratio", bar{})
	r.add("processor time of the bare loop alone", each(func(_, b spawned) float64 { return b.own }), "µs/program", bar{})
	r.add("processor time of the worker alone", each(func(k, _ spawned) float64 { return k.own }), "µs/job", bar{})
	r.add("GNU parallel", gnu.rate, "programs/s", bar{})
	r.add("kind against GNU parallel", each(func(k, _ spawned) float64 { return k.rate })/gnu.rate, "ratio", atLeast(5))
	return nil
}

// spawned is how fast programs ran.
type spawned struct {
	rate     float64 // programs a second
	own, all float64 // processor time for each, of this process alone and with the programs, in µs
}

func measureSpawns(n int, run func() error) (spawned, error) {
	began, cpu, programs := time.Now(), ownCPU(), cpuOf(syscall.RUSAGE_CHILDREN)
	err := run()
	own := ownCPU() - cpu
	all := own + cpuOf(syscall.RUSAGE_CHILDREN) - programs
	each := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(n) }
	return spawned{float64(n) / time.Since(began).Seconds(), each(own), each(all)}, err
}

// bareSpawns runs a program n times, as many at once as a worker would.
func bareSpawns(ctx context.Context, parent, program string, n int) error {
	var all errgroup.Group
	var next atomic.Int64
	for range programSlots {
		all.Go(func() error {
			for next.Add(1) <= int64(n) {
				if err := bareSpawn(ctx, parent, program); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return all.Wait()
}

func bareSpawn(ctx context.Context, parent, program string) error {
	dir, err := os.MkdirTemp(parent, "")
	if err != nil {
		return err
	}
	var out, err2 bytes.Buffer
	cmd := exec.CommandContext(ctx, program)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, []string{"PATH=/usr/bin:/bin"}, strings.NewReader("{}"), &out, &err2
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Run(); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// gnuParallel has GNU parallel run a program n times.
func gnuParallel(ctx context.Context, program string, n int) (spawned, error) {
	path, err := exec.LookPath("parallel")
	if err != nil {
		return spawned{}, fmt.Errorf("%w; install it: apt-get install parallel", err)
	}
	return measureSpawns(n, func() error {
		cmd := exec.CommandContext(ctx, path, "-n0", fmt.Sprintf("-j%d", programSlots), program)
		cmd.Stdin, cmd.Stderr = strings.NewReader(strings.Repeat("\n", n)), os.Stderr
		return cmd.Run()
	})
}
