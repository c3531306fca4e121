package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"golang.org/x/sync/errgroup"
)

// asynqTask is the type of the tasks that do nothing.
const asynqTask = "bench:nothing"

// asynqQuiet keeps asynq's own log off the report.
type asynqQuiet struct{}

func (asynqQuiet) Debug(...any) {}
func (asynqQuiet) Info(...any)  {}
func (asynqQuiet) Warn(...any)  {}
func (asynqQuiet) Error(...any) {}
func (asynqQuiet) Fatal(v ...any) {
	fmt.Fprintln(os.Stderr, v...)
	os.Exit(1)
}

// asynqRate queues n tasks and has a process of its own work them off.
func asynqRate(ctx context.Context, g *gatewayRig, n int) (rate float64, err error) {
	l, err := asynqLoad(ctx, g.redisServer, n, 8)
	return l.rate, err
}

// asynqLoad queues n tasks and has a process of its own work them off, so many at once.
func asynqLoad(ctx context.Context, server *redisServer, n, atOnce int) (l noopLoad, err error) {
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: "127.0.0.1:" + server.port})
	defer client.Close()
	var enqueuing errgroup.Group
	enqueuing.SetLimit(8)
	for range n {
		enqueuing.Go(func() error {
			_, err := client.EnqueueContext(ctx, asynq.NewTask(asynqTask, []byte(benchPayload)))
			return err
		})
	}
	if err := enqueuing.Wait(); err != nil {
		return l, err
	}
	cmd := ownCommand(ctx, "work-asynq")
	cmd.Env = []string{"REDIS_HOST=127.0.0.1", "REDIS_PORT=" + server.port, fmt.Sprintf("BENCH_TASKS=%d", n), fmt.Sprintf("BENCH_SLOTS=%d", atOnce)}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return l, fmt.Errorf("asynq worker: %w", err)
	}
	_, err = fmt.Sscan(string(out), &l.rate, &l.cpu, &l.memory)
	return l, err
}

func newAsynqServer(concurrency int) *asynq.Server {
	return asynq.NewServer(asynq.RedisClientOpt{Addr: os.Getenv("REDIS_HOST") + ":" + os.Getenv("REDIS_PORT")},
		asynq.Config{Concurrency: concurrency, Logger: asynqQuiet{}})
}

// workAsynq works off BENCH_TASKS tasks, BENCH_SLOTS at once, and prints a noopLoad.
func workAsynq(ctx context.Context) error {
	n, err := strconv.ParseInt(os.Getenv("BENCH_TASKS"), 10, 64)
	atOnce, err2 := strconv.Atoi(os.Getenv("BENCH_SLOTS"))
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	srv := newAsynqServer(atOnce)
	var done atomic.Int64
	var began time.Time
	var used time.Duration // when it began
	var first sync.Once
	finished := make(chan time.Duration, 1)
	handler := asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		first.Do(func() { began, used = time.Now(), ownCPU() })
		if done.Add(1) == n {
			finished <- time.Since(began)
		}
		return nil
	})
	if err := srv.Start(handler); err != nil {
		return err
	}
	defer srv.Shutdown()
	select {
	case took := <-finished:
		memory, err := memoryOf("self", "VmHWM")
		fmt.Println(float64(n)/took.Seconds(), (ownCPU()-used).Seconds()/float64(n), memory)
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// hangAsynq takes one task and never ends it.
func hangAsynq(ctx context.Context) error {
	srv := newAsynqServer(1)
	if err := srv.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		fmt.Println("started")
		<-ctx.Done()
		return nil
	})); err != nil {
		return err
	}
	<-ctx.Done()
	srv.Shutdown()
	return nil
}
