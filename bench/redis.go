package main

import (
	"context"
	"net"
	"os/exec"
	"time"

	"github.com/redis/go-redis/v9"
)

// A redisServer is a Redis of one measurement, in a process of its own.
type redisServer struct {
	process *process
	rdb     *redis.Client
	port    string
}

// startRedis starts a Redis that keeps nothing on disk, and waits until it answers.
func startRedis(ctx context.Context, dir string) (*redisServer, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	p, err := spawn(exec.CommandContext(ctx, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", dir), 1)
	if err != nil {
		return nil, err
	}
	rdb := redis.NewClient(&redis.Options{Addr: net.JoinHostPort("127.0.0.1", port), DisableIdentity: true, ReadTimeout: time.Minute})
	for rdb.Ping(ctx).Err() != nil && ctx.Err() == nil {
		pause(5 * time.Millisecond)
	}
	return &redisServer{p, rdb, port}, nil
}

func (s *redisServer) stop() {
	_ = s.rdb.Close()
	s.process.kill()
}
