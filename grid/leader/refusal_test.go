package leader_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/grid/leader"
	"github.com/batchfleet/batchfleet/grid/schedule"
	"github.com/batchfleet/batchfleet/grid/wire"
)

// rejected returns the message of a result that tells a client that its job is not taken.
func rejected(t *testing.T, f wire.Frame, id wire.GUID, client string) string {
	t.Helper()
	var r wire.JobResult
	if err := json.Unmarshal(f.Payload, &r); err != nil {
		t.Fatalf("the client is sent %s: %v", f.Type, err)
	}
	if f.Type != wire.Result || f.CorrID != id || f.MsgID != id || f.Subject != wire.ResultSubject(client, id) {
		t.Errorf("the client is sent %s %s on %s", f.Type, f.CorrID, f.Subject)
	}
	if r.JobID != id || r.ClientID != client || r.Status != wire.Failed || r.Reason != wire.ReasonRejected || r.Message == "" || r.Stderr != r.Message {
		t.Errorf("the result is %+v", r)
	}
	return r.Message
}

func TestG18RefusalForClientWithoutErrorFrames(t *testing.T) {
	r := start(t, &leader.Leader{Dir: t.TempDir(), Schedule: schedule.Config{MaxJobs: 1}})
	client := r.client("clientA", 4) // of the original protocol
	bad, submit := submission("clientA", "calcA", "a\x00")
	client.send(submit)
	if message := rejected(t, client.next(), bad, "clientA"); !strings.Contains(message, "NUL") {
		t.Errorf("the message is %q", message)
	}
	r.DiskIsFull(true)
	id, submit := submission("clientA", "calcA")
	client.send(submit)
	if message := rejected(t, client.next(), id, "clientA"); !strings.Contains(message, "free") {
		t.Errorf("with a full disk the message is %q", message)
	}
	r.DiskIsFull(false)
	first, submit := submission("clientA", "calcA")
	client.send(submit)
	over, another := submission("clientA", "calcA")
	client.send(another)
	if message := rejected(t, client.next(), over, "clientA"); !strings.Contains(message, "at most 1") {
		t.Errorf("with one job too many the message is %q", message)
	}
	// Another request with the id of a job that is under way gets the result of that job.
	again := wire.JobRequest{JobID: first, ClientID: "clientA", ExecName: "calcA", Args: []string{"other"}}
	text, err := wire.MarshalRequest(&again)
	if err != nil {
		t.Fatal(err)
	}
	submit.Payload = text
	client.send(submit)
	// Another client would wait without end.
	other := r.client("clientB", 1)
	again.ClientID = "clientB"
	if submit.Payload, err = wire.MarshalRequest(&again); err != nil {
		t.Fatal(err)
	}
	other.send(submit)
	if message := rejected(t, other.next(), first, "clientB"); !strings.Contains(message, "new one") {
		t.Errorf("with the id of another's job the message is %q", message)
	}
	worker := r.worker(1)
	worker.send(ok(worker.next()))
	var result wire.JobResult
	if f := client.next(); json.Unmarshal(f.Payload, &result) != nil || f.CorrID != first || result.Status != wire.OK {
		t.Errorf("then the client is sent %s %+v", f.CorrID, result)
	}
}

func TestG18TooManyItemsAreCounted(t *testing.T) {
	r := start(t, &leader.Leader{})
	for name, f := range map[string]wire.Frame{
		"Renew":  {Type: wire.Renew, Payload: []byte(`{"Running":[` + strings.Repeat(`{},`, wire.MaxRunning) + `{}]}`)},
		"Report": {Type: wire.Report, Payload: []byte(`{"Lines":[` + strings.Repeat(`"",`, wire.MaxReportLines) + `""]}`)},
	} {
		worker := r.worker(1, every...)
		worker.send(f)
		got := worker.next()
		var info wire.ErrorInfo
		if err := json.Unmarshal(got.Payload, &info); err != nil || got.Type != wire.Error || info.Code != wire.CodeProtocol {
			t.Fatalf("%s: the worker is sent %s %+v, %v", name, got.Type, info, err)
		}
		if !strings.Contains(info.Message, "at most") || strings.Contains(info.Message, "%!") {
			t.Errorf("%s: the message is %q", name, info.Message)
		}
	}
}

// Frames of features that a peer has not listed may be taken, and have no answer: such a peer would not know it.
func TestG18FramesOfMissingFeaturesHaveNoAnswer(t *testing.T) {
	r := start(t, &leader.Leader{})
	client := r.client("clientA", 1)
	first, submit := submission("clientA", "calcA")
	second, later := submission("clientA", "calcA")
	unknown := wire.NewGUID()
	client.send(submit, later)
	for _, id := range []wire.GUID{first, unknown, {}} {
		client.send(
			wire.Frame{Type: wire.Query, MsgID: wire.NewGUID(), CorrID: id}, wire.Frame{Type: wire.ResultAck, Payload: wire.AppendGUIDs(nil, id)},
			wire.Frame{Type: wire.Drain, CorrID: id},
		)
	}
	client.send(wire.Frame{Type: wire.Cancel, CorrID: unknown}, wire.Frame{Type: wire.Cancel, CorrID: second})
	if f := client.next(); f.Type != wire.Result || f.CorrID != second {
		t.Errorf("the client is sent %s %s, want the result of the job that it has canceled", f.Type, f.CorrID)
	}
	worker := r.worker(1)
	assign := worker.next()
	for _, id := range []wire.GUID{first, unknown, {}} {
		running, err := json.Marshal(wire.RenewInfo{Running: []wire.Running{{JobID: id, AttemptID: unknown}}})
		if err != nil {
			t.Fatal(err)
		}
		worker.send(
			wire.Frame{Type: wire.Accept, MsgID: unknown, CorrID: id}, wire.Frame{Type: wire.Renew, Payload: running},
			wire.Frame{Type: wire.Report, CorrID: id, Payload: []byte(`{"Message":"half"}`)}, wire.Frame{Type: wire.Query, CorrID: id},
		)
	}
	worker.send(ok(assign))
	if f := client.next(); f.Type != wire.Result || f.CorrID != first {
		t.Errorf("the client is sent %s %s, want the result of its first job", f.Type, f.CorrID)
	}
	third, submit := submission("clientA", "calcA")
	client.send(submit)
	worker.send(credit(1))
	if assign = worker.next(); assign.Type != wire.AssignJob || assign.MsgID != third {
		t.Errorf("the worker is sent %s %s, want its next job", assign.Type, assign.MsgID)
	}
	worker.send(ok(assign))
	if f := client.next(); f.Type != wire.Result || f.CorrID != third {
		t.Errorf("the client is sent %s %s, want the result of its last job", f.Type, f.CorrID)
	}
}
