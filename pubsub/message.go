package pubsub

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/trace"
)

// Message is the JSON body of a queued job: the fleet's wire contract. A reader
// ignores fields it does not know.
type Message struct {
	JobID      string   `json:"job_id"`
	PDFPath    string   `json:"pdf_path"`            // object name, or gs://bucket/name, or s3://bucket/name; input is another name of it
	Inputs     []string `json:"inputs,omitempty"`    // the same, where there are several
	BucketName string   `json:"bucket_name"`         // "local" or a bucket
	Timestamp  string   `json:"timestamp,omitempty"` // RFC 3339
	Kind       string   `json:"kind,omitempty"`      // the worker's default when empty
	Pages      int      `json:"pages,omitempty"`     // mock only
	// params, an object, follows; its bytes are those that its sender has written.
}

const (
	// traceAttribute is the attribute of a message that carries [jobs.Job.Trace].
	traceAttribute = "traceparent"
	// kindAttribute has the kind, for the filters of subscriptions. Who reads the message goes by
	// its field.
	kindAttribute = "kind"
)

// Limits of a job, which Redis keeps too.
const (
	MaxParams = 256 << 10 // bytes of the parameters
	MaxInputs = 1000
	// maxInputNames bounds the names of several inputs together, in bytes.
	maxInputNames = 256 << 10
)

var kindPattern = jobs.Form(`^[a-z][a-z0-9-]{0,31}$`)

// errMalformed marks a message that names no job, so that no status can record its
// failure.
var errMalformed = errors.New("malformed message")

// Rules are how a worker reads messages.
type Rules struct {
	DefaultKind jobs.Kind
	Bucket      string   // the store's own bucket; empty for a local store
	Scheme      string   // what begins a name with a bucket: that of storage, for Cloud Storage when empty
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
	job.Trace = trace.Known(attributes[traceAttribute])
	return job, r.fill(&job, fields)
}

// fill reads the rest of a message whose job id is known.
func (r Rules) fill(job *jobs.Job, fields map[string]json.RawMessage) error {
	var m Message
	var input string // another name of pdf_path
	for _, f := range []struct {
		name string
		into any
		want string
	}{
		{"pdf_path", &m.PDFPath, "a string"},
		{"bucket_name", &m.BucketName, "a string"},
		{"kind", &m.Kind, "a string"},
		{"pages", &m.Pages, "a whole number"},
		{"input", &input, "a string"},
		{"inputs", &m.Inputs, "a list of strings"},
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
	if params := string(fields["params"]); params != "" && params != "null" {
		if err := checkParams(params); err != nil {
			return fmt.Errorf("bad message: params %w", err)
		}
		job.Payload = params
	}
	name := "pdf_path"
	switch {
	case input == "":
	case m.PDFPath == "":
		name, m.PDFPath = "input", input
	case m.PDFPath != input:
		return fmt.Errorf("bad message: pdf_path is %.80q and input %.80q: they are one field", m.PDFPath, input)
	}
	if len(m.Inputs) > 0 {
		if m.PDFPath != "" {
			return fmt.Errorf("bad message: it has both %s and inputs", name)
		}
		return r.inputs(job, m)
	}
	if m.PDFPath == "" {
		return nil // whether that is a mistake depends on the kind
	}
	var err error
	if job.Input, err = r.input(m.PDFPath, m.BucketName); err != nil {
		return fmt.Errorf("bad message: %s: %w", name, err)
	}
	return nil
}

// inputs reads several inputs.
func (r Rules) inputs(job *jobs.Job, m Message) error {
	if len(m.Inputs) > MaxInputs {
		return fmt.Errorf("bad message: %w", CheckInputs(m.Inputs))
	}
	all := make([]string, len(m.Inputs))
	for i, path := range m.Inputs {
		var err error
		if all[i], err = r.input(path, m.BucketName); err != nil {
			return fmt.Errorf("bad message: inputs[%d]: %w", i, err)
		}
	}
	if err := CheckInputs(all); err != nil {
		return fmt.Errorf("bad message: %w", err)
	}
	job.Inputs = all
	return nil
}

// checkParams returns what is wrong with the parameters of a job: "is 5, want an object".
func checkParams(params string) error {
	if len(params) > MaxParams {
		return fmt.Errorf("is %d bytes long, at most %d are allowed", len(params), MaxParams)
	}
	if !strings.HasPrefix(params, "{") || !utf8.ValidString(params) || !json.Valid([]byte(params)) {
		return fmt.Errorf("is %.40q, want a JSON object", params)
	}
	return nil
}

// checkJob returns an error for a job that no message can carry.
func checkJob(job jobs.Job) error {
	switch {
	case job.Payload != "" && checkParams(job.Payload) != nil:
		return fmt.Errorf("job %s: params %w", job.ID, checkParams(job.Payload))
	case len(job.Inputs) > 0 && job.Input != "":
		return fmt.Errorf("job %s: it has one input and several", job.ID)
	}
	if err := CheckInputs(job.Inputs); err != nil {
		return fmt.Errorf("job %s: %w", job.ID, err)
	}
	return nil
}

// CheckInputs returns an error for more inputs than a job may have, or names of them that are too long together.
func CheckInputs(names []string) error {
	if len(names) > MaxInputs {
		return fmt.Errorf("%d inputs, at most %d are allowed", len(names), MaxInputs)
	}
	size := 0
	for _, name := range names {
		size += len(name)
	}
	if size > maxInputNames {
		return fmt.Errorf("the names of the inputs are %d bytes long, at most %d are allowed", size, maxInputNames)
	}
	return nil
}

// input returns the store's name for a document: a plain object name in the
// store's own bucket, gs://bucket/name or s3://bucket/name in another one that is allowed.
func (r Rules) input(path, bucket string) (string, error) {
	name := path
	if bucket == "local" { // what senders say that know of no buckets
		bucket = ""
	}
	own := cmp.Or(r.Scheme, storage.BucketScheme)
	for _, scheme := range []string{storage.BucketScheme, storage.S3Scheme} {
		rest, ok := strings.CutPrefix(path, scheme)
		switch {
		case !ok:
			continue
		case r.Bucket == "":
			return "", fmt.Errorf("%.80q is in a bucket, but this fleet stores on local disk (STORAGE_TYPE)", path)
		case scheme != own:
			return "", fmt.Errorf("%.80q is not where this fleet stores: its buckets are named %sbucket/name (STORAGE_TYPE)", path, own)
		}
		if bucket, name, ok = strings.Cut(rest, "/"); !ok || bucket == "" {
			return "", fmt.Errorf("%.80q is not of the form %sbucket/name", path, scheme)
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
		return "", fmt.Errorf("bucket %.80q is neither the fleet's own (GCS_BUCKET_NAME, S3_BUCKET_NAME) nor in ALLOWED_BUCKETS", bucket)
	}
	return own + bucket + "/" + name, nil
}

// encode returns the message and its attributes for a job.
func (r Rules) encode(job jobs.Job) (data []byte, attributes map[string]string) {
	bucket := r.Bucket
	if bucket == "" {
		bucket = "local"
	}
	m := Message{JobID: string(job.ID), PDFPath: job.Input, Inputs: job.Inputs, BucketName: bucket, Kind: string(job.Kind), Pages: job.Pages}
	if !job.Submitted.IsZero() {
		m.Timestamp = job.Submitted.UTC().Format(time.RFC3339)
	}
	data, _ = json.Marshal(m) // strings and numbers only
	if job.Payload != "" {
		data = slices.Concat(data[:len(data)-1], []byte(`,"params":`), []byte(job.Payload), []byte("}")) // Marshal would change its bytes
	}
	attributes = map[string]string{}
	if job.Kind != "" {
		attributes[kindAttribute] = string(job.Kind)
	}
	if job.Trace != "" {
		attributes[traceAttribute] = job.Trace
	}
	return data, attributes
}

// ValidKind reports whether a message may name this kind.
func ValidKind(kind string) bool { return kindPattern().MatchString(kind) }
