package status

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/batch"
	"github.com/batchfleet/batchfleet/jobs"
)

// Claim asks to be the only one to run a job for the time of hold, and sets its
// status to processing. Pass the claim of an earlier call whose answer got lost
// as again, so that the start is not counted twice; otherwise one with nothing but
// the Queue and the Ack of the lease, so that others can hand that back once the
// claim is over and this worker silent.
//
// The verdict says what came of it; see [jobs.Claim]. With an error the job may have
// been claimed all the same, by the token that is returned.
func (s *Store) Claim(ctx context.Context, job jobs.Job, hold time.Duration, again jobs.Claim) (jobs.Claim, error) {
	c := jobs.Claim{Job: job.ID, Token: again.Token, Queue: again.Queue, Ack: again.Ack}
	if c.Token == "" {
		c.Token = rand.Text()
	}
	started, created := Document{Status: words[jobs.Running], Message: messageStarted}, createdAt(job, time.Now())
	head, tail := started.halves()
	canceledHead, canceledTail := Document{Status: words[jobs.Canceled], Message: messageCanceled}.halves()
	args := []any{
		c.Token, hold.Milliseconds(), ttlSeconds, s.MaxCrashes,
		head, tail, canceledHead, canceledTail,
		"attempt %d started by " + strings.ReplaceAll(s.Worker, "%", "%%"), s.LogCap, created, s.ID, c.Queue, c.Ack, paramsText(job),
	}
	args = append(args, s.jobFields(job)...)
	what := fmt.Sprintf("claim job %s", job.ID)
	got, err := s.runTogether(ctx, what, claimScript, jobKeys(job.ID), args...)
	if err != nil {
		return c, err
	}
	switch got.Text(0) {
	case "ended":
		c.Verdict, c.State, c.Reason, c.Attempt = jobs.Ended, stateOf(got.Text(3)), got.Text(4), int(got.Number(5))
	case "busy":
		c.Verdict, c.Wait = jobs.Busy, time.Duration(got.Number(3))*time.Millisecond
	case "waiting":
		c.Verdict, c.Wait = jobs.Waiting, time.Duration(got.Number(3))*time.Millisecond
	case "granted", "crashloop":
		c.Verdict, c.Attempt, c.Crashes, c.Failures = jobs.Granted, int(got.Number(3)), int(got.Number(4)), int(got.Number(5))
		if got.Text(0) == "crashloop" {
			c.Verdict = jobs.CrashLoop
		}
	default:
		return c, unavailable(what, got.Unexpected())
	}
	m := move{id: job.ID, created: got.Number(1), kind: got.Text(2)}
	if again.Token != "" {
		m.left = string(UnknownKind) // the call before may have put the kind on record
	}
	switch c.Verdict {
	case jobs.Ended:
		m.state, m.others, m.quiet = c.State, states, true
		if got.Number(6) == 1 {
			m.count, m.quiet = ended(c.State), false
		}
		_ = s.move(ctx, m)
		return c, nil
	case jobs.Waiting:
		m.state, m.others, m.quiet = jobs.Queued, []jobs.State{jobs.Running}, true
	case jobs.Busy:
		m.state, m.others, m.quiet = jobs.Running, []jobs.State{jobs.Queued}, true
	case jobs.Granted, jobs.CrashLoop:
		m.state, m.others = jobs.Running, []jobs.State{jobs.Queued}
		if got.Number(6) == 1 {
			m.count = count{cameIn, 1}
		}
	}
	// Who looks for jobs that are held must find it before it begins.
	return c, s.move(ctx, m)
}

// Report prolongs a granted claim by hold, records the progress p unless it is
// nil, and adds lines to the job's log, but none that an earlier report of this
// attempt has added. It returns [jobs.ErrCanceled] if
// someone has asked for the job to stop, and [jobs.ErrLeaseLost] if the claim
// is no longer the one on record or the job has ended: the writes and the
// question are one round trip, and a lost claim writes nothing. Under [batch.Until] it may return
// [batch.ErrNotSent].
func (s *Store) Report(ctx context.Context, c jobs.Claim, hold time.Duration, p *jobs.Progress, lines jobs.Lines) error {
	doc, step := "", ""
	if p != nil {
		doc = Document{Status: words[jobs.Running], Progress: p.Percent(), Message: p.Message}.text()
		step = p.Step
	}
	args := []any{c.Token, hold.Milliseconds(), ttlSeconds, c.Attempt, c.Crashes, s.LogCap, doc, step, time.Now().UnixMilli(), lines.Before, s.ID, c.Queue, c.Ack, c.Failures}
	for _, line := range lines.Text[:min(len(lines.Text), jobs.MaxLines)] {
		args = append(args, jobs.Visible(line))
	}
	what := fmt.Sprintf("report job %s", c.Job)
	got, err := s.runTogether(ctx, what, reportScript, jobKeys(c.Job), args...)
	if err != nil {
		return err
	}
	_ = s.move(batch.Until(ctx, nil), move{id: c.Job, state: jobs.Running, created: got.Number(1), others: states, kind: got.Text(2)}) // the index is lost as well
	switch got.Text(0) {
	case "ok":
		return nil
	case "canceled":
		return fmt.Errorf("%s: %w", what, jobs.ErrCanceled)
	case "lost":
		return fmt.Errorf("%s: %w", what, jobs.ErrLeaseLost)
	}
	return unavailable(what, got.Unexpected())
}

// Finish is FinishLast of a job that has reported all there is.
func (s *Store) Finish(ctx context.Context, c jobs.Claim, o jobs.Outcome) (jobs.State, error) {
	return s.FinishLast(ctx, c, o, nil, jobs.Lines{})
}

// FinishLast records how the job ended, and before that what no report has brought yet: its
// progress p unless that is nil, and lines of its log, none of them twice. It gives the claim
// back and returns the state on record. A job that has ended before keeps its outcome, which may
// be another one; that is no error, because the caller's next step, the ack, is the same.
// It returns [jobs.ErrLeaseLost], and writes nothing, if the claim is not the one
// on record.
func (s *Store) FinishLast(ctx context.Context, c jobs.Claim, o jobs.Outcome, p *jobs.Progress, lines jobs.Lines) (jobs.State, error) {
	doc := Document{Status: words[o.State]}
	progress, step, line := -1, "", ""
	if p != nil {
		progress, step = p.Percent(), p.Step
	}
	switch o.State {
	case jobs.Succeeded:
		progress, doc.Message, doc.ResultURL = 100, messageCompleted, o.Result.Object
		line = fmt.Sprintf("attempt %d completed", c.Attempt)
		if o.Result.Damaged {
			line += fmt.Sprintf("; the document is damaged: warnings of %d of its %s", o.Result.DamagedPages, jobs.Count(o.Result.Pages, "page"))
		}
	case jobs.Failed:
		doc.Message, doc.ErrorMsg = messageFailed, jobs.Clip(jobs.Visible(o.Reason), MaxErrorMsg, " …")
		line = fmt.Sprintf("attempt %d failed: %s", c.Attempt, doc.ErrorMsg)
	case jobs.Canceled:
		doc.Message = messageCanceled
		line = fmt.Sprintf("attempt %d canceled", c.Attempt)
	case jobs.Queued, jobs.Running:
		panic(fmt.Sprintf("finish job %s as %s", c.Job, o.State))
	}
	head, tail := doc.halves()
	args := []any{
		c.Token, ttlSeconds, progress, head, tail, line, s.LogCap, c.Attempt, c.Crashes, c.Failures,
		time.Now().UnixMilli(), step, lines.Before,
	}
	text := lines.Text[:min(len(lines.Text), jobs.MaxLines)]
	args = append(args, len(text))
	for _, line := range text {
		args = append(args, jobs.Visible(line))
	}
	args = append(args, "pages", o.Result.Pages)
	if o.Code != "" {
		args = append(args, "code", o.Code)
	}
	if o.Result.Files > 0 {
		args = append(args, "files", o.Result.Files)
	}
	if o.Result.Damaged {
		args = append(args, "damaged", o.Result.DamagedPages)
	}
	what, state := fmt.Sprintf("finish job %s", c.Job), o.State
	got, err := s.runTogether(ctx, what, finishScript, jobKeys(c.Job), args...)
	if err != nil {
		return 0, err
	}
	m := move{id: c.Job, state: state, created: got.Number(1), others: states, kind: got.Text(2)}
	switch word := got.Text(0); word {
	case "ok":
		m.count = ended(state)
		if got.Number(3) == 0 { // otherwise the index is lost as well
			// Its claim has put it into the index, and taken it out of that of queued jobs.
			m.others, m.listed = []jobs.State{jobs.Running}, true
		}
		_ = s.move(ctx, m)
		return state, nil
	case "lost":
		return 0, fmt.Errorf("%s: %w", what, jobs.ErrLeaseLost)
	default:
		m.state, m.quiet = stateOf(word), true
		_ = s.move(ctx, m)
		return m.state, nil
	}
}

// maxRetryReason is how much of its reason the message of a job holds that waits for its
// next attempt, in bytes.
const maxRetryReason = 500

// Retry records that an attempt has failed and is to be made again after o.RetryAfter: the
// failure counts, the claim is given back, and the status is queued. Until that time a claim
// gets the verdict Waiting. It returns the state on record: Queued, Canceled if somebody has
// asked for the job to stop meanwhile, or how it had ended before. A call that is made again, as
// its answer was lost, counts nothing. It returns [jobs.ErrLeaseLost], and writes nothing, if the
// claim is not the one on record.
func (s *Store) Retry(ctx context.Context, c jobs.Claim, o jobs.Outcome) (jobs.State, error) {
	head, tail := Document{Status: words[jobs.Queued], Message: o.RetryMessage(c.Attempt, maxRetryReason)}.halves()
	canceledHead, canceledTail := Document{Status: words[jobs.Canceled], Message: messageCanceled}.halves()
	what := fmt.Sprintf("retry job %s", c.Job)
	got, err := s.runTogether(ctx, what, retryScript, jobKeys(c.Job), c.Token, ttlSeconds, o.RetryAfter.Milliseconds(), head, tail, canceledHead, canceledTail,
		o.RetryMessage(c.Attempt, MaxErrorMsg), s.LogCap, c.Attempt, c.Crashes, c.Failures, time.Now().UnixMilli(), o.Code,
		jobs.Clip(jobs.VisibleLine(o.Reason), maxPastReason, "…"))
	if err != nil {
		return 0, err
	}
	if got.Text(0) == "lost" {
		return 0, fmt.Errorf("%s: %w", what, jobs.ErrLeaseLost)
	}
	state := stateOf(got.Text(0))
	if state == 0 {
		return 0, unavailable(what, got.Unexpected())
	}
	m := move{id: c.Job, state: state, created: got.Number(1), others: states, kind: got.Text(2)} // the index may be lost as well
	if got.Number(3) == 1 {
		m.count = ended(state)
	}
	_ = s.move(ctx, m)
	return state, nil
}

// Release gives a claim back without an outcome, so that the job can be claimed
// again at once and this start does not count as a crash. If another worker has already
// counted this attempt as a crash, the count is corrected and [jobs.ErrLeaseLost]
// returned, as when another worker has the job. The status becomes
// queued with message, or stays as it is when message is empty.
func (s *Store) Release(ctx context.Context, c jobs.Claim, message string) error {
	head, tail := "", ""
	if message != "" {
		head, tail = Document{Status: words[jobs.Queued], Message: message}.halves()
	}
	line := fmt.Sprintf("attempt %d handed back", c.Attempt)
	if message != "" {
		line += ": " + jobs.Visible(message)
	}
	keys := []string{jobKey(c.Job), claimKey(c.Job), logKey(c.Job), detailKey(c.Job)}
	what := fmt.Sprintf("release job %s", c.Job)
	got, err := s.run(ctx, what, releaseScript, keys, c.Token, ttlSeconds, head, tail, line, s.LogCap, time.Now().UnixMilli(), c.Attempt, message)
	if err != nil {
		return err
	}
	if word := got.Text(0); word == "lost" || word == "late" {
		return fmt.Errorf("%s: %w", what, jobs.ErrLeaseLost)
	}
	_ = s.move(ctx, move{id: c.Job, state: stateOf(got.Text(2)), created: got.Number(1), others: []jobs.State{jobs.Running}, kind: got.Text(3)})
	return nil
}
