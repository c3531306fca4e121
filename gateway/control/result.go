package control

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

var (
	recorded      = json.RawMessage("{\"ok\":true,\"idempotent\":false}\n")
	recordedAgain = json.RawMessage("{\"ok\":true,\"idempotent\":true}\n")
)

func (c *Control) result(ctx context.Context, from call, result queue.Result) (any, error) {
	// What has arrived whole is recorded even if the worker does not wait for the
	// answer.
	ctx, cancel := c.deadline(context.WithoutCancel(ctx))
	defer cancel()
	rec, late, err := finish(ctx, c.Queue, from.Caller, from.job, from.lease, result)
	response, err := c.recorded(ctx, from.job, from.lease, queue.Verdict{Recorded: rec, Late: late, Err: err})
	switch {
	case err != nil:
		return nil, err
	case response.Idempotent:
		return recordedAgain, nil
	}
	return recorded, nil
}

// recorded counts what has become of a result, and returns what its worker is told.
func (c *Control) recorded(ctx context.Context, id jobs.ID, lease string, v queue.Verdict) (wire.ReportResponse, error) {
	switch {
	case v.Late:
		c.Metrics.late.Inc()
		c.Log.WarnContext(ctx, "late result kept aside", "job", id, "lease", lease, "kept", c.Queue.LateTTL)
		return wire.ReportResponse{}, &keptError{c.Queue.LateTTL}
	case v.Err != nil:
		return wire.ReportResponse{}, v.Err
	case !v.Duplicate:
		c.Metrics.finished(v.Recorded)
	}
	return wire.ReportResponse{OK: true, Idempotent: v.Duplicate}, nil
}

// parseResult returns the result that a worker reports. The object stays as it was
// received: a number that went through a float64 would not.
func parseResult(a *wire.ResultRequest) (queue.Result, error) {
	object := bytes.TrimSpace(a.Result)
	switch {
	case len(object) == 0 || string(object) == "null":
		return queue.Result{}, missing("result")
	case object[0] != '{':
		return queue.Result{}, invalid("result", "want an object")
	case a.Kind != "":
		if err := checkArtifacts(a.Artifacts); err != nil {
			return queue.Result{}, err
		}
		a.SummaryText, a.FreqsCSV = new(string), new(string) // it has no such texts
	case a.SummaryText == nil:
		return queue.Result{}, missing("summary_text")
	case a.FreqsCSV == nil:
		return queue.Result{}, missing("freqs_csv")
	}
	meta, err := metaOf(a.Meta)
	if err != nil {
		return queue.Result{}, err
	}
	// The object may be large, and is not changed any more: a copy would be as large.
	text := unsafe.String(&object[0], len(object)) //nolint:gosec // see above
	r := queue.Result{JSON: text, Summary: *a.SummaryText, Freqs: *a.FreqsCSV, Meta: meta}
	if a.Kind != "" {
		for _, one := range a.Artifacts {
			r.Artifacts = append(r.Artifacts, queue.Artifact(one))
		}
		if a.Log != nil {
			if r.Log, err = parseLog(*a.Log); err != nil {
				return queue.Result{}, err
			}
		}
	}
	return r, nil
}

// checkArtifacts returns what is wrong with the artifacts of a result.
func checkArtifacts(list []wire.Artifact) error {
	if len(list) > queue.MaxArtifacts {
		return invalid("artifacts", "want at most %d", queue.MaxArtifacts)
	}
	names := map[string]bool{}
	for _, a := range list {
		switch {
		case !artifactName().MatchString(a.Name) || a.Name == resultName || names[a.Name]:
			return invalid("artifacts", "%.140q is no name of an artifact, or is there twice", a.Name)
		case a.Size < 0 || !validSum(a.SHA256):
			return invalid("artifacts", "want size and sha256 of %s", a.Name)
		case len(a.Type) > wire.MaxName || strings.ContainsFunc(a.Type, func(r rune) bool { return r < ' ' || r > '~' }):
			return invalid("artifacts", "the type of %s is no media type", a.Name)
		}
		names[a.Name] = true
	}
	return nil
}

// finish records a result. Nearly all results come once, so only one that seems
// to differ from what is on record is compared by its value: its worker may have
// written it again. The record of a finished job does not change meanwhile.
func finish(ctx context.Context, q *queue.Queue, caller queue.Caller, id jobs.ID, lease string, r queue.Result) (queue.Recorded, bool, error) {
	rec, late, err := q.Finish(ctx, caller, id, lease, r)
	if !errors.Is(err, queue.ErrFinished) {
		return rec, late, err
	}
	rec, err = compare(ctx, q, id, r, err)
	return rec, false, err
}

// compare returns what has become of a result after all that seems to differ from what is on
// record, with err.
func compare(ctx context.Context, q *queue.Queue, id jobs.ID, r queue.Result, err error) (queue.Recorded, error) {
	same, failed := sameContent(ctx, q, id, r)
	switch {
	case failed != nil:
		return queue.Recorded{}, failed
	case same:
		return queue.Recorded{Duplicate: true}, nil
	}
	return queue.Recorded{}, err
}

// comparing lets one result at a time be compared: that takes four times its size,
// which the room for large bodies does not count.
var comparing sync.Mutex

// sameContent reports whether r says the same as what is on record.
func sameContent(ctx context.Context, q *queue.Queue, id jobs.ID, r queue.Result) (bool, error) {
	for _, text := range []struct {
		read func(context.Context, jobs.ID) (string, error)
		want string
	}{{q.Summary, r.Summary}, {q.Freqs, r.Freqs}} {
		if got, err := text.read(ctx, id); err != nil || got != text.want {
			return false, err
		}
	}
	if len(r.Artifacts) > 0 {
		return false, nil // a result with artifacts is the same if its bytes are
	}
	comparing.Lock()
	defer comparing.Unlock()
	stored, err := q.Result(ctx, id)
	if err != nil {
		return false, err
	}
	a, err := canonical(stored)
	if err != nil {
		return false, fmt.Errorf("read result of job %s: %w", id, err)
	}
	b, err := canonical(r.JSON)
	return a == b, err
}

// canonical returns the hash of a canonical text, which itself may be large.
func canonical(text string) ([sha256.Size]byte, error) {
	raw := unsafe.Slice(unsafe.StringData(text), len(text)) // a copy would be as large; it is only read
	c, err := httpd.CanonicalJSON(raw)
	return sha256.Sum256(c), err
}

// metaOf returns what a worker says of its run, reduced to what a
// [wire.Meta] has.
func metaOf(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "{}", nil
	}
	var m wire.Meta
	if raw[0] != '{' || json.Unmarshal(raw, &m) != nil {
		return "", invalid("meta", "want an object of worker_hostname, qe_version and timestamp, which are strings, and computation_time_seconds, a number")
	}
	if t := m.ComputationTimeSeconds; t != "" {
		if f, err := strconv.ParseFloat(string(t), 64); err != nil || f < 0 || math.IsInf(f, 0) {
			return "", invalid("meta.computation_time_seconds", "want a number of seconds, not negative")
		}
	}
	if m.Timestamp != "" {
		if _, err := time.Parse(time.RFC3339, m.Timestamp); err != nil {
			return "", invalid("meta.timestamp", "want RFC 3339, such as 2026-02-18T09:30:00Z")
		}
	}
	m.WorkerHostname, m.QEVersion = shown(m.WorkerHostname, wire.MaxName), shown(m.QEVersion, wire.MaxName)
	b, err := json.Marshal(m)
	return string(b), err
}
