package router_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/router"
	"github.com/batchfleet/batchfleet/grid/wire"
)

// checkFailed checks that a result tells of a job that no worker has run.
func checkFailed(t *testing.T, f, job wire.Frame, reason string) {
	t.Helper()
	var got wire.JobResult
	if err := json.Unmarshal(f.Payload, &got); err != nil {
		t.Fatal(err)
	}
	if f.MsgID != job.MsgID || got.JobID != job.MsgID || got.Status != wire.Failed || got.Reason != reason || got.ExecName != "calcA" {
		t.Errorf("the result of job %s is %+v: %+v; want reason %s", job.MsgID, f, got, reason)
	}
}

func TestG75WorkersAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newRig(t, "a:1").dial("router:1")
		text, err := json.Marshal(wire.Capability{Proto: 2, Features: []string{wire.FeatureError}})
		if err != nil {
			t.Fatal(err)
		}
		w.send(wire.Frame{Type: wire.HelloWorker, MsgID: wire.NewGUID(), Payload: text})
		w.checkRefused(wire.CodeProtocol, "connect the worker to a leader")
	})
}

// checkRefused checks that a connection is closed, and why.
func (e *end) checkRefused(code, message string) {
	e.t.Helper()
	var info wire.ErrorInfo
	f := e.next(wire.Error)
	if err := json.Unmarshal(f.Payload, &info); err != nil || info.Code != code || !strings.Contains(info.Message, message) || !f.CorrID.IsZero() {
		e.t.Errorf("told is %s, want %s and %q", f.Payload, code, message)
	}
	if f, err := e.Receive(); err == nil {
		e.t.Errorf("%s has come after the end", f.Type)
	}
}

// checkJobRefused checks that a job is refused, and the connection goes on.
func (e *end) checkJobRefused(job wire.Frame, code string) {
	e.t.Helper()
	var info wire.ErrorInfo
	f := e.next(wire.Error)
	if err := json.Unmarshal(f.Payload, &info); err != nil || info.Code != code || f.CorrID != job.MsgID {
		e.t.Errorf("told is %s of %s, want %s of %s", f.Payload, f.CorrID, code, job.MsgID)
	}
}

func TestG75RefusalsHaveAReason(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, "a:1", "b:1")
		c := r.welcomed("clientA")
		job := c.job("1")
		c.send(job)
		c.queued(job)
		other := job
		other.Payload = bytes.Replace(job.Payload, []byte(`"1"`), []byte(`"2"`), 1)
		c.send(other)
		c.checkJobRefused(job, wire.CodeConflict)
		second := r.welcomed("clientA")
		second.send(other) // its leader refuses it
		second.checkJobRefused(job, wire.CodeConflict)
		c.send(job) // the same again
		c.queued(job)
		bad := c.job()
		bad.MsgID = wire.NewGUID()
		c.send(bad)
		c.checkJobRefused(bad, wire.CodeInvalid)
	})
}

func TestG75JobsBeyondWindowAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, "a:1", "b:1")
		r.router.kill()
		r.startRouter(&router.Router{Window: 2})
		c := r.welcomed("clientA")
		one, two, three := c.job(), c.job(), c.job()
		c.send(one, two)
		c.queued(one, two)
		c.send(three)
		c.checkJobRefused(three, wire.CodeBusy)
		r.worker("a:1")
		r.worker("b:1")
		c.next(wire.Result)
		c.next(wire.Result)
		c.send(three) // what is not acknowledged counts
		c.checkJobRefused(three, wire.CodeBusy)
		c.send(ack(one.MsgID), three)
		c.queued(three)
	})
}

func TestG75OriginalClientWaitsForRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, "a:1", "b:1")
		r.router.kill()
		r.startRouter(&router.Router{Window: 2})
		r.roomy = true
		c := r.client("clientA", "")
		for range 20 {
			c.send(c.job())
		}
		after(time.Minute)
		r.worker("a:1")
		r.worker("b:1")
		for range 20 {
			c.next(wire.Result)
		}
	})
}

func TestG75ClientThatDoesNotReadIsClosed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, "a:1", "b:1")
		r.worker("a:1")
		r.worker("b:1")
		slow, quick := r.welcomed("clientA"), r.welcomed("clientB")
		large := strings.Repeat("x", 100<<10)
		for range 40 {
			slow.send(slow.job(large))
		}
		after(time.Minute)
		if r.kept() != 40 {
			t.Errorf("leaders keep %d results, want 40", r.kept())
		}
		if _, err := (receiver{slow}).until(wire.Result, 40); err == nil {
			t.Error("a client that does not read goes on")
		}
		job := quick.job()
		quick.send(job)
		quick.queued(job)
		quick.next(wire.Result)
		again := r.welcomed("clientA")
		for range 40 {
			again.send(ack(again.next(wire.Result).MsgID))
		}
		after(time.Second)
		if r.kept() != 1 { // that of the quick one
			t.Errorf("leaders keep %d results, want 1", r.kept())
		}
	})
}

// receiver receives what may not come.
type receiver struct{ *end }

// until receives n frames of a type, or until the connection ends.
func (r receiver) until(want wire.Type, n int) (got []wire.Frame, err error) {
	for len(got) < n {
		f, err := r.Receive()
		if err != nil {
			return got, err
		}
		if f.Type == want {
			got = append(got, f)
		}
	}
	return got, nil
}

func TestG75ConnectionsBeyondTheLimitAreClosed(t *testing.T) {
	for name, to := range map[string]*router.Router{"of all": {MaxConns: 2, MaxPerIP: 3}, "of one address": {MaxPerIP: 2}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, "a:1")
				r.router.kill()
				r.startRouter(to)
				first := r.welcomed("clientA")
				r.welcomed("clientB")
				third := r.client("clientC", "", all...)
				if f, err := third.Receive(); err == nil {
					t.Errorf("a third connection was answered with %s", f.Type)
				}
				first.Abort(nil)
				after(time.Second)
				r.welcomed("clientC")
			})
		})
	}
}
