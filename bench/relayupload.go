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
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/relay"
)

// uploadSize is what is uploaded: zeros, which a program has made.
const uploadSize = 5 << 30

// relayUpload measures the upload of one large artifact beside curl, both from the same file to a server in this process that
// drops it. A relay that was started again reads the file for its hash while it sends it: that is measured beside.
func relayUpload(ctx context.Context, r *report, s relaySetup) error {
	sink, err := startSink(ctx)
	if err != nil {
		return err
	}
	defer sink.server.Close()
	var rates, ratios, again, cpus, curls, memories []float64
	for range 3 {
		p, err := s.start(ctx, "--orchestrator", sink.url)
		if err != nil {
			return err
		}
		id, err := createZeros(ctx, p)
		if err != nil {
			p.kill()
			return err
		}
		fresh, err := sink.measure(ctx, p)
		p.kill() // most often before it knows that all was taken
		if err != nil {
			return err
		}
		limit, curl, err := sink.byCurl(ctx, s.path("tasks", id, "artifacts", "zeros.bin"))
		if err != nil {
			return err
		}
		if err := s.uploading(id); err != nil {
			return err
		}
		if p, err = s.start(ctx, "--orchestrator", sink.url); err != nil {
			return err
		}
		restarted, err := sink.measure(ctx, p)
		p.kill()
		if err := errors.Join(err, os.RemoveAll(s.path("tasks", id))); err != nil {
			return err
		}
		rates, ratios = append(rates, uploadSize/fresh.took.Seconds()/1e6), append(ratios, limit.Seconds()/fresh.took.Seconds())
		again = append(again, limit.Seconds()/restarted.took.Seconds())
		cpus, curls = append(cpus, fresh.cpu.Seconds()), append(curls, curl.Seconds())
		memories = append(memories, fresh.memory/1e6, restarted.memory/1e6)
	}
	r.add("upload of 5 GiB, median of 3", median(rates), "MB/s", bar{})
	r.add("… against curl -F of the same file", median(ratios), "ratio", atLeast(0.8))
	r.add("… the least of 3", quantile(ratios, 0), "ratio", bar{})
	r.add("… after a restart, with its hash, against curl", median(again), "ratio", bar{})
	r.add("… processor time of the relay", median(cpus), "s", bar{})
	r.add("… of curl", median(curls), "s", bar{})
	r.add("… memory of the relay, at most", quantile(memories, 1), "MB", atMost(64))
	return nil
}

// createZeros creates a task that makes the file, and returns its id.
func createZeros(ctx context.Context, p *process) (string, error) {
	resp, err := askRelay(ctx, http.DefaultClient, http.MethodPost, p.address()+"/v1/tasks", strings.NewReader(`{"job_id":"job_1","kind":"zeros"}`))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var task struct {
		ID string `json:"task_id"`
	}
	err = json.NewDecoder(resp.Body).Decode(&task)
	if err == nil && resp.StatusCode != http.StatusAccepted {
		err = fmt.Errorf("create a task: %s", resp.Status)
	}
	return task.ID, err
}

// uploading makes a task one that is still uploading, where no relay runs.
func (s relaySetup) uploading(id string) error {
	text, err := os.ReadFile(s.path("tasks", id, "task.json"))
	if err != nil {
		return err
	}
	var t relay.Task
	if err := json.Unmarshal(text, &t); err != nil {
		return err
	}
	t.State, t.FinishedAt, t.Progress = relay.Uploading, time.Time{}, 0.99
	return s.put(&t)
}

// measured is one upload of a relay.
type measured struct {
	took, cpu time.Duration
	memory    float64 // bytes, the most so far
}

// measure waits for an upload of a relay.
func (s *sink) measure(ctx context.Context, p *process) (measured, error) {
	_, err := next(ctx, s.begun)
	before, cpuErr := p.cpu()
	got, takenErr := next(ctx, s.taken)
	after, cpuErr2 := p.cpu()
	memory, memoryErr := p.memory("VmHWM")
	return measured{got.took, after - before, memory}, errors.Join(err, cpuErr, takenErr, got.err, cpuErr2, memoryErr)
}

// byCurl uploads a file by curl.
func (s *sink) byCurl(ctx context.Context, path string) (took, cpu time.Duration, err error) {
	curl := exec.CommandContext(ctx, "curl", "-sS", "-f", "-H", "Expect:", "-F", "file=@"+path, s.url)
	if out, err := curl.CombinedOutput(); err != nil {
		return 0, 0, errors.Join(errors.New("curl: "+string(out)), err)
	}
	got, err := next(ctx, s.taken)
	<-s.begun
	return got.took, curl.ProcessState.UserTime() + curl.ProcessState.SystemTime(), errors.Join(err, got.err)
}

// sink is a server that drops what it is sent.
type sink struct {
	url    string
	server *http.Server
	begun  chan struct{}
	taken  chan sunk
}

// sunk is how long a body took.
type sunk struct {
	took time.Duration
	err  error
}

// next waits for what a server has to tell.
func next[T any](ctx context.Context, from chan T) (v T, err error) {
	select {
	case v = <-from:
		return v, nil
	case <-time.After(5 * time.Minute):
		return v, errors.New("no upload within five minutes")
	case <-ctx.Done():
		return v, context.Cause(ctx)
	}
}

func startSink(ctx context.Context) (*sink, error) {
	l, err := listen(ctx)
	if err != nil {
		return nil, err
	}
	s := &sink{url: "http://" + l.Addr().(*net.TCPAddr).String(), begun: make(chan struct{}, 1), taken: make(chan sunk, 1)}
	s.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		s.begun <- struct{}{}
		began := time.Now()
		err := drop(req.Body)
		w.WriteHeader(http.StatusNoContent)
		s.taken <- sunk{time.Since(began), err}
	})}
	go func() { _ = s.server.Serve(l) }() // until it is closed
	return s, nil
}

// drop reads r to its end, in parts that are large enough for the reader not to be what is measured.
func drop(r io.Reader) error {
	buf := make([]byte, 1<<20)
	for {
		if _, err := r.Read(buf); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
