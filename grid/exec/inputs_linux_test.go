package exec

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestG60FilesComeFromTheCache(t *testing.T) {
	t.Parallel()
	r := newRig(t, "cat in; echo more >> in", Limits{Input: 100})
	write(t, filepath.Join(r.CacheDir, "model"), "cached\n", 0o600)
	write(t, filepath.Join(r.CacheDir, "large"), string(make([]byte, 101)), 0o600)
	if err := os.Symlink("/etc/passwd", filepath.Join(r.CacheDir, "link")); err != nil {
		t.Fatal(err)
	}
	from := func(id string) wire.JobRequest {
		q := request()
		q.Files = []wire.InputFile{{Name: "in", CacheID: &id}}
		return q
	}
	got := r.ok(from("model"))
	if got.Stdout != "cached\n" {
		t.Errorf("it read %q", got.Stdout)
	}
	wantFiles(t, got.OutputArchive, map[string]string{"in": "cached\nmore\n"})
	if got := r.ok(from("model")); got.Stdout != "cached\n" {
		t.Errorf("the next job read %q: the first has changed the cache", got.Stdout)
	}
	r.fails(from("other"), wire.ReasonRejected, `file "in": no file "other" in `+r.CacheDir)
	r.fails(from("link"), wire.ReasonRejected, `file "in": no file "link" in `+r.CacheDir+" (path escapes from parent)")
	r.fails(from("large"), wire.ReasonRejected, "larger than 100 bytes together")
	if err := os.RemoveAll(r.CacheDir); err != nil {
		t.Fatal(err)
	}
	r.fails(from("model"), wire.ReasonRejected, `file "in": --cache-dir `+r.CacheDir+" of the worker is not there")
}

func TestG70FilesComeFromTheStorage(t *testing.T) {
	t.Parallel()
	r := newRig(t, "cat in", Limits{})
	sum := sha256.Sum256([]byte("blob"))
	blob := wire.Blob{SHA256: hex.EncodeToString(sum[:]), Size: 4}
	q := request()
	q.Files = []wire.InputFile{{Name: "in", Blob: &blob}}
	r.fails(q, wire.ReasonRejected, "no storage for files")
	content, failure := "blob", error(nil)
	r.Fetch = func(_ context.Context, b wire.Blob, to io.Writer) error {
		if b != blob {
			t.Errorf("asked for %+v", b)
		}
		_, err := io.WriteString(to, content)
		return errors.Join(err, failure)
	}
	if got := r.ok(q); got.Stdout != "blob" || got.OutputArchive != nil {
		t.Errorf("it read %q, and left %d bytes", got.Stdout, len(got.OutputArchive))
	}
	for _, tt := range []struct {
		content string
		failure error
	}{{"blub", nil}, {"blo", nil}, {"blob", errors.New("away")}} {
		content, failure = tt.content, tt.failure
		if got, err := r.Run(t.Context(), Attempt{Request: q, Number: 1}); !errors.Is(err, jobs.ErrUnavailable) {
			t.Errorf("%q, %v: ended with %s %q, %v; want it unavailable", content, failure, got.Reason, got.Message, err)
		}
	}
	failure = fs.ErrNotExist
	r.fails(q, wire.ReasonRejected, "the storage has no blob "+blob.SHA256)
}

func TestG22HandlerReportsFailures(t *testing.T) {
	t.Parallel()
	r := newRig(t, `exit "$1"`, Limits{})
	h := &Handler{Runner: r.Runner}
	run := func(payload string) (jobs.Result, error) {
		return h.RunAttempt(t.Context(), jobs.Attempt{Job: jobs.Job{Payload: payload}, Number: 4, Report: func(jobs.Progress) {}})
	}
	payload := `{"JobId":"%s","ClientId":"c","ExecName":"calcA","Args":["%d"],"Files":null,"Other":1}`
	id := wire.NewGUID()
	got, err := run(fmt.Sprintf(payload, id, 0))
	var result wire.JobResult
	if err != nil || json.Unmarshal([]byte(got.Text), &result) != nil || result.Status != wire.OK || result.JobID != id || result.Attempt != 4 {
		t.Errorf("got %q, %v", got.Text, err)
	}
	_, err = run(fmt.Sprintf(payload, id, 7))
	f, ok := errors.AsType[*jobs.Failure](err)
	var told wire.JobResult
	if !ok || f.Code != "EXIT" || !f.Final || json.Unmarshal([]byte(f.Detail), &told) != nil || told.Status != wire.Failed || told.ExitCode == nil || *told.ExitCode != 7 {
		t.Errorf("got %v, and the result %+v", err, told)
	}
	_, err = run("{")
	if f, ok := errors.AsType[*jobs.Failure](err); !ok || f.Code != "REJECTED" {
		t.Errorf("a payload that is no JSON: %v", err)
	}
}
