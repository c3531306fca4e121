package engine

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redact"
)

// start runs a job in a goroutine of its own.
func (e *Engine) start(j *job) {
	e.running = append(e.running, j)
	j.status, j.started = jobs.Running, j.at(e.now())
	j.version++
	e.tally.Move(j.started, j.op.Name, jobs.Queued, jobs.Running)
	e.changes.Add(j.id)
	j.timer = time.AfterFunc(j.timeout, func() {
		e.lock()
		defer e.mu.Unlock()
		e.expire(j)
	})
	go e.run(j, j.work)
}

// run does the steps of a job, then takes it out of running. That happens together
// with the job's end, so a caller that knows the end can start the next job. After a
// cancel or a timeout it happens when the current step returns.
func (e *Engine) run(j *job, work []Step) {
	defer func() {
		e.lock()
		defer e.mu.Unlock()
		// It has not ended when a step has ended its goroutine, as tests do that fail.
		e.fail(j, failure(errPanic))
		e.leave(j)
	}()
	if len(work) == 0 {
		e.lock()
		e.finish(j)
		e.leave(j)
		e.mu.Unlock()
	}
	for i := range work {
		if !e.begin(j, i) || !e.do(j, i, work[i]) {
			return
		}
	}
}

// begin notes that step i has begun. It reports whether it may.
func (e *Engine) begin(j *job, i int) bool {
	e.lock()
	defer e.mu.Unlock()
	if j.status != jobs.Running {
		return false
	}
	s := &j.steps[i]
	s.Status, s.StartedAt = jobapi.Running, jobapi.At(j.at(e.now()))
	j.version++
	j.log.turn(i+1, j.line(i, "started"))
	e.changes.Wake()
	return true
}

// do does step i and notes how it ended. It reports whether the job goes on.
func (e *Engine) do(j *job, i int, s Step) bool {
	r := &stepRun{engine: e, job: j, step: i}
	var message string
	status := jobapi.Succeeded
	err := e.recoverPanics("run job "+j.id+", step "+s.Name, func() error {
		if s.AlreadyDone != nil {
			reason, done, err := s.AlreadyDone(j.ctx)
			if err != nil {
				return err
			}
			if done {
				status, message = jobapi.Skipped, reason
				return nil
			}
		}
		said, err := s.Run(j.ctx, r)
		message = said
		return err
	})
	message = text(message)
	failed := e.failure(err)

	e.lock()
	defer e.mu.Unlock()
	if !j.runs(i) { // it was canceled, or is out of time: what it returns comes too late
		return false
	}
	if err == nil && r.failed != nil {
		err, failed = r.failed, e.failure(r.failed)
	}
	if err != nil {
		e.fail(j, failed)
		e.leave(j)
		return false
	}
	if message == "" {
		message = j.steps[i].Message
	}
	j.steps[i].Status, j.steps[i].Message, j.steps[i].FinishedAt = status, message, jobapi.At(j.at(e.now()))
	j.version++
	j.log.turn(own, j.line(i, status.String()+after(message)))
	if i == len(j.steps)-1 {
		e.finish(j)
		e.leave(j)
	}
	e.changes.Wake()
	return true
}

// recoverPanics calls f and makes an error of a panic, whose text and stack only the
// server's log shows.
func (e *Engine) recoverPanics(what string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			e.Logger.Error("panic", "in", what, "value", text(fmt.Sprint(v)), "stack", redact.Text(string(debug.Stack())))
			err = errPanic
		}
	}()
	return f()
}

// line is a line of a job's log about step i.
func (j *job) line(i int, what string) string {
	return fmt.Sprintf("step %d/%d %s: %s", i+1, len(j.steps), j.steps[i].Name, what)
}

// after puts a message behind a word, if there is one.
func after(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}
