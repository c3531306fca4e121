package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
)

// Eight agents of so many slots, beside one asynq of as many. An agent makes two requests of a sort at
// once; the slots share them.
const (
	batchAgents   = 8
	batchSlots    = 32
	batchRequests = 2
)

// nothing is a kind of jobs that do nothing.
const nothing = "nothing"

// batchSection measures jobs that do nothing, through a gateway in batches and one by one, beside
// asynq, which works on the same Redis directly.
func batchSection(ctx context.Context, r *report) error {
	binary, err := build(ctx, r.dir)
	if err != nil {
		return err
	}
	g, err := startGatewayRig(ctx, binary, r.dir)
	if err != nil {
		return err
	}
	defer g.stop()
	kinds := filepath.Join(g.dir, "kinds.toml")
	if err := os.WriteFile(kinds, []byte("["+nothing+"]\ncommand = [\"true\"]\n"), 0o600); err != nil {
		return err
	}
	p, err := g.gateway(ctx, "KINDS_FILE="+kinds, "LOCAL_STORAGE_PATH="+filepath.Join(g.dir, "storage"))
	if err != nil {
		return err
	}
	defer p.kill() // after an error
	tokens, err := g.tokens(ctx, batchAgents)
	if err != nil {
		return err
	}
	if err := compareBatches(ctx, r, g, p, tokens); err != nil {
		return err
	}
	memory, err := p.memory("VmHWM")
	if err != nil {
		return err
	}
	r.add("memory of the gateway, at most", memory/1e6, "MB", bar{})
	return p.stop()
}

// tokens returns those of n workers.
func (g *gatewayRig) tokens(ctx context.Context, n int) ([]string, error) {
	all := []string{g.token}
	for len(all) < n {
		enroll, _, err := g.queue.Enroll(ctx, "bench", time.Hour)
		if err != nil {
			return nil, err
		}
		worker, err := g.queue.Register(ctx, queue.Registration{EnrollToken: enroll})
		if err != nil {
			return nil, err
		}
		all = append(all, worker.Token)
	}
	return all, nil
}

// compareBatches measures in turns.
func compareBatches(ctx context.Context, r *report, g *gatewayRig, p *process, tokens []string) error {
	const turns, n, few = 7, 12_288, 2000
	var (
		rates   = map[string][]float64{}
		ratios  []float64
		costs   []float64
		inRedis = map[string][]float64{}
		workers = map[string][]float64{} // the processor time of agents, or of asynq's worker
	)
	contenders := []struct {
		name string
		jobs int
		run  func() (rate float64, used time.Duration, err error)
	}{
		{"batches", n, func() (float64, time.Duration, error) {
			before := ownCPU()
			rate, err := runBatches(ctx, p.address(), tokens, n, batchSlots/batchRequests)
			return rate, ownCPU() - before, err
		}},
		{"single", few, func() (float64, time.Duration, error) {
			before := ownCPU()
			rate, err := runBatches(ctx, p.address(), tokens, few, 1)
			return rate, ownCPU() - before, err
		}},
		{"asynq", n, func() (float64, time.Duration, error) {
			l, err := asynqLoad(ctx, g.redisServer, n, batchAgents*batchSlots)
			return l.rate, time.Duration(l.cpu * n * float64(time.Second)), err
		}},
	}
	for turn := range turns {
		for i := range contenders { // none is always the one that comes after asynq
			one := contenders[(i+turn)%len(contenders)]
			if one.name != "asynq" {
				if err := g.fillKind(ctx, nothing, one.jobs); err != nil {
					return err
				}
			}
			var rate float64
			var busy, own time.Duration
			used, err := p.cpuDuring(func() (err error) {
				busy, err = g.process.cpuDuring(func() (err error) { rate, own, err = one.run(); return err })
				return err
			})
			if err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
			rates[one.name] = append(rates[one.name], rate)
			inRedis[one.name] = append(inRedis[one.name], microseconds(busy)/float64(one.jobs))
			workers[one.name] = append(workers[one.name], microseconds(own)/float64(one.jobs))
			if one.name == "batches" {
				costs = append(costs, microseconds(used)/float64(one.jobs))
			}
		}
		ratios = append(ratios, rates["batches"][turn]/rates["asynq"][turn])
	}
	r.add("8 agents of 32 slots, in batches", median(rates["batches"]), "jobs/s", bar{})
	r.add("8 agents, one by one, two at once", median(rates["single"]), "jobs/s", bar{})
	r.add("asynq, no-op tasks, concurrency 256, on Redis directly", median(rates["asynq"]), "jobs/s", bar{})
	r.add("batches / asynq", median(ratios), "", atLeast(0.8))
	r.add("processor time of the gateway, in batches", median(costs), "µs/job", bar{})
	r.add("processor time of the agents, in batches", median(workers["batches"]), "µs/job", bar{})
	r.add("processor time of asynq's worker", median(workers["asynq"]), "µs/job", bar{})
	r.add("processor time of Redis, in batches", median(inRedis["batches"]), "µs/job", bar{})
	r.add("processor time of Redis, one by one", median(inRedis["single"]), "µs/job", bar{})
	r.add("processor time of Redis, asynq, with the submission", median(inRedis["asynq"]), "µs/job", bar{})
	return nil
}

// fillKind queues n jobs of a kind as the gateway does.
func (g *gatewayRig) fillKind(ctx context.Context, kind string, n int) error {
	return g.fillWith(ctx, n, `{"params":`+benchPayload+`}`, func(pipe redis.Pipeliner, id string, place redis.Z) {
		pipe.HSet(ctx, "zpe:status:"+id, "kind", kind)
		pipe.LPush(ctx, "zpe:queue:"+kind, id)
		pipe.SAdd(ctx, "zpe:queue_kinds", kind)
		pipe.ZAdd(ctx, "zpe:other_jobs:queued", place)
	})
}

// runBatches runs n jobs as eight agents do some of whose slots end at the same time: a lease of so
// many jobs and their results in one request, and twice at once.
func runBatches(ctx context.Context, url string, tokens []string, n, most int) (rate float64, err error) {
	var left atomic.Int64
	left.Store(int64(n))
	var agents errgroup.Group
	began := time.Now()
	for _, token := range slices.Repeat(tokens, batchRequests) {
		agents.Go(func() error {
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
			defer client.CloseIdleConnections()
			for left.Load() > 0 {
				run := runBatch
				if most == 1 {
					run = runOne
				}
				done, err := run(ctx, client, url, token, most)
				if err != nil {
					return err
				}
				left.Add(-int64(done))
			}
			return nil
		})
	}
	err = agents.Wait()
	return float64(n) / time.Since(began).Seconds(), err
}

func runBatch(ctx context.Context, client *http.Client, url, token string, most int) (n int, err error) {
	var some wire.LeasesResponse
	ask := fmt.Sprintf(`{"features":["renew","cancel"],"max":%d}`, most)
	if err := postJSON(ctx, client, url+wire.PathOf(nothing, wire.PathLease), token, ask, &some); err != nil || len(some.Jobs) == 0 {
		return 0, err
	}
	var body strings.Builder
	body.WriteString(`{"results":[`)
	for i, job := range some.Jobs {
		if i > 0 {
			body.WriteByte(',')
		}
		body.WriteString(`{"job_id":"` + job.JobID + `","lease_id":"` + job.LeaseID + `","result":{}}`)
	}
	body.WriteString(`]}`)
	var verdicts wire.ResultsResponse
	if err := postJSON(ctx, client, url+wire.PathOf(nothing, wire.PathResults), token, body.String(), &verdicts); err != nil {
		return 0, err
	}
	for _, v := range verdicts.Results {
		if v.Refusal != nil {
			return 0, fmt.Errorf("result of job %s: %s", v.JobID, v.Error.Message)
		}
	}
	return len(verdicts.Results), nil
}

// runOne is runBatch in the form for one job.
func runOne(ctx context.Context, client *http.Client, url, token string, _ int) (n int, err error) {
	var job wire.LeaseResponse
	if err := postJSON(ctx, client, url+wire.PathOf(nothing, wire.PathLease), token, `{"features":["renew","cancel"]}`, &job); err != nil || job.JobID == "" {
		return 0, err
	}
	path := strings.Replace(wire.PathOf(nothing, wire.PathResult), "{id}", job.JobID, 1)
	var ok wire.ReportResponse
	return 1, postJSON(ctx, client, url+path, token, `{"lease_id":"`+job.LeaseID+`","result":{}}`, &ok)
}
