package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// fleetSection measures a worker beside a limit: a loop that makes the same
// calls one after the other as the smallest script would (a pull, four status
// writes, one file, an ack), without any of the promises.
func fleetSection(ctx context.Context, r *report) error {
	binary, err := build(ctx, r.dir)
	if err != nil {
		return err
	}
	info, err := os.Stat(binary)
	if err != nil {
		return err
	}
	r.add("binary, stripped", float64(info.Size())/1e6, "MB", atMost(36))
	for _, step := range []func(context.Context, *report, string) error{overhead, backlog, idle, recovery} {
		if err := step(ctx, r, binary); err != nil {
			return err
		}
	}
	return nil
}

// build makes the command, as a release has it, in dir. The command belongs to
// the module one directory up.
func build(ctx context.Context, dir string) (binary string, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	binary = filepath.Join(dir, "batchfleet")
	if out, err := exec.CommandContext(ctx, "make", "-C", "..", "build", "VERSION=bench", "BATCHFLEET="+binary).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return binary, nil
}

// buildAs makes the command of a package of the module in dir.
func buildAs(ctx context.Context, binary, dir, pkg string) error {
	build := exec.CommandContext(ctx, "go", "-C", dir, "build", "-tags", "disable_grpc_modules,grpcnotrace", "-trimpath", "-ldflags", "-s -w", "-o", binary, pkg)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

// overhead compares one slot and eight with the bare loop, in turns.
func overhead(ctx context.Context, r *report, binary string) error {
	f, err := startBenchFleet(ctx, binary)
	if err != nil {
		return err
	}
	defer f.stop()
	const n, turns = 1500, 5
	rates := map[string][]float64{}
	var perJob []float64
	for range turns {
		bare, err := f.bareLoop(ctx, n)
		if err != nil {
			return err
		}
		rates["bare"] = append(rates["bare"], bare)
		for _, slots := range []int{1, 8} {
			rate, cpu, err := f.drain(ctx, n*slots/2+n/2, slots, "")
			if err != nil {
				return err
			}
			rates[strconv.Itoa(slots)] = append(rates[strconv.Itoa(slots)], rate)
			if slots == 8 {
				perJob = append(perJob, cpu)
			}
		}
	}
	for turn := range turns {
		files, err := durableFiles(ctx, filepath.Join(f.dir, "files", strconv.Itoa(turn)), n)
		if err != nil {
			return err
		}
		rates["files"] = append(rates["files"], files)
		rate, _, err := f.drain(ctx, 4*n, 8, memoryDir())
		if err != nil {
			return err
		}
		rates["memory"] = append(rates["memory"], rate)
	}
	bare, one, eight := median(rates["bare"]), median(rates["1"]), median(rates["8"])
	r.add("bare loop of the same calls", bare, "jobs/s", bar{})
	r.add("1 slot", one, "jobs/s", atLeast(400))
	r.add("1 slot against the bare loop", one/bare, "ratio", bar{})
	r.add("8 slots", eight, "jobs/s", atLeast(1500))
	r.add("8 slots against the bare loop", eight/bare, "ratio", bar{})
	r.add("durable files alone, 8 at once", median(rates["files"]), "files/s", bar{})
	r.add("8 slots, results in memory instead of on disk", median(rates["memory"]), "jobs/s", bar{})
	r.add("processor time of the worker, 8 slots", median(perJob)*1e6, "µs/job", bar{})
	return nil
}

// backlog compares the cost of a job at a small and at a large backlog.
func backlog(ctx context.Context, r *report, binary string) error {
	var rate, cpu [2]float64
	for i, queued := range []int{1_000, 100_000} {
		f, err := startBenchFleet(ctx, binary)
		if err != nil {
			return err
		}
		rate[i], cpu[i], err = f.drainSome(ctx, queued, min(queued, 10_000))
		f.stop()
		if err != nil {
			return err
		}
		r.add(fmt.Sprintf("8 slots, %d queued", queued), rate[i], "jobs/s", bar{})
	}
	r.add("processor time per job at 100000 queued against 1000", cpu[1]/cpu[0], "ratio", atMost(1.15))
	return nil
}

// idle measures a worker that has nothing to do.
func idle(ctx context.Context, r *report, binary string) error {
	f, err := startBenchFleet(ctx, binary)
	if err != nil {
		return err
	}
	defer f.stop()
	var ready []float64
	for range 5 {
		began := time.Now()
		w, err := f.worker(ctx, 1)
		if err != nil {
			return err
		}
		for f.waitingPulls(ctx) == 0 {
			pause(time.Millisecond)
		}
		ready = append(ready, float64(time.Since(began).Milliseconds()))
		if err := w.stop(); err != nil {
			return err
		}
		for f.waitingPulls(ctx) != 0 {
			pause(time.Millisecond)
		}
	}
	r.add("worker, from exec to its first pull", median(ready), "ms", atMost(150))
	w, err := f.worker(ctx, 1)
	if err != nil {
		return err
	}
	pause(5 * time.Second)
	const watched = 20 * time.Second
	used, err := w.cpuDuring(func() error { pause(watched); return nil })
	if err != nil {
		return err
	}
	rss, err := w.memory("VmRSS")
	if err != nil {
		return err
	}
	r.add("idle worker", float64(used)/float64(watched)*100, "% of a core", atMost(0.5))
	r.add("idle worker, memory", rss/1e6, "MB", atMost(30))
	return w.stop()
}

// recovery kills a worker in mid-job and measures when the job starts again.
func recovery(ctx context.Context, r *report, binary string) error {
	f, err := startBenchFleet(ctx, binary, "LEASE_TTL=10s", "LEASE_EXTEND_EVERY=3s", "CHECKPOINT_INTERVAL=0.2", "MOCK_PAGE_SECONDS=0.05")
	if err != nil {
		return err
	}
	defer f.stop()
	var late []float64
	resumed := 0.0
	for i := range 3 {
		id := fmt.Sprintf("recover-%d", i)
		first, err := f.worker(ctx, 1)
		if err != nil {
			return err
		}
		if err := f.publish(ctx, []string{fmt.Sprintf(`{"job_id":%q,"pages":300}`, id)}); err != nil {
			return err
		}
		for f.progress(ctx, id) < 15 {
			pause(5 * time.Millisecond)
		}
		first.kill()
		second, err := f.worker(ctx, 1)
		if err != nil {
			return err
		}
		// The emulator knows when the lease ends: then the message is available. The second
		// worker may take it between two looks.
		again := func() bool { return f.rdb.HGet(ctx, "{job:"+id+"}:claim", "attempts").Val() == "2" }
		for f.leased(ctx) && !again() {
			pause(time.Millisecond)
		}
		expired := time.Now()
		for !again() {
			pause(time.Millisecond)
		}
		late = append(late, time.Since(expired).Seconds())
		for f.progress(ctx, id) < 100 {
			resumed = max(resumed, float64(f.progress(ctx, id)))
			pause(5 * time.Millisecond)
		}
		if err := second.stop(); err != nil {
			return err
		}
	}
	r.add("killed job starts again after the end of its lease, worst of 3", quantile(late, 1), "s", atMost(1))
	return nil
}
