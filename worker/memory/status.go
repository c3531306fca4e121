package memory

import (
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// Status is a worker.Status in memory, with the promises of status.Store: one claim
// on a job at a time, a token that fences the writes of each attempt, crashes counted
// apart, an outcome recorded once. Its methods may be called concurrently; none of
// them waits, so they do not look at their context. The zero value knows no job; it
// must not be copied.
type Status struct {
	// Keep is how long a job is remembered after its last write; 0 means 24 h. Set it
	// before the first call.
	Keep time.Duration

	mu   sync.Mutex
	jobs map[jobs.ID]*record
}

// Record is what a [Status] knows of a job.
type Record struct {
	State    jobs.State
	Progress jobs.Progress // the newest
	Message  string        // why the job was handed back or waits, while it is queued
	Outcome  jobs.Outcome  // once State is terminal
	Attempt  int           // how often it was started
	Crashes  int           // attempts whose worker never came back
	Failures int           // attempts that failed and were to be made again
	Lines    []string      // its log, see [MaxLog]
}

// maxReason is how much of its reason the message of a job holds that waits for its next attempt,
// in bytes.
const maxReason = 500

// maxCrashes is how many attempts may crash before the job has failed.
const maxCrashes = 3

type record struct {
	Record
	created  time.Time // when it was first heard of
	token    string    // of the claim; empty while there is none
	failed   string    // token of the last attempt that counts as a failure
	next     time.Time // when the next attempt may begin
	until    time.Time
	crashed  []string // tokens of attempts that count as crashes
	log      joblog
	lines    int  // how many lines of the attempt are in the log
	canceled bool // the job was asked to stop
	forget   *time.Timer
}

// touch returns what is known of a job, and makes the time to forget it begin again.
// s.mu is held.
func (s *Status) touch(id jobs.ID) *record {
	keep := s.Keep
	if keep == 0 {
		keep = 24 * time.Hour
	}
	if r := s.jobs[id]; r != nil {
		r.forget.Reset(keep)
		return r
	}
	if s.jobs == nil {
		s.jobs = map[jobs.ID]*record{}
	}
	r := &record{created: time.Now()}
	r.forget = time.AfterFunc(keep, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.jobs[id] == r {
			delete(s.jobs, id)
		}
	})
	s.jobs[id] = r
	return r
}

// Submit records a job as queued. It reports false, and changes nothing, if the job
// is known already.
func (s *Status) Submit(_ context.Context, job jobs.Job) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs[job.ID] != nil {
		return false, nil
	}
	s.touch(job.ID).State = jobs.Queued
	return true, nil
}

// Get returns what is known of a job, and false if nothing is. The caller may change
// what it gets.
func (s *Status) Get(id jobs.ID) (Record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.jobs[id]
	if r == nil {
		return Record{}, false
	}
	known := r.Record
	known.Lines = r.log.lines()
	return known, true
}

// Cancel asks for a job to be stopped and returns the state it is in then. A queued
// job is canceled at once, a running one is told by its next report. A job that has
// ended keeps its outcome. The error wraps [fs.ErrNotExist] when nothing is known of
// the job.
func (s *Status) Cancel(_ context.Context, id jobs.ID) (jobs.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs[id] == nil {
		return 0, fmt.Errorf("cancel job %s: %w", id, fs.ErrNotExist)
	}
	r := s.touch(id)
	switch r.State {
	case jobs.Queued:
		r.finish(jobs.Outcome{State: jobs.Canceled})
	case jobs.Running:
		r.canceled = true
	case jobs.Succeeded, jobs.Failed, jobs.Canceled:
	}
	return r.State, nil
}

// Leave implements worker.KindStatus: a job of which nothing is known becomes queued with message,
// and so does one that is queued and was never started. It returns how long ago the job
// was first heard of, and its state.
func (s *Status) Leave(_ context.Context, job jobs.Job, message string) (age time.Duration, state jobs.State, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.touch(job.ID)
	if r.State == 0 || r.State == jobs.Queued && r.Attempt == 0 {
		r.State, r.Message = jobs.Queued, message
	}
	return time.Since(r.created), r.State, nil
}

// Runs implements worker.KindStatus. It knows no workers.
func (*Status) Runs(context.Context, jobs.Kind) (bool, error) { return false, nil }

// Claim implements worker.Status. Pass the claim of an earlier call whose answer got
// lost as again, so that the attempt is not counted twice.
func (s *Status) Claim(_ context.Context, job jobs.Job, hold time.Duration, again jobs.Claim) (jobs.Claim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, now := s.touch(job.ID), time.Now()
	c := jobs.Claim{Job: job.ID, Token: again.Token, Queue: again.Queue, Ack: again.Ack}
	if c.Token == "" {
		c.Token = rand.Text()
	}
	if !r.State.Terminal() && r.token != "" && r.token != c.Token && r.until.After(now) {
		c.Verdict, c.Wait = jobs.Busy, r.until.Sub(now)
		return c, nil
	}
	if !r.State.Terminal() && r.canceled {
		r.finish(jobs.Outcome{State: jobs.Canceled})
	}
	if r.State.Terminal() {
		c.Verdict, c.State, c.Reason, c.Attempt = jobs.Ended, r.State, r.Outcome.Reason, r.Attempt
		return c, nil
	}
	if wait := r.next.Sub(now); wait > 0 {
		c.Verdict, c.Wait = jobs.Waiting, wait
		return c, nil
	}
	if r.token != c.Token {
		if r.token != "" {
			r.Crashes++
			r.crashed = append(r.crashed, r.token)
		}
		r.Attempt++
		r.lines = 0
	}
	r.token, r.until = c.Token, now.Add(hold)
	c.Verdict, c.Attempt, c.Crashes, c.Failures = jobs.Granted, r.Attempt, r.Crashes, r.Failures
	if r.Crashes >= maxCrashes {
		c.Verdict = jobs.CrashLoop
		return c, nil
	}
	r.State, r.Progress, r.Message = jobs.Running, jobs.Progress{}, ""
	return c, nil
}

// Report implements worker.Status. It returns an error that wraps [jobs.ErrCanceled]
// when the job was asked to stop, and [jobs.ErrLeaseLost] when the
// claim is not the one on record; then nothing is written.
func (s *Status) Report(_ context.Context, c jobs.Claim, hold time.Duration, p *jobs.Progress, lines jobs.Lines) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.claimed(c)
	if r == nil {
		return fmt.Errorf("report job %s: %w", c.Job, jobs.ErrLeaseLost)
	}
	s.touch(c.Job)
	r.until = time.Now().Add(hold)
	if p != nil {
		r.Progress = *p
	}
	r.report(lines)
	if r.canceled {
		return fmt.Errorf("report job %s: %w", c.Job, jobs.ErrCanceled)
	}
	return nil
}

// Finish implements worker.Status. It returns the state on record, which is another
// one if the job had ended before, and an error that wraps [jobs.ErrLeaseLost] if the
// claim is not the one on record.
func (s *Status) Finish(_ context.Context, c jobs.Claim, o jobs.Outcome) (jobs.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.jobs[c.Job]; r != nil && r.State.Terminal() {
		return r.State, nil
	}
	r := s.claimed(c)
	if r == nil {
		return 0, fmt.Errorf("finish job %s: %w", c.Job, jobs.ErrLeaseLost)
	}
	s.touch(c.Job)
	r.finish(o)
	return r.State, nil
}

// Retry implements worker.Status: the attempt has failed and is to be made again. It returns
// Queued, Canceled if the job was asked to stop, or how it had ended before, and an error that
// wraps [jobs.ErrLeaseLost] if the claim is not the one on record. A call that is made again
// counts nothing.
func (s *Status) Retry(_ context.Context, c jobs.Claim, o jobs.Outcome) (jobs.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.jobs[c.Job]
	switch {
	case r != nil && r.State.Terminal():
		return r.State, nil
	case r != nil && c.Token != "" && r.failed == c.Token:
		return jobs.Queued, nil
	case s.claimed(c) == nil:
		return 0, fmt.Errorf("retry job %s: %w", c.Job, jobs.ErrLeaseLost)
	}
	s.touch(c.Job)
	if r.canceled {
		r.finish(jobs.Outcome{State: jobs.Canceled})
		return r.State, nil
	}
	r.Failures++
	r.token, r.failed, r.next = "", c.Token, time.Now().Add(o.RetryAfter)
	r.State, r.Message = jobs.Queued, o.RetryMessage(c.Attempt, maxReason)
	return jobs.Queued, nil
}

// Release implements worker.Status: it gives a claim back without an outcome. The job
// becomes queued with message, or stays as it is when message is empty. The error wraps
// [jobs.ErrLeaseLost] if the claim is not the one on record; if the attempt was counted
// as a crash meanwhile, that is corrected.
func (s *Status) Release(_ context.Context, c jobs.Claim, message string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.claimed(c); r != nil {
		s.touch(c.Job)
		r.token = ""
		if message != "" {
			r.State, r.Message = jobs.Queued, message
		}
		return nil
	}
	if r := s.jobs[c.Job]; r != nil {
		if i := slices.Index(r.crashed, c.Token); i >= 0 {
			r.crashed = slices.Delete(r.crashed, i, i+1)
			r.Crashes--
		}
	}
	return fmt.Errorf("release job %s: %w", c.Job, jobs.ErrLeaseLost)
}

// claimed returns the record of a job whose claim is c, or nil. s.mu is held.
func (s *Status) claimed(c jobs.Claim) *record {
	if r := s.jobs[c.Job]; r != nil && c.Token != "" && r.token == c.Token {
		return r
	}
	return nil
}

// finish records how a job ended. What only a job needs that has not ended is dropped.
func (r *record) finish(o jobs.Outcome) {
	r.State, r.Outcome, r.Message = o.State, o, ""
	r.token, r.canceled, r.crashed = "", false, nil
}

// report appends lines, but not those that an earlier report has brought whose answer was
// lost.
func (r *record) report(lines jobs.Lines) {
	known := min(max(0, r.lines-lines.Before), len(lines.Text))
	r.log.add(lines.Text[known:]...)
	r.lines = max(r.lines, lines.Before+len(lines.Text))
}
