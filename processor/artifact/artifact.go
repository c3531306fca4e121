// Package artifact stores what the jobs of people's own kinds have made: files of any sort,
// and last the result that lists them. They live under results/{job_id}/:
//
//	artifacts/NAME   the files
//	result.json      written last: its presence means that the job is complete
//
// A stale attempt can make nothing visible: the store asks [jobs.Held] before each object. What
// an attempt has stored before it ended without a result is replaced, or deleted, by the next.
package artifact

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
)

// Artifact is a file that a job has made.
type Artifact struct {
	Name   string `json:"name"` // see CheckName
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // in hex
	Type   string `json:"type"`   // its media type, by the end of its name
}

// Input is a file that a job has read.
type Input struct {
	Name   string `json:"name"` // of the object
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // in hex
}

// Result is the content of result.json. The first four fields are those of every kind.
type Result struct {
	JobID         jobs.ID    `json:"job_id"`
	Pages         int        `json:"pages"`                   // steps done, if the program has told
	ProcessedAt   string     `json:"processed_at"`            // RFC 3339, UTC
	Seconds       float64    `json:"processing_time_seconds"` // of the attempt that ended it, to 1/100
	SchemaVersion int        `json:"schema_version"`
	Kind          string     `json:"kind"`
	Attempt       int        `json:"attempt"`
	Inputs        []Input    `json:"inputs"`
	Artifacts     []Artifact `json:"artifacts"`
}

// schemaVersion counts the incompatible changes of Result.
const schemaVersion = 1

// maxResult bounds a result.json in bytes: 10 000 artifacts take some 3 MB.
const maxResult = 16 << 20

// Outcome returns what a worker records of the result.
func (r Result) Outcome() jobs.Result {
	return jobs.Result{Object: ResultName(r.JobID), Pages: r.Pages, Files: len(r.Artifacts)}
}

func dir(id jobs.ID) string          { return "results/" + string(id) + "/" }
func artifactsDir(id jobs.ID) string { return dir(id) + "artifacts/" }

// ResultName is the object of a job's result.json.
func ResultName(id jobs.ID) string { return dir(id) + "result.json" }

// ObjectName is the object of an artifact.
func ObjectName(id jobs.ID, name string) string { return artifactsDir(id) + name }

var nameForm = jobs.Form(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)

// CheckName returns an error unless an artifact may have this name: one that can be saved as
// it stands everywhere, and is not that of the result itself.
func CheckName(name string) error {
	switch {
	case name == "result.json":
		return errors.New("output result.json: this name is kept for the list of all outputs: use another one")
	case !nameForm().MatchString(name):
		return fmt.Errorf("output %.64q: a name has letters, digits, \".\", \"_\" and \"-\", no \".\" or \"-\" first, and at most 128 bytes", name)
	}
	return nil
}

// mediaTypes are the media types by the end of a name, of what people's programs make most. The
// system's own table would be another one on each machine.
var mediaTypes = map[string]string{
	".csv": "text/csv; charset=utf-8", ".gif": "image/gif", ".gz": "application/gzip", ".html": "text/html; charset=utf-8",
	".jpeg": "image/jpeg", ".jpg": "image/jpeg", ".json": "application/json", ".jsonl": "application/x-ndjson", ".md": "text/markdown; charset=utf-8",
	".mp3": "audio/mpeg", ".mp4": "video/mp4", ".ogg": "audio/ogg", ".pdf": "application/pdf", ".png": "image/png", ".svg": "image/svg+xml",
	".tar": "application/x-tar", ".tif": "image/tiff", ".tiff": "image/tiff", ".txt": "text/plain; charset=utf-8", ".wav": "audio/wav",
	".webm": "video/webm", ".webp": "image/webp", ".xml": "application/xml", ".zip": "application/zip",
}

// MediaType returns the media type of a file by the end of its name.
func MediaType(name string) string {
	return cmp.Or(mediaTypes[strings.ToLower(path.Ext(name))], "application/octet-stream")
}

// Put stores what r yields as an artifact. It calls progressed every few seconds as long as
// data goes.
func Put(ctx context.Context, store storage.Store, id jobs.ID, name string, r io.Reader, progressed func()) (Artifact, error) {
	if err := CheckName(name); err != nil {
		return Artifact{}, err
	}
	if err := jobs.AwaitHeld(ctx); err != nil {
		return Artifact{}, err
	}
	counted := &counter{Reader: r, progressed: progressed, reported: time.Now()}
	hash := sha256.New()
	if err := store.Put(ctx, ObjectName(id, name), io.TeeReader(counted, hash)); err != nil {
		return Artifact{}, fmt.Errorf("store output %s: %w", name, err)
	}
	return Artifact{Name: name, Size: counted.n, SHA256: hex.EncodeToString(hash.Sum(nil)), Type: MediaType(name)}, nil
}

// counter counts bytes and tells now and then that they come.
type counter struct {
	io.Reader
	n          int64
	progressed func()
	reported   time.Time
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n += int64(n)
	if n > 0 && time.Since(c.reported) > 5*time.Second {
		c.reported = time.Now()
		c.progressed()
	}
	return n, err
}

// Finish stores the result of a job, after it has deleted the artifacts of earlier attempts that
// r does not list. It fills in the fields that are the same for all results. A result of at most inline bytes is
// not stored: it is returned.
func Finish(ctx context.Context, store storage.Store, r Result, inline int) (jobs.Result, error) {
	r.SchemaVersion, r.ProcessedAt = schemaVersion, time.Now().UTC().Format(time.RFC3339)
	if r.Inputs == nil {
		r.Inputs = []Input{}
	}
	if r.Artifacts == nil {
		r.Artifacts = []Artifact{}
	}
	if err := jobs.AwaitHeld(ctx); err != nil {
		return jobs.Result{}, err
	}
	if r.Attempt > 1 {
		if err := deleteOthers(ctx, store, r); err != nil {
			return jobs.Result{}, fmt.Errorf("delete outputs of earlier attempts: %w", err)
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		return jobs.Result{}, err
	}
	outcome := r.Outcome()
	if len(text) <= inline {
		outcome.Text = string(text)
		return outcome, nil
	}
	var file bytes.Buffer
	if err := json.Indent(&file, text, "", "  "); err != nil {
		return jobs.Result{}, err
	}
	file.WriteByte('\n')
	if err := store.Put(ctx, ResultName(r.JobID), &file); err != nil {
		return jobs.Result{}, fmt.Errorf("store result: %w", err)
	}
	return outcome, nil
}

// deleteOthers deletes artifacts that r does not list.
func deleteOthers(ctx context.Context, store storage.Store, r Result) error {
	listed := map[string]bool{}
	for _, a := range r.Artifacts {
		listed[ObjectName(r.JobID, a.Name)] = true
	}
	return store.Walk(ctx, artifactsDir(r.JobID), func(name string, _ storage.Info, err error) error {
		if err == nil && !listed[name] {
			err = store.Delete(ctx, name)
		}
		return err
	})
}

// Stored returns the result of a job. The error wraps [fs.ErrNotExist] when there is none, and
// [fs.ErrInvalid] when it is not of this job or cannot be read.
func Stored(ctx context.Context, store storage.Store, id jobs.ID) (Result, error) {
	f, err := store.Open(ctx, ResultName(id))
	if err != nil {
		return Result{}, err
	}
	defer f.Close()
	var r Result
	err = json.NewDecoder(io.LimitReader(f, maxResult)).Decode(&r)
	switch {
	case errors.Is(err, jobs.ErrUnavailable) || ctx.Err() != nil:
		// It may be valid: it could not be read at this time.
		return Result{}, fmt.Errorf("read the result of job %s: %w", id, err)
	case err == nil && r.JobID != id:
		return Result{}, fmt.Errorf("result of job %s: %w: it names job %q", id, fs.ErrInvalid, r.JobID)
	case err != nil:
		return Result{}, fmt.Errorf("result of job %s: %w: %v", id, fs.ErrInvalid, err) //nolint:errorlint // one cause is enough
	}
	return r, nil
}

// Discard deletes everything that the attempts at a job have stored. It is for jobs that have
// ended without success.
func Discard(ctx context.Context, store storage.Store, id jobs.ID) error {
	// The files that are not yet objects first: they cannot become any after that.
	err := RemoveUnfinished(ctx, store, id, "", "artifacts", "parts")
	walked := store.Walk(ctx, dir(id), func(name string, _ storage.Info, err error) error {
		if err == nil {
			err = store.Delete(ctx, name)
		}
		return err
	})
	return errors.Join(err, walked)
}

// RemoveUnfinished takes from earlier attempts at a job what they were about to store, in the
// given directories of its results.
func RemoveUnfinished(ctx context.Context, store storage.Store, id jobs.ID, dirs ...string) (err error) {
	s, ok := store.(interface {
		RemoveUnfinished(ctx context.Context, dir string) error
	})
	if !ok {
		return nil // Cloud Storage has no such files
	}
	for _, sub := range dirs {
		err = errors.Join(err, s.RemoveUnfinished(ctx, path.Join(strings.TrimSuffix(dir(id), "/"), sub)))
	}
	return err
}
