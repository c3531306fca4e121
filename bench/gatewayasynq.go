package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
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
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: "127.0.0.1:" + g.port})
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
		return 0, err
	}
	cmd := ownCommand(ctx, "work-asynq")
	cmd.Env, cmd.Stderr = g.env("BENCH_TASKS="+strconv.Itoa(n)), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("asynq worker: %w", err)
	}
	return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
}

func newAsynqServer(concurrency int) *asynq.Server {
	return asynq.NewServer(asynq.RedisClientOpt{Addr: os.Getenv("REDIS_HOST") + ":" + os.Getenv("REDIS_PORT")},
		asynq.Config{Concurrency: concurrency, Logger: asynqQuiet{}})
}

// workAsynq works off BENCH_TASKS tasks, eight at once, and prints the rate.
func workAsynq(ctx context.Context) error {
	n, err := strconv.ParseInt(os.Getenv("BENCH_TASKS"), 10, 64)
	if err != nil {
		return err
	}
	srv := newAsynqServer(8)
	var done atomic.Int64
	var began time.Time
	var first sync.Once
	finished := make(chan time.Duration, 1)
	handler := asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		first.Do(func() { began = time.Now() })
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
		fmt.Printf("%.3f\n", float64(n)/took.Seconds())
		return nil
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
