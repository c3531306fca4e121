package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/hibiken/asynq"
)

// gatewayRecovery measures how soon the lease of a killed worker is taken back.
// Its job runs again later: after the wait that follows any failure, 20 s.
func gatewayRecovery(ctx context.Context, r *report, g *gatewayRig) error {
	const lease, period = 5 * time.Second, 2 * time.Second
	p, err := g.gateway(ctx, "LEASE_TTL=5s", "REAP_INTERVAL=2s", "LEASE_SKEW=500ms")
	if err != nil {
		return err
	}
	token := filepath.Join(g.dir, "worker.token")
	if err := os.WriteFile(token, []byte(g.token+"\n"), 0o600); err != nil {
		return err
	}
	var worst time.Duration
	for turn := range 5 {
		if err := g.fill(ctx, 1); err != nil {
			return err
		}
		agent := exec.CommandContext(ctx, g.binary, "worker")
		agent.Env = g.env("SOURCE="+p.address(), "WORKER_TOKEN_FILE="+token, fmt.Sprintf("AGENT_DIR=%s/agent%d", g.dir, turn), "PROCESSOR=mock", "MOCK_PAGES=1000", "MOCK_PAGE_SECONDS=1")
		agent.Dir = g.dir
		started, err := spawn(agent, 0)
		if err != nil {
			return err
		}
		for g.rdb.ZCard(ctx, "zpe:lease:index").Val() == 0 && ctx.Err() == nil {
			pause(5 * time.Millisecond)
		}
		pause(time.Duration(turn) * 700 * time.Millisecond) // at any moment between two heartbeats
		killed := time.Now()
		started.kill()
		for g.rdb.ZCard(ctx, "zpe:delay").Val() == 0 && ctx.Err() == nil {
			pause(5 * time.Millisecond)
		}
		worst = max(worst, time.Since(killed))
		g.rdb.Del(ctx, "zpe:delay")
	}
	r.add("lease taken back after kill -9 of an agent, lease 5 s, reaper 2 s, worst of 5", worst.Seconds(), "s", atMost((lease + period + time.Second).Seconds()))
	took, err := asynqRecovery(ctx, g)
	if err != nil {
		return err
	}
	r.add("the same with asynq, as it comes", took.Seconds(), "s", bar{})
	return p.stop()
}

// asynqRecovery measures the same with asynq's server, killed and started again.
func asynqRecovery(ctx context.Context, g *gatewayRig) (time.Duration, error) {
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: "127.0.0.1:" + g.port})
	defer client.Close()
	if _, err := client.EnqueueContext(ctx, asynq.NewTask(asynqTask, nil)); err != nil {
		return 0, err
	}
	start := func(lines int) (*process, error) {
		cmd := ownCommand(ctx, "hang-asynq")
		cmd.Env = g.env()
		return spawn(cmd, lines)
	}
	first, err := start(1)
	if err != nil {
		return 0, err
	}
	killed := time.Now()
	first.kill()
	second, err := start(0)
	if err != nil {
		return 0, err
	}
	defer second.kill()
	for g.rdb.LLen(ctx, "asynq:{default}:active").Val() > 0 {
		pause(20 * time.Millisecond)
		if time.Since(killed) > 5*time.Minute || ctx.Err() != nil {
			return 0, errors.New("asynq does not take the task back")
		}
	}
	return time.Since(killed), nil
}
