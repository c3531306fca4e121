package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/gateway/queue"
)

// gatewaySection measures a gateway beside a bare handler that makes the same
// two calls to the same Redis and checks nothing, and beside asynq, which works
// on Redis directly.
func gatewaySection(ctx context.Context, r *report) error {
	binary, err := build(ctx, r.dir)
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context, *report, *gatewayRig) error{gatewayRate, gatewayBacklog, gatewayMemory, gatewayRecovery} {
		rig, err := startGatewayRig(ctx, binary, r.dir)
		if err != nil {
			return err
		}
		err = step(ctx, r, rig)
		rig.stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// gatewayRig is a Redis with a worker registered in it.
type gatewayRig struct {
	*redisServer
	binary, dir string
	queue       *queue.Queue
	token       string
	filled      int // jobs that were ever queued
}

func startGatewayRig(ctx context.Context, binary, dir string) (*gatewayRig, error) {
	server, err := startRedis(ctx, dir)
	if err != nil {
		return nil, err
	}
	g := &gatewayRig{redisServer: server, binary: binary, dir: dir, queue: queue.New(server.rdb, queue.DefaultRules)}
	enroll, _, err := g.queue.Enroll(ctx, "bench", time.Hour)
	if err != nil {
		return nil, err
	}
	worker, err := g.queue.Register(ctx, queue.Registration{EnrollToken: enroll})
	g.token = worker.Token
	return g, err
}

// env is what a process needs to find the rig's Redis.
func (g *gatewayRig) env(more ...string) []string {
	return append([]string{"REDIS_HOST=127.0.0.1", "REDIS_PORT=" + g.port, "LOG_LEVEL=ERROR", "TMPDIR=" + g.dir, "PATH=" + os.Getenv("PATH")}, more...)
}

// gateway starts the real thing.
func (g *gatewayRig) gateway(ctx context.Context, env ...string) (*process, error) {
	cmd := exec.CommandContext(ctx, g.binary, "gateway", "--addr", "127.0.0.1:0")
	cmd.Env, cmd.Dir = g.env(env...), g.dir
	return spawn(cmd, 1)
}

// bare starts the bare handler.
func (g *gatewayRig) bare(ctx context.Context) (*process, error) {
	cmd := ownCommand(ctx, "serve-bare-gateway")
	cmd.Env = g.env()
	return spawn(cmd, 1)
}

// benchPayload is what a job asks for: H2, as submitters write it.
const benchPayload = `{"structure":{"cell_angstrom":6.5,"atoms":[{"element":"H","position":[0,0,0]},{"element":"H","position":[0,0,0.7519]}]},"relax":true,"delta":0.01}`

// fill queues n jobs of kind zpe as the gateway does.
func (g *gatewayRig) fill(ctx context.Context, n int) error {
	return g.fillWith(ctx, n, benchPayload, func(pipe redis.Pipeliner, id string, place redis.Z) {
		pipe.LPush(ctx, "zpe:queue", id)
		pipe.ZAdd(ctx, "zpe:jobs:queued", place)
	})
}

// fillWith writes n jobs with a payload, many a round trip. add puts each into its queue and its index.
func (g *gatewayRig) fillWith(ctx context.Context, n int, payload string, add func(pipe redis.Pipeliner, id string, place redis.Z)) error {
	ttl := g.queue.ResultTTL
	for n > 0 {
		batch := min(n, 2000)
		pipe := g.rdb.Pipeline()
		now := time.Now()
		at := now.UTC().Format(time.RFC3339Nano)
		for range batch {
			g.filled++
			id := fmt.Sprintf("01KABCDEFGHJKMNPQR%08d", g.filled) // as long as a ULID
			pipe.Set(ctx, "zpe:payload:"+id, payload, ttl)
			pipe.HSet(ctx, "zpe:status:"+id, "status", "queued", "detail", "", "updated_at", at, "created_at", at)
			pipe.PExpire(ctx, "zpe:status:"+id, ttl)
			add(pipe, id, redis.Z{Score: float64(now.UnixMilli()), Member: id})
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		n -= batch
	}
	return nil
}

// gatewayRate compares the gateway with the bare handler and asynq, in turns.
func gatewayRate(ctx context.Context, r *report, g *gatewayRig) error {
	real, err := g.gateway(ctx)
	if err != nil {
		return err
	}
	bare, err := g.bare(ctx)
	if err != nil {
		return err
	}
	const n, turns = 2000, 31
	rates, costs := map[string][]float64{}, map[string][]float64{}
	var ratios, toAsynq []float64
	type contender struct {
		name string
		p    *process
	}
	both := []contender{{"bare", bare}, {"gateway", real}}
	for range turns {
		slices.Reverse(both) // neither is always the one that comes after asynq
		for _, one := range both {
			if err := g.fill(ctx, n); err != nil {
				return err
			}
			var rate float64
			used, err := one.p.cpuDuring(func() (err error) {
				rate, err = runAgents(ctx, one.p.address(), g.token, n)
				return err
			})
			if err != nil {
				return err
			}
			rates[one.name] = append(rates[one.name], rate)
			costs[one.name] = append(costs[one.name], microseconds(used)/n)
		}
		direct, err := asynqRate(ctx, g, n)
		if err != nil {
			return err
		}
		rates["asynq"] = append(rates["asynq"], direct)
		last := len(rates["gateway"]) - 1
		ratios = append(ratios, rates["gateway"][last]/rates["bare"][last])
		toAsynq = append(toAsynq, rates["gateway"][last]/direct)
	}
	r.add("lease + result over HTTP, 8 agents", median(rates["gateway"]), "jobs/s", bar{})
	r.add("a bare handler with the same two scripts", median(rates["bare"]), "jobs/s", bar{})
	r.add("asynq, no-op tasks, concurrency 8, on Redis directly", median(rates["asynq"]), "jobs/s", bar{})
	r.add("gateway / bare handler", median(ratios), "", atLeast(0.9))
	r.add("gateway / asynq", median(toAsynq), "", bar{})
	r.add("processor time of the gateway", median(costs["gateway"]), "µs/job", bar{})
	r.add("processor time of the bare handler", median(costs["bare"]), "µs/job", bar{})
	memory, err := real.memory("VmRSS")
	if err != nil {
		return err
	}
	r.add("memory of the gateway", memory/1e6, "MB", bar{})
	if err := gatewayTrips(ctx, r, g, real.address()); err != nil {
		return err
	}
	return errors.Join(real.stop(), bare.stop())
}

// gatewayTrips counts what the gateway sends to Redis for each job.
func gatewayTrips(ctx context.Context, r *report, g *gatewayRig, url string) error {
	const n = 2000
	if err := g.fill(ctx, n); err != nil {
		return err
	}
	before, err := g.info(ctx, "stats", "total_reads_processed")
	if err != nil {
		return err
	}
	if _, err := runAgents(ctx, url, g.token, n); err != nil {
		return err
	}
	after, err := g.info(ctx, "stats", "total_reads_processed")
	if err != nil {
		return err
	}
	r.add("round trips to Redis, lease and result", (after-before)/n, "/job", atMost(2.05)) // and those of the watcher and this count
	return nil
}

// info returns a number of INFO.
func (g *gatewayRig) info(ctx context.Context, section, field string) (float64, error) {
	text, err := g.rdb.Info(ctx, section).Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			var n float64
			_, err := fmt.Sscan(value, &n)
			return n, err
		}
	}
	return 0, fmt.Errorf("redis tells no %s", field)
}

// gatewayBacklog measures whether the rate depends on how much is queued: two
// gateways, each on a Redis of its own, in turns.
func gatewayBacklog(ctx context.Context, r *report, shallow *gatewayRig) error {
	deep, err := startGatewayRig(ctx, shallow.binary, shallow.dir)
	if err != nil {
		return err
	}
	defer deep.stop()
	// Not a million: at 2²¹ keys, which are 1 048 576 jobs, Redis moves its table to
	// one twice as large, and everything costs it twice as much until that is done.
	// With so many it has been done while they were queued.
	const few, many, n, turns = 10_000, 1_500_000, 2000, 31
	depths := []*depth{{rig: shallow, queued: few}, {rig: deep, queued: many}}
	for _, d := range depths {
		if d.gateway, err = d.rig.gateway(ctx); err != nil {
			return err
		}
		if err := d.rig.fill(ctx, d.queued); err != nil {
			return err
		}
	}
	var ratios []float64
	for range turns {
		for _, d := range depths {
			rate, err := runAgents(ctx, d.gateway.address(), d.rig.token, n)
			if err != nil {
				return err
			}
			d.rates = append(d.rates, rate)
			if err := d.rig.fill(ctx, n); err != nil {
				return err
			}
		}
		last := len(ratios)
		ratios = append(ratios, depths[1].rates[last]/depths[0].rates[last])
	}
	r.add("with 10 000 queued", median(depths[0].rates), "jobs/s", bar{})
	r.add("with 1 500 000 queued", median(depths[1].rates), "jobs/s", bar{})
	r.add("1 500 000 / 10 000 queued", median(ratios), "", atLeast(0.9))
	return errors.Join(depths[0].gateway.stop(), depths[1].gateway.stop())
}

// depth is a gateway with so many jobs queued.
type depth struct {
	rig     *gatewayRig
	queued  int
	gateway *process
	rates   []float64
}

// gatewayMemory measures what a queued job takes in Redis.
func gatewayMemory(ctx context.Context, r *report, g *gatewayRig) error {
	const n = 100_000
	before, err := g.info(ctx, "memory", "used_memory")
	if err != nil {
		return err
	}
	if err := g.fill(ctx, n); err != nil {
		return err
	}
	after, err := g.info(ctx, "memory", "used_memory")
	if err != nil {
		return err
	}
	r.add("Redis, per queued job beside its payload", (after-before)/n-float64(len(benchPayload)), "B", atMost(700))
	return nil
}
