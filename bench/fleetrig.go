package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/batchfleet/batchfleet/storage"
)

// benchFleet is a queue and a Redis, and the worker's binary.
type benchFleet struct {
	*redisServer
	binary, dir string
	env         []string
	emulator    *process
	addr        string // of the emulator
	conn        *grpc.ClientConn
	published   int
}

// startBenchFleet starts both, in a new directory beside the binary; env is for the
// workers.
func startBenchFleet(ctx context.Context, binary string, env ...string) (*benchFleet, error) {
	dir, err := os.MkdirTemp(filepath.Dir(binary), "")
	if err != nil {
		return nil, err
	}
	server, err := startRedis(ctx, dir)
	if err != nil {
		return nil, err
	}
	f := &benchFleet{redisServer: server, binary: binary, dir: dir}
	emu := exec.CommandContext(ctx, binary, "emulator", "--addr", "127.0.0.1:0", "--project", "bench", "--topic", "jobs", "--subscription", "jobs")
	if len(env) > 0 {
		emu.Args = append(emu.Args, "--ack-deadline", "10s")
	}
	emu.Env, emu.Stderr = []string{}, io.Discard
	if f.emulator, err = spawn(emu, 1); err != nil {
		return nil, err
	}
	f.addr = f.emulator.address()
	f.conn, err = grpc.NewClient(f.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	f.env = append([]string{
		"PUBSUB_EMULATOR_HOST=" + f.addr, "PUBSUB_SUBSCRIPTION=" + benchSub, "GCP_PROJECT_ID=bench", "REDIS_PORT=" + f.port,
		"LOCAL_STORAGE_PATH=" + filepath.Join(dir, "storage"), "TMPDIR=" + dir, "PROCESSOR=mock", "MOCK_PAGES=0", "LOG_LEVEL=WARN",
	}, env...)
	return f, err
}

func freePort(ctx context.Context) (string, error) {
	l, err := listen(ctx)
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}

func (f *benchFleet) stop() {
	_ = f.conn.Close()
	f.emulator.kill()
	f.redisServer.stop()
}

// worker starts a worker, with more or other variables than the fleet's.
func (f *benchFleet) worker(ctx context.Context, slots int, env ...string) (*process, error) {
	cmd := exec.CommandContext(ctx, f.binary, "worker")
	cmd.Env, cmd.Dir = slices.Concat(f.env, env, []string{fmt.Sprintf("WORKER_SLOTS=%d", slots)}), f.dir
	return spawn(cmd, 0)
}

func (f *benchFleet) publish(ctx context.Context, bodies []string) error {
	client := pubsubpb.NewPublisherClient(f.conn)
	for len(bodies) > 0 {
		n := min(1000, len(bodies))
		req := &pubsubpb.PublishRequest{Topic: benchTopic}
		for _, b := range bodies[:n] {
			req.Messages = append(req.Messages, &pubsubpb.PubsubMessage{Data: []byte(b)})
		}
		if _, err := client.Publish(ctx, req); err != nil {
			return err
		}
		bodies = bodies[n:]
	}
	return nil
}

// queue publishes n jobs with fresh ids.
func (f *benchFleet) queue(ctx context.Context, n int) error {
	bodies := make([]string, n)
	for i := range bodies {
		f.published++
		bodies[i] = fmt.Sprintf(`{"job_id":"job-%07d","pdf_path":"uploads/job-%07d/document.pdf","bucket_name":"local","timestamp":"2026-02-12T06:30:00Z"}`, f.published, f.published)
	}
	return f.publish(ctx, bodies)
}

// durableFiles returns how many results a second the storage alone takes, eight at
// once.
func durableFiles(ctx context.Context, dir string, n int) (rate float64, err error) {
	store, err := storage.NewLocal(dir)
	if err != nil {
		return 0, err
	}
	defer store.Close()
	var all errgroup.Group
	all.SetLimit(8)
	began := time.Now()
	for i := range n {
		all.Go(func() error {
			return store.Put(ctx, fmt.Sprintf("results/%d/result.json", i), strings.NewReader(strings.Repeat("x", 500)))
		})
	}
	err = all.Wait()
	return float64(n) / time.Since(began).Seconds(), err
}

// memoryDir is a directory in memory, where the system has one.
func memoryDir() string {
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err != nil || !info.IsDir() {
		return ""
	}
	return filepath.Join(shm, fmt.Sprintf("batchfleet-bench-%d", os.Getpid()))
}

// drain queues n jobs, lets one worker run them all, and returns the rate and
// the worker's processor time per job in seconds. Results go to storageDir if it
// is not empty, and are deleted.
func (f *benchFleet) drain(ctx context.Context, n, slots int, storageDir string) (rate, cpu float64, err error) {
	var env []string
	if storageDir != "" {
		defer os.RemoveAll(storageDir)
		env = []string{"LOCAL_STORAGE_PATH=" + storageDir}
	}
	w, err := f.worker(ctx, slots, env...)
	if err != nil {
		return 0, 0, err
	}
	for f.waitingPulls(ctx) == 0 {
		pause(time.Millisecond)
	}
	rate, cpu, err = f.watch(ctx, w, n, func() error { return f.queue(ctx, n) })
	return rate, cpu, errors.Join(err, w.stop())
}

// drainSome queues queued jobs and measures the first n of them.
func (f *benchFleet) drainSome(ctx context.Context, queued, n int) (rate, cpu float64, err error) {
	if err := f.queue(ctx, queued); err != nil {
		return 0, 0, err
	}
	w, err := f.worker(ctx, 8)
	if err != nil {
		return 0, 0, err
	}
	rate, cpu, err = f.watch(ctx, w, n, func() error { return nil })
	return rate, cpu, errors.Join(err, w.stop())
}

// watch measures w from begin until it has acked n more messages. What it costs
// to start is measured first and taken off.
func (f *benchFleet) watch(ctx context.Context, w *process, n int, begin func() error) (rate, cpu float64, err error) {
	first := f.stats(ctx).Acked
	var acked uint64
	var took time.Duration
	used, err := w.cpuDuring(func() error {
		began := time.Now()
		if err := begin(); err != nil {
			return err
		}
		for acked < uint64(n) && ctx.Err() == nil {
			pause(20 * time.Millisecond) // each look costs the emulator what a job costs it
			acked = f.stats(ctx).Acked - first
		}
		took = time.Since(began)
		return nil
	})
	return float64(acked) / took.Seconds(), used.Seconds() / float64(acked), err
}

// bareLoop makes the calls of n jobs without a worker around them.
func (f *benchFleet) bareLoop(ctx context.Context, n int) (rate float64, err error) {
	if err := f.queue(ctx, n); err != nil {
		return 0, err
	}
	client := pubsubpb.NewSubscriberClient(f.conn)
	began := time.Now()
	for i := range n {
		reply, err := client.Pull(ctx, &pubsubpb.PullRequest{Subscription: benchSub, MaxMessages: 1})
		if err != nil {
			return 0, err
		}
		key := fmt.Sprintf("bare:%d", i)
		for range 4 {
			if err := f.rdb.Set(ctx, key, `{"status":"processing","progress":0,"message":"Processing started...","result_url":"","error_msg":""}`, 24*time.Hour).Err(); err != nil {
				return 0, err
			}
		}
		path := filepath.Join(f.dir, "bare", key)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return 0, err
		}
		if err := os.WriteFile(path, []byte(`{"job_id":"x","pages":0}`), 0o600); err != nil {
			return 0, err
		}
		if _, err := client.Acknowledge(ctx, &pubsubpb.AcknowledgeRequest{Subscription: benchSub, AckIds: []string{reply.GetReceivedMessages()[0].GetAckId()}}); err != nil {
			return 0, err
		}
	}
	return float64(n) / time.Since(began).Seconds(), nil
}

type benchStats struct {
	Leased       int    `json:"leased"`
	WaitingPulls int    `json:"waiting_pulls"`
	Acked        uint64 `json:"acked"`
}

// stats asks the emulator; the zero value when it does not answer.
func (f *benchFleet) stats(ctx context.Context) benchStats {
	var all []benchStats
	if err := getJSON(ctx, "http://"+f.addr+"/stats", &all); err != nil || len(all) != 1 {
		return benchStats{}
	}
	return all[0]
}

func (f *benchFleet) waitingPulls(ctx context.Context) int { return f.stats(ctx).WaitingPulls }
func (f *benchFleet) leased(ctx context.Context) bool      { return f.stats(ctx).Leased > 0 }

func (f *benchFleet) progress(ctx context.Context, id string) int {
	var doc struct {
		Progress int `json:"progress"`
	}
	_ = json.Unmarshal([]byte(f.rdb.Get(ctx, "job:"+id).Val()), &doc) // not there yet
	return doc.Progress
}

// pause waits for another process, for which there is no other clock.
func pause(d time.Duration) { <-time.After(d) }
