package provider

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pubsub"
	"github.com/batchfleet/batchfleet/storage"
)

// inputField is which field of a submission has its inputs.
func inputField(s jobapi.Submission) string {
	if s.Input == "" && len(s.Inputs) > 1 {
		return "inputs"
	}
	return "input"
}

// validInputs returns what is wrong with the names of a submission's inputs.
func validInputs(s jobapi.Submission) error {
	field := inputField(s)
	if s.Input != "" && len(s.Inputs) > 0 {
		return &jobapi.FieldError{Field: "inputs", Problem: "leave it out, or input: they are one field"}
	}
	names := s.Names()
	if err := pubsub.CheckInputs(names); err != nil {
		return &jobapi.FieldError{Field: field, Problem: err.Error()}
	}
	for i, name := range names {
		if _, stored := s.As(i); stored && name == "" {
			continue // it was stored before, for the job that is known
		}
		if err := validInput(name); err != nil {
			return &jobapi.FieldError{Field: field, Problem: jobapi.ShownText(err.Error(), 300)}
		}
	}
	return nil
}

// validInput returns what is wrong with the name of an object, in the fleet's own storage or in another bucket.
func validInput(name string) error {
	if scheme, rest, ok := strings.Cut(name, "://"); ok && scheme != "" {
		bucket, object, _ := strings.Cut(rest, "/")
		if bucket == "" {
			return fmt.Errorf("%.80q names no bucket", name)
		}
		name = object
	}
	return storage.ValidName(name)
}

// checkDocument returns what is wrong with the inputs of a document.
func checkDocument(s jobapi.Submission) error {
	switch n := len(s.Names()); {
	case n == 0 && s.Kind == "pdf":
		return &jobapi.FieldError{Field: "input", Problem: "a job of kind pdf needs the name of an object"}
	case n > 1:
		return &jobapi.FieldError{Field: "inputs", Problem: fmt.Sprintf("a document has one, and not %d: name the kind that has several", n)}
	}
	return nil
}

// looksAtOnce is how many inputs of one job are looked for at once.
const looksAtOnce = 16

// checkInputs returns an error unless the inputs are there. Those that the caller has stored are.
func (f *Fleet) checkInputs(ctx context.Context, s jobapi.Submission, id jobs.ID) error {
	var names []string
	for i, name := range s.Names() {
		switch _, stored := s.As(i); {
		case stored && name == "":
			return fmt.Errorf("submit job %s: %w: it was known a moment ago, so its input was not stored: try again", id, jobs.ErrUnavailable)
		case !stored:
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	store, err := f.store(ctx)
	if err != nil {
		return err
	}
	looks, ctx := errgroup.WithContext(ctx)
	looks.SetLimit(looksAtOnce)
	for _, name := range names {
		looks.Go(func() error {
			_, err := store.Stat(ctx, name)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
				return &jobapi.FieldError{Field: inputField(s), Problem: jobapi.ShownText(err.Error(), 300)}
			}
			return err
		})
	}
	return looks.Wait()
}
