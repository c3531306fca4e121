package pubsub

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
)

// Message is the JSON body of a queued job: the fleet's wire contract. A reader
// ignores fields it does not know.
type Message struct {
	JobID      string `json:"job_id"`
	PDFPath    string `json:"pdf_path"`            // object name, or gs://bucket/name
	BucketName string `json:"bucket_name"`         // "local" or a bucket
	Timestamp  string `json:"timestamp,omitempty"` // RFC 3339
	Kind       string `json:"kind,omitempty"`      // the worker's default when empty
	Pages      int    `json:"pages,omitempty"`     // mock only
}

// traceAttribute is the attribute of a message that carries [jobs.Job.Trace].
const traceAttribute = "traceparent"

var (
	kindPattern  = jobs.Form(`^[a-z][a-z0-9-]{0,31}$`)
	tracePattern = jobs.Form(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)
)

// errMalformed marks a message that names no job, so that no status can record its
// failure.
var errMalformed = errors.New("malformed message")

// Rules are how a worker reads messages.
type Rules struct {
	DefaultKind jobs.Kind
	Bucket      string   // the store's own bucket; empty for a local store
	Allowed     []string // further buckets that inputs may come from
}

// decode reads a message. An error that wraps errMalformed comes without a job;
// any other comes with a job that has at least its id, and tells why it cannot run.
func (r Rules) decode(data []byte, attributes map[string]string) (jobs.Job, error) {
	if !utf8.Valid(data) {
		return jobs.Job{}, fmt.Errorf("%w: not UTF-8", errMalformed)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return jobs.Job{}, fmt.Errorf("%w: not a JSON object: %w", errMalformed, err)
	}
	var id string
	if raw, ok := fields["job_id"]; !ok {
		return jobs.Job{}, fmt.Errorf("%w: no job_id", errMalformed)
	} else if json.Unmarshal(raw, &id) != nil || string(raw) == "null" {
		return jobs.Job{}, fmt.Errorf("%w: job_id is not a string", errMalformed)
	}
	jobID, err := jobs.ParseID(id)
	if err != nil {
		return jobs.Job{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	job := jobs.Job{ID: jobID, Kind: r.DefaultKind}
	if trace := attributes[traceAttribute]; tracePattern().MatchString(trace) {
		job.Trace = trace
	}
	return job, r.fill(&job, fields)
}

// fill reads the rest of a message whose job id is known.
func (r Rules) fill(job *jobs.Job, fields map[string]json.RawMessage) error {
	var m Message
	for _, f := range []struct {
		name string
		into any
		want string
	}{
		{"pdf_path", &m.PDFPath, "a string"},
		{"bucket_name", &m.BucketName, "a string"},
		{"kind", &m.Kind, "a string"},
		{"pages", &m.Pages, "a whole number"},
	} {
		if raw, ok := fields[f.name]; ok && json.Unmarshal(raw, f.into) != nil {
			return fmt.Errorf("bad message: %s is %.40s, want %s", f.name, raw, f.want)
		}
	}
	if json.Unmarshal(fields["timestamp"], &m.Timestamp) != nil {
		m.Timestamp = "" // the time only feeds statistics
	}
	if t, err := time.Parse(time.RFC3339, m.Timestamp); err == nil {
		job.Submitted = t.UTC()
	}
	if m.Kind != "" {
		if !kindPattern().MatchString(m.Kind) {
			return fmt.Errorf("bad message: kind %.40q must match %s", m.Kind, kindPattern())
		}
		job.Kind = jobs.Kind(m.Kind)
	}
	if m.Pages < 0 || m.Pages > jobs.MaxPages {
		return fmt.Errorf("bad message: pages is %d, must be from 0 to %d", m.Pages, jobs.MaxPages)
	}
	job.Pages = m.Pages
	if m.PDFPath == "" {
		return nil // whether that is a mistake depends on the kind
	}
	input, err := r.input(m.PDFPath, m.BucketName)
	if err != nil {
		return fmt.Errorf("bad message: pdf_path: %w", err)
	}
	job.Input = input
	return nil
}

// input returns the store's name for a document: a plain object name in the
// store's own bucket, gs://bucket/name in another one that is allowed.
func (r Rules) input(path, bucket string) (string, error) {
	name := path
	if bucket == "local" { // what senders say that know of no buckets
		bucket = ""
	}
	if rest, ok := strings.CutPrefix(path, "gs://"); ok {
		bucket, name, ok = strings.Cut(rest, "/")
		if !ok || bucket == "" {
			return "", fmt.Errorf("%.80q is not of the form gs://bucket/name", path)
		}
		if r.Bucket == "" {
			return "", fmt.Errorf("%.80q is in a bucket, but this fleet stores on local disk (STORAGE_TYPE)", path)
		}
	}
	if err := storage.ValidName(name); err != nil {
		return "", err
	}
	if bucket == "" || bucket == r.Bucket {
		return name, nil
	}
	if r.Bucket == "" {
		return "", fmt.Errorf("it is said to be in bucket %.80q, but this fleet stores on local disk (STORAGE_TYPE)", bucket)
	}
	if !slices.Contains(r.Allowed, bucket) {
		return "", fmt.Errorf("bucket %.80q is neither GCS_BUCKET_NAME nor in ALLOWED_BUCKETS", bucket)
	}
	return "gs://" + bucket + "/" + name, nil
}

// encode returns the message and its attributes for a job.
func (r Rules) encode(job jobs.Job) (data []byte, attributes map[string]string) {
	bucket := r.Bucket
	if bucket == "" {
		bucket = "local"
	}
	m := Message{JobID: string(job.ID), PDFPath: job.Input, BucketName: bucket, Kind: string(job.Kind), Pages: job.Pages}
	if !job.Submitted.IsZero() {
		m.Timestamp = job.Submitted.UTC().Format(time.RFC3339)
	}
	data, _ = json.Marshal(m) // strings and numbers only
	if job.Trace != "" {
		attributes = map[string]string{traceAttribute: job.Trace}
	}
	return data, attributes
}

// ValidKind reports whether a message may name this kind.
func ValidKind(kind string) bool { return kindPattern().MatchString(kind) }
