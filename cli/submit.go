package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pubsub"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/storage"
)

func submitCommand() *cobra.Command {
	var wait, asJSON bool
	var kind string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "submit FILE…",
		Short: "Store files and queue a job for each",
		Long:  "Store files and queue a job for each. Prints one job id a line; with --wait a table of results, with --json one object a line.",
		Args:  cobra.MinimumNArgs(1),
		RunE: settings.With(func(cmd *cobra.Command, env *ClientEnv, files []string) error {
			if kind != "" && !pubsub.ValidKind(kind) {
				return program.Exit(program.Usage, fmt.Errorf("--kind is %q: want lower-case letters, digits and -, such as pdf or mock", kind))
			}
			if err := checkFiles(files); err != nil {
				return err
			}
			ctx := cmd.Context()
			out := cmd.OutOrStdout()
			s, closer, err := env.openSubmitter(ctx)
			if err != nil {
				return err
			}
			defer closer.Close()
			sent, err := s.submit(ctx, files, jobs.Kind(kind))
			if !wait || err != nil {
				return errors.Join(printRows(out, asJSON, sent, nil, func(s submitted) []any { return []any{s.ID} }), err)
			}
			if timeout == 0 {
				timeout = math.MaxInt64
			}
			waiting, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			err = waitFor(waiting, s.status, sent, out, asJSON)
			if waiting.Err() != nil && ctx.Err() == nil {
				return program.Exit(program.Failed, fmt.Errorf("gave up waiting after %s; the jobs go on", timeout))
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until all jobs have ended; exit code 1 unless all succeeded")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object a line")
	cmd.Flags().StringVar(&kind, "kind", "", "what to do with the files: pdf or mock; the workers' default when empty")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "with --wait: give up after so long; the jobs go on")
	return cmd
}

// checkFiles finds mistakes before anything is stored.
func checkFiles(files []string) error {
	var wrong []error
	for _, name := range files {
		info, err := os.Stat(name)
		switch {
		case err != nil:
			wrong = append(wrong, err)
		case !info.Mode().IsRegular():
			wrong = append(wrong, fmt.Errorf("%s is not a regular file", name))
		}
	}
	if wrong != nil {
		return program.Exit(program.Usage, errors.Join(wrong...))
	}
	return nil
}

// submitted is a job and the file it was made from.
type submitted struct {
	ID   jobs.ID `json:"job_id"`
	File string  `json:"file"`
}

// submitter does what a frontend does: store, record, publish.
type submitter struct {
	store   storage.Store
	status  *status.Store
	publish func(context.Context, jobs.Job) (string, error)
}

func (e *ClientEnv) openSubmitter(ctx context.Context) (*submitter, closers, error) {
	store, err := e.openStorage(ctx)
	if err != nil {
		return nil, nil, err
	}
	st, redis := e.openStatus(0)
	pub, err := e.openPublisher(ctx)
	if err != nil {
		return nil, nil, err
	}
	return &submitter{store: store, status: st, publish: pub.Publish}, closers{pub, redis}, nil
}

// submit queues a job for each file and returns those it has queued, also when
// it fails halfway.
func (s *submitter) submit(ctx context.Context, files []string, kind jobs.Kind) (sent []submitted, err error) {
	for _, file := range files {
		id := jobs.ID(ulid.Make().String())
		if err := s.one(ctx, id, file, kind); err != nil {
			return sent, fmt.Errorf("submit %s: %w", file, err)
		}
		sent = append(sent, submitted{id, file})
	}
	return sent, nil
}

func (s *submitter) one(ctx context.Context, id jobs.ID, file string, kind jobs.Kind) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	job := jobs.Job{ID: id, Kind: kind, Input: inputName(id, file), Submitted: time.Now()}
	if err := s.store.Put(ctx, job.Input, f); err != nil {
		return err
	}
	return pubsub.Submit(ctx, s.status, s.publish, job, 0) // whoever has typed this is waiting
}

// inputName is where the fleet keeps the input of a job.
func inputName(id jobs.ID, file string) string {
	name := "uploads/" + string(id) + "/" + filepath.Base(file)
	if storage.ValidName(name) != nil {
		return "uploads/" + string(id) + "/document" + filepath.Ext(file)
	}
	return name
}
