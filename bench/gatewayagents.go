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
	p, err := g.gateway(ctx, "LOCAL_STORAGE_PATH="+filepath.Join(g.dir, "storage"), fmt.Sprintf("MAX_LEASES_PER_WORKER=%d", 2*batchAgents*batchSlots))
	if err != nil {
		return err
	}
	defer p.kill() // after an error
	tokens, err := g.tokens(ctx, batchAgents)
	if err != nil {
		return err
	}
	if err := compareAgents(ctx, r, g, p, tokens); err != nil {
		return err
	}
	return p.stop()
}

// agent starts a worker of a gateway, in a directory of this name.
func (g *gatewayRig) agent(ctx context.Context, url, token, name string, slots int) (*process, error) {
	dir := filepath.Join(g.dir, name)
	file := dir + ".token"
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, g.binary, "worker")
	cmd.Env = g.env("SOURCE="+url, "WORKER_TOKEN_FILE="+file, "AGENT_DIR="+dir, "PROCESSOR=none", fmt.Sprintf("WORKER_SLOTS=%d", slots))
	cmd.Dir = g.dir
	return spawn(cmd, 0)
}

// agentsLoad is what workers did with jobs that were queued before they started, from the tenth part of the jobs to the last.
type agentsLoad struct {
	rate                    float64 // jobs a second
	workers, gateway, redis float64 // µs of processor time a job
	memory                  float64 // bytes, the most that the first of the workers ever had
}

// agentsLoad has workers with these tokens, and together as many slots as asynq, do n jobs.
func (g *gatewayRig) agentsLoad(ctx context.Context, p *process, tokens []string, n int) (l agentsLoad, err error) {
	if err := g.fillKind(ctx, "noop", n); err != nil {
		return l, err
	}
	var workers []*process
	defer func() {
		for _, w := range workers {
			err = errors.Join(err, w.stop())
		}
	}()
	for i, token := range tokens {
		w, err := g.agent(ctx, p.address(), token, fmt.Sprint("agent", i), batchAgents*batchSlots/len(tokens))
		if err != nil {
			return l, err
		}
		workers = append(workers, w)
	}
	first, err := g.doneJobs(ctx, int64(n), int64(n)/10)
	if err != nil {
		return l, err
	}
	began := time.Now()
	groups := [3][]*process{workers, {p}, {g.process}}
	used, err := cpuOfEach(groups)
	if err != nil {
		return l, err
	}
	last, err := g.doneJobs(ctx, int64(n), int64(n))
	if err != nil {
		return l, err
	}
	jobs := float64(last - first)
	l.rate = jobs / time.Since(began).Seconds()
	all, err := cpuOfEach(groups)
	for i, each := range []*float64{&l.workers, &l.gateway, &l.redis} {
		*each = microseconds(all[i]-used[i]) / jobs
	}
	if err == nil {
		l.memory, err = workers[0].memory("VmHWM")
	}
	return l, err
}

// cpuOfEach returns the processor time that each group of processes has used.
func cpuOfEach(groups [3][]*process) (used [3]time.Duration, err error) {
	for i, group := range groups {
		for _, p := range group {
			busy, failed := p.cpu()
			used[i] += busy
			err = errors.Join(err, failed)
		}
	}
	return used, err
}

// compareAgents measures in turns.
func compareAgents(ctx context.Context, r *report, g *gatewayRig, p *process, tokens []string) error {
	const turns, n = 5, 32_768
	var rates, asynq, ratios, inGateway, inRedis, inWorkers, memory, oneRates, oneRatios, inOne []float64
	for range turns {
		l, err := g.agentsLoad(ctx, p, tokens, n)
		if err != nil {
			return err
		}
		direct, err := asynqLoad(ctx, g.redisServer, n, batchAgents*batchSlots)
		if err != nil {
			return err
		}
		one, err := g.agentsLoad(ctx, p, tokens[:1], n)
		if err != nil {
			return err
		}
		oneRates, oneRatios, inOne = append(oneRates, one.rate), append(oneRatios, one.rate/direct.rate), append(inOne, one.workers)
		rates, asynq, ratios = append(rates, l.rate), append(asynq, direct.rate), append(ratios, l.rate/direct.rate)
		inWorkers, inGateway, inRedis = append(inWorkers, l.workers), append(inGateway, l.gateway), append(inRedis, l.redis)
		memory = append(memory, l.memory)
	}
	r.add("8 workers of 32 slots through a gateway", median(rates), "jobs/s", bar{})
	r.add("asynq, no-op tasks, concurrency 256, on Redis directly", median(asynq), "jobs/s", bar{})
	r.add("workers / asynq", median(ratios), "", atLeast(0.8))
	r.add("processor time of the workers", median(inWorkers), "µs/job", bar{})
	r.add("processor time of the gateway", median(inGateway), "µs/job", bar{})
	r.add("processor time of Redis", median(inRedis), "µs/job", bar{})
	r.add("one worker of 256 slots", median(oneRates), "jobs/s", bar{})
	r.add("one worker / asynq", median(oneRatios), "", bar{})
	r.add("processor time of the one worker", median(inOne), "µs/job", bar{})
	r.add("memory of a worker, at most", median(memory)/1e6, "MB", bar{})
	return nil
}

// doneJobs waits until so many of all jobs are done, and returns how many are.
func (g *gatewayRig) doneJobs(ctx context.Context, all, want int64) (int64, error) {
	for over := time.Now().Add(10 * time.Minute); ctx.Err() == nil; pause(5 * time.Millisecond) {
		queued := g.rdb.ZCard(ctx, "zpe:other_jobs:queued").Val()
		switch done := all - queued - g.rdb.ZCard(ctx, "zpe:other_jobs:started").Val(); {
		case done >= want:
			return done, nil
		case time.Now().After(over):
			return 0, errors.New("the workers have not done all jobs after ten minutes")
		}
	}
	return 0, context.Cause(ctx)
}
