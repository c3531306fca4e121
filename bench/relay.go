package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/relay"
)

// relaySection measures a relay beside what it cannot be faster than: the file that each task is, curl, nginx.
func relaySection(ctx context.Context, r *report) error {
	binary, err := build(ctx, r.dir)
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context, *report, relaySetup) error{relayIdle, relayCreates, relayMany, relayUpload, relayDownload} {
		s, err := newRelaySetup(r.dir, binary)
		if err != nil {
			return err
		}
		err = step(ctx, r, s)
		_ = os.RemoveAll(s.dir) // before the next one needs the disk; the section deletes what is left
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	relayToken = "a-token-of-the-bench-that-is-long-enough"
	relayKinds = "[wait]\ndescription = \"nothing, for long\"\ncommand = [\"sleep\", \"3600\"]\noutputs = [\"*\"]\n" +
		"[zeros]\ndescription = \"a file of 5 GiB\"\ncommand = [\"truncate\", \"-s\", \"5G\", \"{output}/zeros.bin\"]\n"
)

// relaySetup is what a relay is started with: a directory of its own on disk.
type relaySetup struct{ binary, dir string }

func newRelaySetup(above, binary string) (relaySetup, error) {
	dir, err := os.MkdirTemp(above, "relay-")
	if err != nil {
		return relaySetup{}, err
	}
	for name, text := range map[string]string{"kinds.toml": relayKinds, "token": relayToken} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return relaySetup{}, err
		}
	}
	return relaySetup{binary, dir}, nil
}

// start starts a relay, and waits until it listens.
func (s relaySetup) start(ctx context.Context, args ...string) (*process, error) {
	cmd := exec.CommandContext(ctx, s.binary, append([]string{
		"relay", "--addr", "127.0.0.1:0", "--dir", s.path(), "--kinds", filepath.Join(s.dir, "kinds.toml"),
		"--token-file", filepath.Join(s.dir, "token"), "--gpus", "none", "--max-queued", "1000000", "--min-free-bytes", "0",
	}, args...)...)
	cmd.Dir, cmd.Stderr = s.dir, io.Discard
	return spawn(cmd, 1)
}

func (s relaySetup) path(parts ...string) string {
	return filepath.Join(append([]string{s.dir, "relay_runtime"}, parts...)...)
}

// benchTask returns the task of a number, which has ended.
func benchTask(n int) *relay.Task {
	now := time.Now().UTC().Truncate(time.Millisecond)
	return &relay.Task{
		SchemaVersion: 1, ID: jobs.ID(fmt.Sprintf("task_01KAV%021d", n)), JobID: fmt.Sprintf("job-%d", n), Kind: "wait", State: relay.Succeeded,
		Progress: 1, CreatedAt: now, StartedAt: now, UploadingAt: now, FinishedAt: now, Attempt: 1, Sequence: 4,
	}
}

// put writes a task where no relay runs. It is not synced.
func (s relaySetup) put(t *relay.Task) error {
	dir := s.path("tasks", string(t.ID))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "task.json"), text, 0o600)
}

// putFile adds an artifact of zeros to a task, which take no room on the disk, and returns its path.
func (s relaySetup) putFile(t *relay.Task, size int64, sha256 string) (path string, err error) {
	path = s.path("tasks", string(t.ID), "artifacts", "zeros.bin")
	t.Artifacts = []relay.Artifact{{Name: filepath.Base(path), ContentType: "application/octet-stream", Size: size, SHA256: sha256}}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return path, err
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return path, err
	}
	return path, os.Truncate(path, size)
}

// askRelay makes a request of a relay. The caller closes the body.
func askRelay(ctx context.Context, client *http.Client, method, url string, body io.Reader, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set(relay.TokenHeader, relayToken)
	req.Header.Set("Authorization", "Bearer "+relayToken) // of the Job API
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return client.Do(req)
}

// idleTime is how long a relay with nothing to do is watched.
const idleTime = 20 * time.Second

// relayIdle measures a relay without tasks.
func relayIdle(ctx context.Context, r *report, s relaySetup) error {
	p, err := s.start(ctx)
	if err != nil {
		return err
	}
	defer p.kill()
	return idleShare(r, p, "relay without tasks")
}

// idleShare adds the processor time and the memory of a relay with nothing to do.
func idleShare(r *report, p *process, what string) error {
	pause(2 * time.Second) // what it does after its start
	used, err := p.cpuDuring(func() error { pause(idleTime); return nil })
	if err != nil {
		return err
	}
	memory, err := p.memory("VmRSS")
	r.add(what+", processor time", 100*used.Seconds()/idleTime.Seconds(), "% of a core", atMost(0.5))
	r.add("… resident memory", memory/1e6, "MB", bar{})
	return err
}
