package control

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

// What follows is asked of the requests of workers, by HTTP or not.

// final are the codes of failures that would come again.
var final = []string{gateway.FailResultTooLarge, gateway.FailInvalidInput, gateway.FailQEInput, gateway.FailQENotConverged}

const codeLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

// maxSteps bounds the steps of a progress: integers up to here are exact in any
// language's numbers.
const maxSteps = 1 << 53

// parseID returns the id of a job in a path. What cannot be an id is no job's.
func parseID(s string) (jobs.ID, error) {
	id, err := queue.ParseID(s)
	if err != nil {
		return "", queue.ErrNoJob
	}
	return id, nil
}

func checkLease(id string) error {
	switch {
	case id == "":
		return missing("lease_id")
	case !isWord(id):
		return invalid("lease_id", "no lease has such an id")
	}
	return nil
}

// leaseAsk returns what to ask the queue for, and how long to wait.
func leaseAsk(a *gateway.LeaseAsk) (queue.LeaseAsk, time.Duration, error) {
	if a.RequestID != "" && !isWord(a.RequestID) {
		return queue.LeaseAsk{}, 0, invalid("request_id", "want 1 to 64 of A-Z a-z 0-9 . _ -")
	}
	wait, err := waitOf(a.WaitSeconds)
	if err != nil {
		return queue.LeaseAsk{}, 0, err
	}
	ask := queue.LeaseAsk{RequestID: a.RequestID, Renews: slices.Contains(a.Features, gateway.FeatureRenew)}
	return ask, wait, nil
}

func leaseAnswer(g queue.Grant) *gateway.LeaseAnswer {
	return &gateway.LeaseAnswer{
		JobID: string(g.Job), Payload: json.RawMessage(g.Payload), LeaseID: g.LeaseID, LeaseTTLSeconds: g.TTL.Seconds(), RetryCount: g.Retries,
	}
}

// beat returns what a heartbeat tells, and how long to hold the answer. A message
// that is too long is cut: it must not cost the worker its lease.
func beat(a *gateway.HeartbeatAsk) (queue.Beat, time.Duration, error) {
	b := queue.Beat{Message: shown(a.Message, gateway.MaxErrorMessage)}
	if p := a.Progress; p != nil {
		if p.Done < 0 || p.Total < 0 || p.Done > maxSteps || p.Total > maxSteps {
			return b, 0, invalid("progress", "want done and total from 0 to 2^53")
		}
		b.Done, b.Total = p.Done, p.Total
	}
	wait, err := waitOf(a.WaitSeconds)
	return b, wait, err
}

// waitOf returns a wait_seconds as a duration.
func waitOf(seconds float64) (time.Duration, error) {
	if seconds < 0 || seconds > gateway.MaxWait {
		return 0, invalid("wait_seconds", "want 0 to %d", gateway.MaxWait)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

func heartbeatAnswer(lease string, e queue.Extended, waited bool) gateway.HeartbeatAnswer {
	return gateway.HeartbeatAnswer{
		LeaseID: lease, LeaseTTLSeconds: e.TTL.Seconds(), ExpiresAt: float64(e.Until.UnixMilli()) / 1000, CancelRequested: e.Cancel, Waited: waited,
	}
}

// resultOf returns the result that a worker reports. The object stays as it was
// received: a number that went through a float64 would not.
func resultOf(a *gateway.ResultAsk) (queue.Result, error) {
	object := bytes.TrimSpace(a.Result)
	switch {
	case len(object) == 0 || string(object) == "null":
		return queue.Result{}, missing("result")
	case object[0] != '{':
		return queue.Result{}, invalid("result", "want an object")
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
	return queue.Result{JSON: text, Summary: *a.SummaryText, Freqs: *a.FreqsCSV, Meta: meta}, nil
}

// finish records a result. Nearly all results come once, so only one that seems
// to differ from what is on record is compared by its value: its worker may have
// written it anew. The record of a finished job does not change meanwhile.
func finish(ctx context.Context, q *queue.Queue, caller queue.Caller, id jobs.ID, lease string, r queue.Result) (queue.Recorded, bool, error) {
	rec, late, err := q.Finish(ctx, caller, id, lease, r)
	if !errors.Is(err, queue.ErrFinished) {
		return rec, late, err
	}
	same, err2 := sameContent(ctx, q, id, r)
	switch {
	case err2 != nil:
		return rec, false, err2
	case same:
		return queue.Recorded{Again: true}, false, nil
	}
	return rec, false, err
}

// comparing lets one result at a time be compared: that takes four times its size,
// of which the room for large bodies knows nothing.
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
// [gateway.Meta] has.
func metaOf(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "{}", nil
	}
	var m gateway.Meta
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
	m.WorkerHostname, m.QEVersion = shown(m.WorkerHostname, gateway.MaxName), shown(m.QEVersion, gateway.MaxName)
	b, err := json.Marshal(m)
	return string(b), err
}

// failureOf returns the failure that a worker reports. Texts that are too long
// are cut: a failure that cannot be reported would cost the job its whole lease.
func failureOf(a *gateway.FailedAsk) (queue.Failure, error) {
	if a.ErrorCode == "" {
		return queue.Failure{}, missing("error_code")
	}
	f := queue.Failure{
		Code: gateway.Clip(a.ErrorCode, gateway.MaxErrorCode), Message: shown(a.ErrorMessage, gateway.MaxErrorMessage),
		Traceback: shown(a.Traceback, gateway.MaxTraceback), Rerun: queue.Retry,
	}
	if strings.Trim(f.Code, codeLetters) != "" {
		return queue.Failure{}, invalid("error_code", "want a word of A-Z, 0-9 and _, such as QE_RUNTIME_ERROR")
	}
	switch {
	case slices.Contains(final, f.Code):
		f.Rerun = queue.Final
	case f.Code == gateway.FailCanceled: // the queue knows whether that was asked for
	case a.Retryable != nil && !*a.Retryable:
		f.Rerun = queue.Final
	case f.Code == gateway.FailWorkerShutdown:
		f.Rerun = queue.Back
	}
	return f, nil
}

func failedAnswer(f queue.Fate) gateway.FailedAnswer {
	return gateway.FailedAnswer{OK: true, Requeued: f.Requeued, RetryCount: f.Retries}
}

// name returns a name that somebody has given, or an error that says which
// field it is.
func name(field, s string) error {
	if len(s) > gateway.MaxName {
		return invalid(field, "%d bytes long, at most %d are allowed", len(s), gateway.MaxName)
	}
	if !jobs.IsVisible(s) {
		return invalid(field, "it must not hold control characters or invisible formatting characters (such as right-to-left marks)")
	}
	return nil
}

// shown returns a worker's text for people: what a terminal would obey is written
// out, and at most limit bytes are kept.
func shown(s string, limit int) string {
	return gateway.Clip(jobs.Visible(gateway.Clip(s, limit)), limit)
}
