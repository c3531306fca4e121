package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// noopSlots is how many jobs, or tasks, run at once.
const noopSlots = 32

// noopLoad is what one system did with jobs that do nothing.
type noopLoad struct {
	rate   float64 // jobs a second, from the first that has ended to the last
	cpu    float64 // seconds of processor time of the worker a job
	memory float64 // bytes, the most that the worker had
}

// noopSystem is one of those that are compared.
type noopSystem struct {
	name string
	n    int // jobs
	run  func(ctx context.Context, n int) (noopLoad, error)
}

// noopSection measures a worker whose jobs do nothing beside other systems that keep their
// tasks in Redis, all with as many slots, in turns. Those that cannot be installed are left out.
func noopSection(ctx context.Context, r *report) error {
	binary := filepath.Join(r.dir, "noop")
	if err := buildAs(ctx, binary, "..", "./internal/noopkind"); err != nil {
		return err
	}
	server, err := startRedis(ctx, r.dir)
	if err != nil {
		return err
	}
	defer server.stop()
	systems := []noopSystem{
		{"batchfleet", 20_000, func(ctx context.Context, n int) (noopLoad, error) { return noopFleet(ctx, binary, n) }},
		{"asynq", 40_000, func(ctx context.Context, n int) (noopLoad, error) { return asynqLoad(ctx, server, n, noopSlots) }},
	}
	for _, other := range []noopOther{bullMQ, celery} {
		dir := filepath.Join(r.dir, other.name)
		if err := other.install(ctx, dir); err != nil {
			fmt.Fprintf(os.Stderr, "%s is left out: %v\n", other.name, err)
			continue
		}
		systems = append(systems, noopSystem{other.name, other.n, func(ctx context.Context, n int) (noopLoad, error) {
			return other.load(ctx, dir, server, n)
		}})
	}
	const turns = 3
	loads := map[string][]noopLoad{}
	for range turns {
		for _, s := range systems {
			got, err := s.run(ctx, s.n)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			loads[s.name] = append(loads[s.name], got)
		}
	}
	middle := func(name string, of func(noopLoad) float64) float64 {
		var all []float64
		for _, l := range loads[name] {
			all = append(all, of(l))
		}
		return median(all)
	}
	rate := func(l noopLoad) float64 { return l.rate }
	for _, s := range systems {
		r.add(s.name, middle(s.name, rate), "jobs/s", bar{})
		r.add("… processor time of the worker", 1e6*middle(s.name, func(l noopLoad) float64 { return l.cpu }), "µs/job", bar{})
		r.add("… memory of the worker, at most", middle(s.name, func(l noopLoad) float64 { return l.memory })/1e6, "MB", bar{})
	}
	ours, slower := middle("batchfleet", rate), middle("asynq", rate)
	r.add("batchfleet against asynq", ours/slower, "ratio", bar{})
	if len(loads[bullMQ.name]) > 0 {
		r.add("batchfleet against BullMQ", ours/middle(bullMQ.name, rate), "ratio", bar{})
		slower = min(slower, middle(bullMQ.name, rate))
	}
	r.add("batchfleet against the slower of these", ours/slower, "ratio", atLeast(0.25))
	if len(loads[celery.name]) > 0 {
		r.add("batchfleet against Celery, late acks and a result backend", ours/middle(celery.name, rate), "ratio", atLeast(4))
	}
	return nil
}

// noopFleet has one worker run n jobs that are queued already. Results go to memory.
func noopFleet(ctx context.Context, binary string, n int) (l noopLoad, err error) {
	dir := memoryDir()
	if dir == "" {
		return l, errors.New("there is no directory in memory, /dev/shm")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return l, err
	}
	defer os.RemoveAll(dir)
	f, err := startBenchFleet(ctx, binary)
	if err != nil {
		return l, err
	}
	defer f.stop()
	bodies := make([]string, n)
	for i := range bodies {
		bodies[i] = fmt.Sprintf(`{"job_id":"noop-%07d","kind":"noop","timestamp":%q}`, i, time.Now().UTC().Format(time.RFC3339))
	}
	if err := f.publish(ctx, bodies); err != nil {
		return l, err
	}
	w, err := f.worker(ctx, noopSlots, "LOCAL_STORAGE_PATH="+filepath.Join(dir, "storage"), "TMPDIR="+dir)
	if err != nil {
		return l, err
	}
	var first, acked uint64
	for first == 0 && ctx.Err() == nil {
		pause(time.Millisecond)
		first = f.stats(ctx).Acked
	}
	began := time.Now()
	used, err := w.cpuDuring(func() error {
		for acked < uint64(n) && ctx.Err() == nil {
			pause(20 * time.Millisecond) // each look costs the emulator what a job costs it
			acked = f.stats(ctx).Acked
		}
		return context.Cause(ctx)
	})
	took := time.Since(began)
	if err != nil {
		return l, err
	}
	done := float64(acked - first)
	l = noopLoad{rate: done / took.Seconds(), cpu: used.Seconds() / done}
	l.memory, err = w.memory("VmHWM")
	return l, errors.Join(err, w.stop())
}
