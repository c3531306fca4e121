package leader_test

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/batchfleet/batchfleet/grid/leader"
	"github.com/batchfleet/batchfleet/grid/wire"
)

// A worker whose connection fails again and again goes on with its job. None of that is a failure of the job.
func TestG43ReconnectingWorkerCostsNoAttempt(t *testing.T) {
	r := start(t, &leader.Leader{Dir: filepath.Join(t.TempDir(), "leader")})
	client := r.client("clientA", 1, every...)
	jobID, submit := submission("clientA", "calcA")
	client.send(submit)
	id := wire.NewGUID()
	worker := r.workerWith(id, 1, nil)
	worker.send(credit(1))
	assign := worker.next()
	worker.send(wire.Frame{Type: wire.Accept, MsgID: assign.CorrID, CorrID: jobID})
	for range 20 {
		worker.Abort(net.ErrClosed)
		worker = r.workerWith(id, 1, []wire.Running{{JobID: jobID, AttemptID: assign.CorrID}})
	}
	worker.send(ok(assign))
	for {
		f := client.next()
		if f.Type == wire.Result {
			if string(f.Payload) != string(ok(assign).Payload) {
				t.Errorf("the client is sent %s", f.Payload)
			}
			return
		}
	}
}
