package cli

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pubsub"
	"github.com/batchfleet/batchfleet/pubsub/provider"
)

// jobInput is what one job is to work on.
type jobInput struct {
	label   string // as it was given
	sources []source
}

// source is where one input of a job comes from.
type source struct {
	file   string // here, or - for standard input; empty for an object
	object string // of the storage
}

// name is what a file is called in the storage.
func (s source) name() string {
	if s.file == "-" {
		return "input"
	}
	return filepath.Base(s.file)
}

// anyUpload stands for a file that is not stored yet, where a job is checked before.
const anyUpload = "uploads/x"

// expected returns the inputs of a job as they are before its files are stored: good for a check.
func (in jobInput) expected() []string {
	return each(in.sources, func(s source) string {
		if s.file != "" {
			return anyUpload
		}
		return s.object
	})
}

// hasFile reports whether any of it is a file that is to be stored.
func (in jobInput) hasFile() bool {
	return slices.ContainsFunc(in.sources, func(s source) bool { return s.file != "" })
}

// label names inputs to people.
func label(names []string) string { return strings.Join(names, " ") }

// inputs returns the input of each job: one, without any or with all that --input names, if there are no files.
func (a *asked) inputs(files []string) ([]jobInput, error) {
	if len(files) > 0 {
		return each(files, func(file string) jobInput { return jobInput{file, []source{{file: file}}} }), nil
	}
	in := jobInput{label: label(a.input)}
	for _, name := range a.input {
		switch info, err := os.Stat(name); {
		case name == "-", err == nil && info.Mode().IsRegular():
			in.sources = append(in.sources, source{file: name})
		case err == nil:
			return nil, program.Exit(program.Usage, fmt.Errorf("--input: %s is not a regular file", name))
		default:
			in.sources = append(in.sources, source{object: name})
		}
	}
	return []jobInput{in}, nil
}

// one queues a job. If it was not queued, what was stored for it is deleted again.
func (s *submitter) one(ctx context.Context, in jobInput, job jobapi.Submission) (jobs.ID, error) {
	id := jobs.ID(ulid.Make().String())
	if job.Key != "" {
		var err error
		if id, err = pubsub.KeyID(job.Key); err != nil {
			return "", &jobapi.FieldError{Field: jobapi.HeaderIdempotencyKey, Problem: err.Error()}
		}
	}
	stored, err := s.storeAll(ctx, id, in, &job)
	if err != nil {
		return "", errors.Join(err, s.remove(ctx, stored))
	}
	j, repeated, err := s.fleet.SubmitAs(ctx, id, job)
	mayNeed := errors.Is(err, pubsub.ErrMayBeQueued) || errors.Is(err, pubsub.ErrNotPublished)
	if err != nil && !mayNeed || repeated {
		err = errors.Join(err, s.remove(ctx, stored))
	}
	return jobs.ID(j.ID), err
}

// storeAll stores the files among the inputs of a job, fills in its inputs, and returns the objects that it has stored, also
// when it fails. Nothing is stored for a job that is known already.
func (s *submitter) storeAll(ctx context.Context, id jobs.ID, in jobInput, job *jobapi.Submission) (stored []string, err error) {
	job.Inputs, job.InputsAs = make([]string, len(in.sources)), make([]string, len(in.sources))
	for i, from := range in.sources {
		job.Inputs[i] = from.object
		if from.file != "" {
			job.Inputs[i] = provider.InputName(dirOf(id, i, len(in.sources), *job), from.name())
		}
	}
	if !in.hasFile() {
		return nil, nil
	}
	known, err := s.known(ctx, id, *job)
	if err == nil && len(in.sources) > 1 {
		err = s.fleet.Check(ctx, *job) // names that are too long together, say
	}
	for i, from := range in.sources {
		if err != nil || from.file == "" {
			continue
		}
		if known {
			job.Inputs[i] = ""
		}
		if job.InputsAs[i], err = s.upload(ctx, from, job.Inputs[i], job.Key != ""); err == nil && !known {
			stored = append(stored, job.Inputs[i])
		}
	}
	return stored, err
}

// dirOf is where an input of a job is stored, below uploads/. Of several each has a directory of its own, because two may
// have the same name.
func dirOf(id jobs.ID, i, n int, job jobapi.Submission) string {
	dir := string(id)
	if job.ID != "" {
		dir = job.ID
	}
	if job.ID != "" || job.Key != "" {
		dir += "/" + rand.Text() // another command may store for the same job now, and its input is not ours
	}
	if n > 1 {
		dir += "/" + strconv.Itoa(i+1)
	}
	return dir
}

// upload stores a file, unless object is empty, and returns what stands for it where two submissions are compared: with sum
// its name and its SHA-256.
func (s *submitter) upload(ctx context.Context, from source, object string, sum bool) (as string, err error) {
	var f io.ReadCloser
	if from.file == "-" {
		f = program.Stdin(ctx)
	} else if f, err = os.Open(from.file); err != nil {
		return "", err
	}
	defer f.Close()
	if !sum {
		return from.file, s.store.Put(ctx, object, f)
	}
	hash := sha256.New()
	if object == "" {
		_, err = io.Copy(hash, f)
	} else {
		err = s.store.Put(ctx, object, io.TeeReader(f, hash))
	}
	text, _ := json.Marshal([]string{from.name(), hex.EncodeToString(hash.Sum(nil))}) // strings always have a form
	return string(text), err
}

// known reports whether a job that its sender has named is on record, so that nothing need be stored for it.
func (s *submitter) known(ctx context.Context, id jobs.ID, job jobapi.Submission) (bool, error) {
	if job.ID != "" {
		return false, s.fleet.New(ctx, jobs.ID(job.ID))
	}
	if job.Key == "" {
		return false, nil
	}
	found, err := s.fleet.Status.Submitted(ctx, id)
	return found.Known, err
}

// removeTimeout bounds how long it takes to delete what was stored for a job that was not queued.
const removeTimeout = 10 * time.Second

func (s *submitter) remove(ctx context.Context, objects []string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	for _, object := range objects {
		if err := s.store.Delete(ctx, object); err != nil {
			return fmt.Errorf("what was stored for it is left over: %w", err)
		}
	}
	return nil
}
