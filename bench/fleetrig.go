package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/batchfleet/batchfleet/storage"
)

// benchFleet is a queue and a Redis, and the worker's binary.
type benchFleet struct {
	binary, dir string
	env         []string
	redisProc   *process
	emulator    *process
	addr        string // of the emulator
	rdb         *redis.Client
	conn        *grpc.ClientConn
	published   int
}

// startBenchFleet starts both; env is for the workers.
func startBenchFleet(ctx context.Context, dir string, env ...string) (*benchFleet, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	binary := filepath.Join(dir, "batchfleet")
	for errors.Is(exists(binary), os.ErrNotExist) {
		binary = filepath.Join(filepath.Dir(filepath.Dir(binary)), "batchfleet")
	}
	f := &benchFleet{binary: binary, dir: dir}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	f.redisProc, err = spawn(exec.CommandContext(ctx, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", dir), 1)
	if err != nil {
		return nil, err
	}
	f.rdb = redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port, DisableIdentity: true})
	emu := exec.CommandContext(ctx, binary, "emulator", "--addr", "127.0.0.1:0", "--project", "bench", "--topic", "jobs", "--subscription", "jobs")
	if len(env) > 0 {
		emu.Args = append(emu.Args, "--ack-deadline", "10s")
	}
	emu.Env, emu.Stderr = []string{}, io.Discard
	if f.emulator, err = spawn(emu, 1); err != nil {
		return nil, err
	}
	f.addr = f.emulator.lines[0][strings.LastIndexByte(f.emulator.lines[0], ' ')+1:]
	f.conn, err = grpc.NewClient(f.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	f.env = append([]string{
		"PUBSUB_EMULATOR_HOST=" + f.addr, "PUBSUB_SUBSCRIPTION=" + benchSub, "GCP_PROJECT_ID=bench", "REDIS_PORT=" + port,
		"LOCAL_STORAGE_PATH=" + filepath.Join(dir, "storage"), "TMPDIR=" + dir, "PROCESSOR=mock", "MOCK_PAGES=0", "LOG_LEVEL=WARN",
	}, env...)
	return f, err
}

func exists(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return os.ErrNotExist
	}
	return err
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
	_ = f.rdb.Close()
	for _, p := range []*process{f.emulator, f.redisProc} {
		_ = p.cmd.Process.Signal(syscall.SIGKILL)
		_ = p.cmd.Wait() // it was killed
	}
}

func (f *benchFleet) worker(ctx context.Context, slots int) (*process, error) {
	cmd := exec.CommandContext(ctx, f.binary, "worker")
	cmd.Env, cmd.Dir, cmd.Stderr = append(f.env, fmt.Sprintf("WORKER_SLOTS=%d", slots)), f.dir, os.Stderr
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

// durableFiles returns how many results a second the storage alone takes, from
// eight goroutines.
func durableFiles(ctx context.Context, dir string, n int) (rate float64, err error) {
	store, err := storage.NewLocal(dir)
	if err != nil {
		return 0, err
	}
	defer store.Close()
	var all sync.WaitGroup
	errs := make([]error, 8)
	began := time.Now()
	for k := range errs {
		all.Go(func() {
			for i := range n / len(errs) {
				name := fmt.Sprintf("results/%d-%d/result.json", k, i)
				errs[k] = errors.Join(errs[k], store.Put(ctx, name, strings.NewReader(strings.Repeat("x", 500))))
			}
		})
	}
	all.Wait()
	return float64(n) / time.Since(began).Seconds(), errors.Join(errs...)
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
	if storageDir != "" {
		defer os.RemoveAll(storageDir)
		defer func(env []string) { f.env = env }(f.env)
		f.env = append(slices.Clone(f.env), "LOCAL_STORAGE_PATH="+storageDir)
	}
	w, err := f.worker(ctx, slots)
	if err != nil {
		return 0, 0, err
	}
	for f.waitingPulls(ctx) < slots {
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
	used, err := w.cpu()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := begin(); err != nil {
		return 0, 0, err
	}
	var acked uint64
	for acked < uint64(n) && ctx.Err() == nil {
		pause(20 * time.Millisecond) // each look costs the emulator what a job costs it
		acked = f.stats(ctx).Acked - first
	}
	took := time.Since(began)
	after, err := w.cpu()
	return float64(acked) / took.Seconds(), (after - used).Seconds() / float64(acked), err
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
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.addr+"/stats", nil)
	if err != nil {
		return benchStats{}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return benchStats{}
	}
	defer resp.Body.Close()
	var all []benchStats
	if json.NewDecoder(resp.Body).Decode(&all) != nil || len(all) != 1 {
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
