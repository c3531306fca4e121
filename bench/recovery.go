package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"
)

const (
	recoveryRounds = 10
	recoveryKills  = 10 // in each round
)

// recoverySection kills workers with a job in hand, with leases as they come, and
// measures when each job starts again, and whether a worker that is slow but lives
// keeps its own.
func recoverySection(ctx context.Context, r *report) error {
	binary, err := build(ctx, r.dir)
	if err != nil {
		return err
	}
	f, err := startBenchFleet(ctx, binary, "MOCK_PAGE_SECONDS=0.5", "CHECKPOINT_INTERVAL=1", "MAX_CRASHES=100")
	if err != nil {
		return err
	}
	defer f.stop()
	b := &recoveryBench{benchFleet: f, workers: map[string]*process{}}
	defer b.killAll()

	slow, err := b.start(ctx)
	if err == nil {
		err = b.job(ctx, "slow")
	}
	if err != nil {
		return err
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	plodder := b.workers[slow] // b.start changes the map meanwhile
	go func() { defer close(stopped); plod(plodder, stop) }()
	defer func() { close(stop); <-stopped }()

	var took []float64
	for i := range recoveryKills {
		if _, err := b.start(ctx); err != nil {
			return err
		}
		if err := b.job(ctx, fmt.Sprintf("job-%d", i)); err != nil {
			return err
		}
	}
	pause(25 * time.Second) // a fleet that has just started waits for those that may renew their claims
	for range recoveryRounds {
		some, err := b.round(ctx)
		if err != nil {
			return err
		}
		took = append(took, some...)
	}
	r.add(fmt.Sprintf("kill -9 to next attempt, %d kills, median", len(took)), quantile(took, 0.5), "s", bar{})
	r.add("… worst", quantile(took, 1), "s", atMost(20))
	r.add("attempts at the job of a worker that stood still 8 s of 9", float64(b.attempts(ctx, "slow")), "", atMost(1))
	return nil
}

// plod lets a worker live for a second of nine.
func plod(p *process, stop <-chan struct{}) {
	for {
		_ = p.cmd.Process.Signal(syscall.SIGSTOP)
		select {
		case <-stop:
			_ = p.cmd.Process.Signal(syscall.SIGCONT)
			return
		case <-time.After(8 * time.Second):
		}
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		pause(time.Second)
	}
}

// recoveryBench is a fleet whose workers have names.
type recoveryBench struct {
	*benchFleet
	workers map[string]*process
	started int
}

// start starts a worker with one slot and returns its name.
func (b *recoveryBench) start(ctx context.Context) (name string, err error) {
	b.started++
	name = fmt.Sprintf("worker-%d", b.started)
	b.workers[name], err = b.worker(ctx, 1, "WORKER_NAME="+name, "LOG_LEVEL=ERROR")
	return name, err
}

func (b *recoveryBench) killAll() {
	for _, p := range b.workers {
		p.kill()
	}
}

// job queues a job that does not end, and waits until it runs.
func (b *recoveryBench) job(ctx context.Context, id string) error {
	if err := b.publish(ctx, []string{fmt.Sprintf(`{"job_id":%q,"pages":100000}`, id)}); err != nil {
		return err
	}
	return b.until(ctx, id+" runs", func() bool { return b.attempts(ctx, id) == 1 })
}

func (b *recoveryBench) attempts(ctx context.Context, id string) int {
	n, _ := b.rdb.HGet(ctx, "{job:"+id+"}:claim", "attempts").Int()
	return n
}

func (b *recoveryBench) until(ctx context.Context, what string, cond func() bool) error {
	for end := time.Now().Add(2 * time.Minute); !cond(); pause(5 * time.Millisecond) {
		if ctx.Err() != nil || time.Now().After(end) {
			return errors.New("not within two minutes: " + what)
		}
	}
	return nil
}

// round starts as many workers as it then kills, at any moment of 5 s, and returns
// how long each job waited.
func (b *recoveryBench) round(ctx context.Context) (took []float64, err error) {
	for range recoveryKills {
		if _, err := b.start(ctx); err != nil {
			return nil, err
		}
	}
	if err := b.until(ctx, "workers wait", func() bool { return b.waitingPulls(ctx) == recoveryKills }); err != nil {
		return nil, err
	}
	killed, before := make([]time.Time, recoveryKills), make([]int, recoveryKills)
	for i := range recoveryKills {
		pause(rand.N(time.Second))
		id := fmt.Sprintf("job-%d", i)
		before[i] = b.attempts(ctx, id)
		name := b.rdb.HGet(ctx, "{job:"+id+"}:detail", "worker").Val()
		p := b.workers[name]
		if p == nil || !strings.HasPrefix(name, "worker-") {
			return nil, fmt.Errorf("%s is run by %q", id, name)
		}
		killed[i] = time.Now()
		p.kill()
		delete(b.workers, name)
	}
	left := map[int]bool{}
	for i := range recoveryKills {
		left[i] = true
	}
	err = b.until(ctx, "all jobs run again", func() bool {
		for i := range left {
			if b.attempts(ctx, fmt.Sprintf("job-%d", i)) > before[i] {
				took = append(took, time.Since(killed[i]).Seconds())
				delete(left, i)
			}
		}
		return len(left) == 0
	})
	return took, err
}
