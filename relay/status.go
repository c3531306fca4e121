package relay

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/artifact"
)

// Status is the worker.Status of the tasks. A claim is kept in memory: there is one worker, in this process, and when
// both have died the tasks that were running are recovered.
type Status struct {
	tasks   *Tasks
	log     *taskLogs
	crashes int // how many claims may lapse
	// uploading is told of a task whose program has ended and whose artifacts are to be sent.
	uploading func(e *entry)
	// ended is told how each attempt has ended.
	ended func(kind jobs.Kind, o jobs.Outcome)
}

// claim is who runs a task.
type claim struct {
	token   string // empty while there is none
	until   time.Time
	failed  string    // token of the last attempt that was to be made again
	next    time.Time // when the next attempt may begin
	crashed []string  // tokens of attempts that count as crashes
	lines   int       // how many lines of the attempt are in the log
}

// maxReason is how much of its reason the message of a task holds that waits for its next attempt, in bytes.
const maxReason = 500

// saveEvery is how often progress alone is written.
const saveEvery = time.Second

var errNoClaim = fmt.Errorf("%w: the task has another claim, or none", jobs.ErrLeaseLost)

// outcomeOf is the state of a task that has ended, or whose program has, for the worker.
func outcomeOf(s State) jobs.State {
	if s == Uploading {
		return jobs.Succeeded
	}
	return s.job()
}

// Claim implements worker.Status.
func (s *Status) Claim(_ context.Context, job jobs.Job, hold time.Duration, again jobs.Claim) (jobs.Claim, error) {
	c := jobs.Claim{Job: job.ID, Token: again.Token, Queue: again.Queue, Ack: again.Ack}
	if c.Token == "" {
		c.Token = rand.Text()
	}
	e, err := s.tasks.lock(job.ID)
	if err != nil { // it was deleted
		c.Verdict, c.State = jobs.Ended, jobs.Canceled
		return c, nil
	}
	defer e.mu.Unlock()
	t, now := e.task.Load(), time.Now()
	isSame := e.claim.token == c.Token
	lapsed := e.claim.token != "" && !isSame
	switch {
	case t.State >= Uploading:
		return s.endedClaim(c, t), nil
	case lapsed && e.claim.until.After(now):
		c.Verdict, c.Wait = jobs.Busy, e.claim.until.Sub(now)
		return c, nil
	case t.CancelRequested:
		t, err := s.tasks.change(e, func(t *Task) error { return t.become(Canceled, now.UTC()) })
		return s.endedClaim(c, t), err
	case e.claim.next.After(now):
		c.Verdict, c.Wait = jobs.Waiting, e.claim.next.Sub(now)
		return c, nil
	case !isSame:
		started, err := s.tasks.change(e, func(t *Task) error { return start(t, lapsed, now.UTC()) })
		if err != nil {
			return c, err
		}
		t = started
		if lapsed {
			e.claim.crashed = append(e.claim.crashed, e.claim.token)
		}
		e.claim.lines = 0
	}
	e.claim.token, e.claim.until = c.Token, now.Add(hold)
	c.Verdict, c.Attempt, c.Crashes, c.Failures = jobs.Granted, t.Attempt, t.Crashes, t.Failures
	if t.Crashes >= s.crashes {
		c.Verdict = jobs.CrashLoop
	}
	return c, nil
}

// start makes a task run. One whose claim has lapsed is running already.
func start(t *Task, lapsed bool, now time.Time) error {
	if lapsed {
		t.tried("crashed", "the worker has not reported in time", now)
	}
	t.Attempt++
	t.Message = ""
	if lapsed {
		t.Crashes++
	}
	if t.State == Running {
		t.StartedAt = now
		return nil
	}
	return t.become(Running, now)
}

func (s *Status) endedClaim(c jobs.Claim, t *Task) jobs.Claim {
	c.Verdict, c.State, c.Attempt = jobs.Ended, outcomeOf(t.State), t.Attempt
	if t.Error != nil {
		c.Reason = t.Error.Message
	}
	return c
}

// is reports whether a token is that of the claim.
func (c *claim) is(token string) bool { return token != "" && c.token == token }

// claimed locks the task that a claim is on, and returns it for the caller to unlock; an error if the
// claim is no longer the one that holds.
func (s *Status) claimed(c jobs.Claim) (*entry, error) {
	e, err := s.tasks.lock(c.Job)
	if err != nil {
		return nil, errNoClaim
	}
	if !e.claim.is(c.Token) {
		e.mu.Unlock()
		return nil, errNoClaim
	}
	return e, nil
}

// Report implements worker.Status. Progress is written each second, and with each change of the state.
func (s *Status) Report(_ context.Context, c jobs.Claim, hold time.Duration, p *jobs.Progress, lines jobs.Lines) error {
	e, err := s.claimed(c)
	if err != nil {
		return fmt.Errorf("report task %s: %w", c.Job, err)
	}
	defer e.mu.Unlock()
	e.claim.until = time.Now().Add(hold)
	if known := min(max(0, e.claim.lines-lines.Before), len(lines.Text)); known < len(lines.Text) {
		if err := s.log.write(e.id, lines.Text[known:]); err != nil {
			return fmt.Errorf("%w: write the log of task %s: %w", jobs.ErrUnavailable, e.id, err)
		}
		e.claim.lines = lines.Before + len(lines.Text)
	}
	if p != nil {
		if err := s.report(e, *p); err != nil {
			return err
		}
	}
	if e.task.Load().CancelRequested {
		return fmt.Errorf("report task %s: %w", c.Job, jobs.ErrCanceled)
	}
	return nil
}

// report shows progress, and writes it if that was not done lately. e.mu is held.
func (s *Status) report(e *entry, p jobs.Progress) error {
	before := e.task.Load()
	t := *before
	t.Message = s.log.clean(e.id, p.Message)
	moved := t.advance(p)
	if !moved && t.Message == before.Message {
		return nil
	}
	now := time.Now()
	if now.Sub(e.saved) < saveEvery {
		s.tasks.publish(e, &t)
		return nil
	}
	_, err := s.tasks.change(e, func(after *Task) error {
		after.Message, after.Progress = t.Message, t.Progress
		if moved && len(after.Events) == 0 { // who is behind is spared them
			after.note(eventProgress, now.UTC())
		}
		return nil
	})
	return err
}

// Finish implements worker.Status: the program of a task has ended. One that has succeeded is then uploading.
func (s *Status) Finish(_ context.Context, c jobs.Claim, o jobs.Outcome) (jobs.State, error) {
	e, err := s.tasks.lock(c.Job)
	if err != nil {
		return 0, fmt.Errorf("finish task %s: %w", c.Job, errNoClaim)
	}
	defer e.mu.Unlock()
	t := e.task.Load()
	switch {
	case t.State >= Uploading:
		return outcomeOf(t.State), nil
	case !e.claim.is(c.Token):
		return 0, fmt.Errorf("finish task %s: %w", c.Job, errNoClaim)
	}
	t, err = s.tasks.change(e, func(t *Task) error { return s.finish(t, o, time.Now().UTC()) })
	if err != nil {
		return 0, err
	}
	e.claim = claim{}
	s.ended(t.Kind, o)
	if t.State == Uploading {
		s.tasks.see(e, t.Artifacts)
		s.uploading(e)
	}
	return outcomeOf(t.State), nil
}

func (s *Status) finish(t *Task, o jobs.Outcome, now time.Time) error {
	switch {
	case t.CancelRequested:
		return t.become(Canceled, now)
	case o.State == jobs.Succeeded:
		made, err := artifactsOf(o.Result)
		if err != nil || len(made) == 0 {
			t.Error = &Error{Code: codeNoArtifacts, Message: "the program has left no file in {output}"}
			if err != nil {
				t.Error = &Error{Code: "OUTPUT_INVALID", Message: err.Error()}
			}
			return t.become(Failed, now)
		}
		t.Artifacts = made
		return t.become(Uploading, now)
	case o.State == jobs.Canceled:
		return t.become(Canceled, now)
	}
	t.Error = &Error{Code: codeOf(o, t.Crashes >= s.crashes), Message: jobs.Clip(s.log.clean(t.ID, o.Reason), maxEventMessage, "…")}
	return t.become(Failed, now)
}

// artifactsOf returns what a result lists.
func artifactsOf(r jobs.Result) ([]Artifact, error) {
	if r.Text == "" {
		return nil, nil // nothing was made; the result of a kind is never stored elsewhere
	}
	var result artifact.Result
	if err := json.Unmarshal([]byte(r.Text), &result); err != nil {
		return nil, fmt.Errorf("read the result: %w", err)
	}
	made := make([]Artifact, 0, len(result.Artifacts))
	for _, a := range result.Artifacts {
		if !validName(a.Name) {
			return nil, fmt.Errorf("output %.60q: no such name is allowed", a.Name)
		}
		made = append(made, Artifact{Name: a.Name, ContentType: a.Type, Size: a.Size, SHA256: a.SHA256})
	}
	return made, nil
}

// codes are the contract's words for codes that mean the same.
var codes = map[string]string{
	"PROGRAM_FAILED": codeExecFailed, "JOB_FAILED": codeExecFailed, "": codeExecFailed,
	"OUTPUT_MISSING": codeNoArtifacts, "JOB_TIMEOUT": codeTimeout,
}

func codeOf(o jobs.Outcome, crashed bool) string {
	if crashed {
		return codeInterrupted
	}
	if code, ok := codes[o.Code]; ok {
		return code
	}
	return o.Code
}

// Retry implements worker.Status.
func (s *Status) Retry(_ context.Context, c jobs.Claim, o jobs.Outcome) (jobs.State, error) {
	e, err := s.tasks.lock(c.Job)
	if err != nil {
		return 0, fmt.Errorf("retry task %s: %w", c.Job, errNoClaim)
	}
	defer e.mu.Unlock()
	t := e.task.Load()
	switch {
	case t.State >= Uploading:
		return outcomeOf(t.State), nil
	case c.Token != "" && e.claim.failed == c.Token:
		return jobs.Queued, nil
	case !e.claim.is(c.Token):
		return 0, fmt.Errorf("retry task %s: %w", c.Job, errNoClaim)
	}
	t, err = s.tasks.change(e, func(t *Task) error {
		if t.CancelRequested {
			return t.become(Canceled, time.Now().UTC())
		}
		t.Failures++
		t.tried("failed", s.log.clean(t.ID, o.Reason), time.Now().UTC())
		t.Message = s.log.clean(t.ID, o.RetryMessage(c.Attempt, maxReason))
		return t.become(Queued, time.Now().UTC())
	})
	if err != nil {
		return 0, err
	}
	e.claim = claim{failed: c.Token, next: time.Now().Add(o.RetryAfter), crashed: e.claim.crashed}
	return outcomeOf(t.State), nil
}

// Release implements worker.Status.
func (s *Status) Release(_ context.Context, c jobs.Claim, message string) error {
	e, err := s.claimed(c)
	if err != nil {
		return errors.Join(fmt.Errorf("release task %s: %w", c.Job, err), s.uncount(c))
	}
	defer e.mu.Unlock()
	e.claim.token = "" // also if the disk takes nothing: the attempt has ended, and is no crash
	if message != "" {
		if _, err := s.tasks.change(e, func(t *Task) error {
			t.Message = message
			if t.State != Running {
				return nil
			}
			t.tried("handed back", message, time.Now().UTC())
			return t.become(Queued, time.Now().UTC())
		}); err != nil {
			return err
		}
	}
	return nil
}

// uncount takes back that an attempt counts as a crash, which has ended after all.
func (s *Status) uncount(c jobs.Claim) error {
	e, err := s.tasks.lock(c.Job)
	if err != nil {
		return nil // it was deleted
	}
	defer e.mu.Unlock()
	i := slices.Index(e.claim.crashed, c.Token)
	if i < 0 {
		return nil
	}
	_, err = s.tasks.change(e, func(t *Task) error {
		t.Crashes--
		return nil
	})
	if err == nil {
		e.claim.crashed = slices.Delete(e.claim.crashed, i, i+1)
	}
	return err
}

// errEnded means that a task has ended, or is not in the state for what is asked.
var errEnded = errors.New("the task has ended")

// Cancel asks for a task to be stopped and returns it as it is then: canceled, or still being stopped. The error
// wraps io/fs.ErrNotExist or [errEnded].
func (s *Status) Cancel(id jobs.ID) (*Task, error) {
	e, err := s.tasks.lock(id)
	if err != nil {
		return nil, err
	}
	defer e.mu.Unlock()
	t := e.task.Load()
	if t.State.Terminal() {
		return t, fmt.Errorf("cancel task %s: %w: it is %s", id, errEnded, t.State)
	}
	if t.CancelRequested {
		return t, nil
	}
	t, err = s.tasks.change(e, func(t *Task) error {
		t.CancelRequested = true
		if t.State == Queued || t.State == Uploading && e.cancel == nil { // nothing of it is under way
			return t.become(Canceled, time.Now().UTC())
		}
		return nil
	})
	if err == nil && e.cancel != nil {
		e.cancel()
	}
	return t, err
}
