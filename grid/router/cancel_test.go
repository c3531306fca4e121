package router_test

import (
	"encoding/json"
	"testing"

	"github.com/batchfleet/batchfleet/grid/client"
	"github.com/batchfleet/batchfleet/grid/wire"
)

func TestG75CancelAndQueryPass(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, "a:1", "b:1")
		c := r.welcomed("clientA")
		job := c.job()
		c.send(job)
		c.queued(job)
		c.send(wire.Frame{Type: wire.Query, MsgID: wire.NewGUID(), CorrID: job.MsgID})
		var info wire.StatusInfo
		if f := c.next(wire.Status); json.Unmarshal(f.Payload, &info) != nil || info.State != "queued" || f.CorrID != job.MsgID {
			t.Errorf("the job is %+v", f)
		}
		unknown := wire.NewGUID()
		c.send(wire.Frame{Type: wire.Query, CorrID: unknown})
		if f := c.next(wire.Status); json.Unmarshal(f.Payload, &info) != nil || info.State != client.Unknown || f.CorrID != unknown {
			t.Errorf("a job that is not known is %s", f.Payload)
		}
		c.send(wire.Frame{Type: wire.Cancel, CorrID: job.MsgID})
		checkFailed(t, c.next(wire.Result), job, wire.ReasonCanceled)
	})
}

func TestG75RouterCancelsPendingJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, "a:1")
		r.leaders["a:1"].kill()
		c := r.welcomed("clientA")
		job := c.job()
		c.send(job, wire.Frame{Type: wire.Cancel, CorrID: job.MsgID})
		checkFailed(t, c.next(wire.Result), job, wire.ReasonCanceled)
	})
}
