package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// agentsSection measures jobs that do nothing on eight real workers of a gateway, each with its leases and
// results on disk, beside asynq with as many slots, on the same Redis and in turns.
func agentsSection(ctx context.Context, r *report) error {
	binary := filepath.Join(r.dir, "noop")
	if err := buildAs(ctx, binary, "..", "./internal/noopkind"); err != nil {
		return err
	}
	g, err := startGatewayRig(ctx, binary, r.dir)
	if err != nil {
		return err
	}
	defer g.stop()
	p, err := g.gateway(ctx, "LOCAL_STORAGE_PATH="+filepath.Join(g.dir, "storage"))
	if err != nil {
		return err
	}
	defer p.kill() // after an error
	tokens, err := g.tokens(ctx, batchAgents)
	if err != nil {
		return err
	}
	var workers []*process
	for i, token := range tokens {
		w, err := g.agent(ctx, p.address(), token, fmt.Sprint("agent", i))
		if err != nil {
			return err
		}
		defer w.kill() // after an error
		workers = append(workers, w)
	}
	if err := compareAgents(ctx, r, g, p, workers); err != nil {
		return err
	}
	for _, w := range workers {
		err = errors.Join(err, w.stop())
	}
	return errors.Join(err, p.stop())
}

// agent starts a worker of a gateway, in a directory of this name.
func (g *gatewayRig) agent(ctx context.Context, url, token, name string) (*process, error) {
	dir := filepath.Join(g.dir, name)
	file := dir + ".token"
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, g.binary, "worker")
	cmd.Env = g.env("SOURCE="+url, "WORKER_TOKEN_FILE="+file, "AGENT_DIR="+dir, "PROCESSOR=none", fmt.Sprintf("WORKER_SLOTS=%d", batchSlots))
	cmd.Dir = g.dir
	return spawn(cmd, 0)
}

// compareAgents measures in turns.
func compareAgents(ctx context.Context, r *report, g *gatewayRig, p *process, workers []*process) error {
	const turns, n = 5, 16_384
	var rates, asynq, ratios, inGateway, inRedis, inWorkers []float64
	cpu := func(all ...*process) (sum float64, err error) {
		for _, one := range all {
			used, failed := one.cpu()
			sum, err = sum+microseconds(used), errors.Join(err, failed)
		}
		return sum / n, err
	}
	for turn := range turns {
		groups := [][]*process{{p}, {g.process}, workers}
		var before [3]float64
		for i, group := range groups {
			var err error
			if before[i], err = cpu(group...); err != nil {
				return err
			}
		}
		rate, err := g.agentsRate(ctx, n)
		if err != nil {
			return err
		}
		for i, to := range []*[]float64{&inGateway, &inRedis, &inWorkers} {
			after, err := cpu(groups[i]...)
			if err != nil {
				return err
			}
			*to = append(*to, after-before[i])
		}
		direct, err := asynqLoad(ctx, g.redisServer, n, batchAgents*batchSlots)
		if err != nil {
			return err
		}
		rates, asynq = append(rates, rate), append(asynq, direct.rate)
		ratios = append(ratios, rates[turn]/asynq[turn])
	}
	r.add("8 workers of 32 slots through a gateway", median(rates), "jobs/s", bar{})
	r.add("asynq, no-op tasks, concurrency 256, on Redis directly", median(asynq), "jobs/s", bar{})
	r.add("workers / asynq", median(ratios), "", atLeast(0.8))
	r.add("processor time of the workers", median(inWorkers), "µs/job", bar{})
	r.add("processor time of the gateway", median(inGateway), "µs/job", bar{})
	r.add("processor time of Redis, with the submission", median(inRedis), "µs/job", bar{})
	memory, err := workers[0].memory("VmHWM")
	r.add("memory of a worker, at most", memory/1e6, "MB", bar{})
	return err
}

// agentsRate has the workers do n jobs, and returns the rate from the tenth part of them to the last.
func (g *gatewayRig) agentsRate(ctx context.Context, n int64) (float64, error) {
	finished := func() int64 { return g.rdb.ZCard(ctx, "zpe:other_jobs:finished").Val() }
	before := finished()
	if err := g.fillKind(ctx, "noop", int(n)); err != nil {
		return 0, err
	}
	var began time.Time
	var first int64
	for over := time.Now().Add(10 * time.Minute); ctx.Err() == nil; pause(5 * time.Millisecond) {
		done := finished() - before
		switch {
		case done >= n:
			return float64(done-first) / time.Since(began).Seconds(), nil
		case began.IsZero() && done >= n/10:
			began, first = time.Now(), done
		case time.Now().After(over):
			return 0, errors.New("the workers have not done all jobs after ten minutes")
		}
	}
	return 0, context.Cause(ctx)
}
