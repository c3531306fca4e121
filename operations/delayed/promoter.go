// Package delayed publishes the messages of jobs that were submitted for later, when they are due.
//
// Any number of processes may do so for one fleet: one of them does it, and another within [hold] after that one has
// died. A job is published at least once. The claim on a job lets it run once.
package delayed

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

const (
	// poll is how often delayed jobs are looked for: a job may start so much later than it is due.
	poll = 2 * time.Second
	// hold is how long after its last look a process is still the one that publishes.
	hold = 15 * time.Second
	// standby is how often the other processes ask.
	standby = 5 * time.Second
	// settle is when a process first looks: it has just begun, with other things to do.
	settle = 5 * time.Second
	// callTimeout bounds a call of Redis.
	callTimeout = 5 * time.Second
	// atOnce is how many messages are published at the same time.
	atOnce = 16
)

// Promoter publishes the delayed jobs of a fleet. All fields are required.
type Promoter struct {
	Status  *status.Store
	Publish func(context.Context, jobs.Job) (string, error)
	Log     *slog.Logger
}

// Run looks for delayed jobs until ctx ends.
func (p *Promoter) Run(ctx context.Context) {
	var done []jobs.ID // to be forgotten with the next look
	well, pause := true, settle
	for jobs.Sleep(ctx, pause) == nil {
		got, err := p.look(ctx, done)
		if err == nil {
			done = nil
		} else if well && ctx.Err() == nil {
			p.Log.WarnContext(ctx, "cannot look for delayed jobs, trying again", "err", err)
		}
		well = err == nil
		pause = standby
		if got.Mine {
			done = p.publish(ctx, got.Due)
			pause = poll
			if got.Next >= 0 {
				pause = min(poll, max(got.Next, 10*time.Millisecond))
			}
			if len(got.Due) > 0 && len(done) < len(got.Due) {
				pause = poll // what could not be published would be met again at once
			}
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	_, _ = p.Status.Promote(last, hold, done) // what is not forgotten is published twice, at worst
	_ = p.Status.Resign(last)                 // or else others wait for hold
}

func (p *Promoter) look(ctx context.Context, done []jobs.ID) (status.Promoted, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return p.Status.Promote(ctx, hold, done)
}

// publish publishes jobs and returns those that need it no longer, also because they have ended.
func (p *Promoter) publish(ctx context.Context, due []jobs.ID) (done []jobs.ID) {
	if len(due) == 0 {
		return nil
	}
	entries, err := p.Status.Entries(ctx, due)
	if err != nil {
		p.Log.WarnContext(ctx, "cannot read delayed jobs, trying again", "err", err)
		return nil
	}
	waiting := map[jobs.ID]status.Entry{}
	for _, e := range entries {
		if e.State() == jobs.Queued {
			waiting[e.ID] = e
		}
	}
	published := make([]bool, len(due))
	var all errgroup.Group
	all.SetLimit(atOnce)
	for i, id := range due {
		e, ok := waiting[id]
		if !ok {
			published[i] = true // it was canceled, has ended or is forgotten
			continue
		}
		all.Go(func() error {
			err := p.one(ctx, e)
			published[i] = err == nil
			if err != nil && ctx.Err() == nil {
				p.Log.WarnContext(ctx, "cannot publish a delayed job, trying again", "job", id, "err", err)
			}
			return nil
		})
	}
	_ = all.Wait()
	for i, id := range due {
		if published[i] {
			done = append(done, id)
		}
	}
	return done
}

// one publishes a job that is due.
func (p *Promoter) one(ctx context.Context, e status.Entry) error {
	job, err := p.Status.Job(ctx, e)
	if errors.Is(err, fs.ErrNotExist) {
		p.Log.ErrorContext(ctx, "a delayed job cannot start: submit it again", "job", e.ID, "err", err)
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := p.Publish(ctx, job); err != nil {
		return err
	}
	return p.Status.MarkPublished(ctx, job.ID)
}
