package operations

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/engine"
	"github.com/batchfleet/batchfleet/jobs"
)

// purge deletes the results of old jobs.
type purge struct {
	jobapi.Options
	OlderThanDays *int64 `json:"olderThanDays"`
	Limit         *int64 `json:"limit"`
	d             Deps
}

// Check implements [engine.Request].
func (o *purge) Check() error {
	if o.OlderThanDays == nil {
		return &jobapi.FieldError{Field: "olderThanDays", Problem: "must be given: from 1 to 3650"}
	}
	err := cmp.Or(within("olderThanDays", &o.OlderThanDays, 0, 1, 3650), within("limit", &o.Limit, 100_000, 1, 1_000_000))
	switch {
	case err != nil:
		return err
	case o.d.Status == nil:
		return notSetUp(noFleet) // whether a job still runs could not be told
	case o.d.Storage == nil:
		return notSetUp(noStorage)
	}
	return nil
}

// Echo implements [engine.Request].
func (o *purge) Echo() any {
	return struct {
		jobapi.Options
		OlderThanDays *int64 `json:"olderThanDays"`
		Limit         *int64 `json:"limit"`
	}{o.Options, o.OlderThanDays, o.Limit}
}

// Steps implements [engine.Request]. One step finds and deletes: what is found is
// not gathered first.
func (o *purge) Steps() []engine.Step {
	step := engine.Step{Name: "delete", Description: "delete the results of old jobs", Run: o.delete}
	if o.DryRun {
		step.AlreadyDone = o.count
	}
	return []engine.Step{step}
}

// countTime bounds the count of a dry run, which a caller waits for.
const countTime = 20 * time.Second

// count is what a dry run says.
func (o *purge) count(ctx context.Context) (string, bool, error) {
	counting, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	s := o.sweep(nil)
	s.remove = func(_ context.Context, old result) error {
		s.add(old)
		return nil
	}
	err := s.run(counting)
	atLeast := ""
	if counting.Err() != nil && ctx.Err() == nil {
		err, atLeast = nil, "at least "
	}
	switch {
	case err != nil:
		return "", false, err
	case s.purged.Jobs == 0 && atLeast == "":
		return fmt.Sprintf("no results to delete are older than %s%s", jobs.Count(int(*o.OlderThanDays), "day"), s.left), true, nil
	}
	return "would delete " + atLeast + s.purged.String() + s.left.String(), false, nil
}

func (o *purge) delete(ctx context.Context, r engine.Run) (string, error) {
	s := o.sweep(r)
	s.remove = s.deleteResult
	err := s.run(ctx)
	r.Result(struct {
		purged
		Left spared `json:"left"`
	}{s.purged, s.left})
	if err != nil {
		return "", fmt.Errorf("after %s: %w", s.purged, err)
	}
	if s.purged.Jobs == int(*o.Limit) {
		return "deleted " + s.purged.String() + ", as many as the limit allows" + s.left.String(), nil
	}
	return "deleted " + s.purged.String() + s.left.String(), nil
}

func (o *purge) sweep(r engine.Run) *sweep {
	return &sweep{
		d: o.d, r: r, limit: int(*o.Limit),
		cutoff: time.Now().Add(-time.Duration(*o.OlderThanDays) * 24 * time.Hour),
	}
}

// purged is the result.
type purged struct {
	Jobs    int   `json:"jobs"`
	Objects int   `json:"objects"`
	Bytes   int64 `json:"bytes"`
}

// spared counts the directories that were left alone, but for those that are not
// old.
type spared struct {
	NotEnded     int `json:"notEnded"`     // their jobs are queued or running
	EndedSince   int `json:"endedSince"`   // their jobs have ended since then
	Unreadable   int `json:"unreadable"`   // the status of their jobs is no word of ours
	NotPermitted int `json:"notPermitted"` // something of them may not be read or deleted
	Large        int `json:"tooLarge"`     // of more than maxOfResult objects
	NoJob        int `json:"noJob"`        // no job's id names them
}

// String says it in words, to follow others; empty if there are none.
func (l spared) String() string {
	some := listed(
		count{l.NotEnded, "not ended"}, count{l.EndedSince, "ended since"}, count{l.Unreadable, "unreadable"},
		count{l.NotPermitted, "not permitted"}, count{l.Large, "too large"}, count{l.NoJob, "of no job"},
	)
	if some == "" {
		return ""
	}
	return "; left alone: " + some
}

// String says it in words.
func (p purged) String() string {
	return fmt.Sprintf("%s, %s, %d bytes", jobs.Count(p.Jobs, "result"), jobs.Count(p.Objects, "object"), p.Bytes)
}
