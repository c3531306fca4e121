package leader_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/grid/access"
	"github.com/batchfleet/batchfleet/grid/leader"
	"github.com/batchfleet/batchfleet/grid/schedule"
	"github.com/batchfleet/batchfleet/grid/wire"
	tokens "github.com/batchfleet/batchfleet/jobapi/access"
)

// rules writes a file of rules, and opens it.
func rules(t *testing.T, text string) (file *access.File, rewrite func(text string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "acl.toml")
	rewrite = func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rewrite(text)
	file, err := access.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return file, rewrite
}

// helloClient says hello as a client, helloWorker as a worker. The first frame of the answer is returned.
func (e *end) helloClient(id, token string, desired int) wire.Frame {
	e.t.Helper()
	text, err := json.Marshal(wire.ClientConfig{ClientID: id, DesiredParallelism: desired, Features: every, Token: token})
	if err != nil {
		e.t.Fatal(err)
	}
	e.send(wire.Frame{Type: wire.HelloClient, Subject: id, Payload: text})
	return e.next()
}

func (e *end) helloWorker(pattern, token string) wire.Frame {
	e.t.Helper()
	text, err := json.Marshal(wire.Capability{Proto: 2, Features: every, MaxParallel: 1, Token: token})
	if err != nil {
		e.t.Fatal(err)
	}
	e.send(wire.Frame{Type: wire.HelloWorker, MsgID: wire.NewGUID(), Subject: pattern, Payload: text}, credit(1))
	return e.next()
}

// wantWelcome and wantForbidden check how a hello, or a job, was answered.
func wantWelcome(t *testing.T, who string, f wire.Frame) {
	t.Helper()
	if f.Type != wire.Welcome {
		t.Fatalf("%s is answered with %s %s", who, f.Type, f.Payload)
	}
}

func wantForbidden(t *testing.T, who string, f wire.Frame, why string) {
	t.Helper()
	var info wire.ErrorInfo
	if err := json.Unmarshal(f.Payload, &info); err != nil || f.Type != wire.Error || info.Code != wire.CodeForbidden || !strings.Contains(info.Message, why) {
		t.Errorf("%s is answered with %s %s, want %s with %q", who, f.Type, f.Payload, wire.CodeForbidden, why)
	}
	if strings.Contains(info.Message, ".toml") {
		t.Errorf("%s learns where the rules are: %q", who, info.Message)
	}
}

// wantClosed checks that nothing more comes.
func wantClosed(t *testing.T, who string, e *end) {
	t.Helper()
	if f, err := e.Receive(); err == nil {
		t.Errorf("%s is sent %s after that", who, f.Type)
	}
}

const byCertificate = `
[team-a]
sans = ["spiffe://fleet/team-a"]
clients = ["team-a"]
execs = ["calc.*"]
max_cap = 2

[workers]
sans = ["spiffe://fleet/worker-1"]
patterns = ["job.assign.calc.>"]
`

func TestG71PeersAreIdentifiedByCertificate(t *testing.T) {
	a := newAuthority(t)
	file, _ := rules(t, byCertificate)
	r := startOn(t, &leader.Leader{Access: file}, a.listen())
	client, worker := a.dial(r, "team-a"), a.dial(r, "worker-1")
	wantWelcome(t, "a client", client.helloClient("team-a", "", 8))
	wantWelcome(t, "a worker", worker.helloWorker("job.assign.calc.>", ""))
	id, submit := submission("team-a", "calc.add")
	client.send(submit)
	if f := client.next(); f.Type != wire.SubmitAck {
		t.Errorf("a job is answered with %s %s", f.Type, f.Payload)
	}
	assign := worker.next()
	worker.send(ok(assign))
	if f := client.next(); f.Type != wire.Result || f.CorrID != id {
		t.Errorf("the client is sent %s of %s", f.Type, f.CorrID)
	}
	if err := r.Do(t.Context(), func(c *schedule.Core) {
		for _, cl := range c.Clients() {
			if cl.Cap != 2 {
				t.Errorf("client %s has asked for 8 jobs at once and may have %d, want 2", cl.Name, cl.Cap)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	other := a.dial(r, "team-b") // of the same authority, and in no rule
	wantForbidden(t, "a certificate that is in no rule", other.helloClient("team-a", "", 1), "in no sans")
	wantClosed(t, "a certificate that is in no rule", other)
	none := a.dial(r, "")
	if none.Send(wire.Frame{Type: wire.HelloClient, Subject: "team-a"}) == nil {
		wantClosed(t, "one without a certificate", none)
	}
	plain := r.raw()
	_, _ = plain.Write((&wire.Frame{Type: wire.HelloClient, Subject: "team-a"}).Append(nil))
	isClosed(t, "one without TLS", plain)
}

func TestG72LeaderEnforcesRules(t *testing.T) {
	token, hash := tokens.NewToken()
	text := "\n[b]\ntokens = [\"sha256:" + hash + "\"]\nclients = [\"team-b\"]\nexecs = [\"sum\"]\npatterns = [\"job.assign.sum\"]\n"
	file, rewrite := rules(t, byCertificate+text)
	a := newAuthority(t)
	r := startOn(t, &leader.Leader{Access: file}, a.listen())
	for _, test := range []struct {
		who   string
		hello func(e *end) wire.Frame
		why   string
	}{
		{"the ClientId of another", func(e *end) wire.Frame { return e.helloClient("team-b", "", 1) }, "may not be the client"},
		{"a token that is not known", func(e *end) wire.Frame { return e.helloClient("team-a", "x"+token, 1) }, "unknown"},
		{"another's ClientId with a token", func(e *end) wire.Frame { return e.helloClient("team-a", token, 1) }, "may not be the client"},
		{"a worker of a pattern of others", func(e *end) wire.Frame { return e.helloWorker("job.assign.calc.>", token) }, "may not be a worker"},
		{"a worker of a wider pattern", func(e *end) wire.Frame { return e.helloWorker("job.assign.*", token) }, "may not be a worker"},
		{"a client as a worker", func(e *end) wire.Frame { return e.helloWorker("job.assign.calc.add", "") }, "may not be a worker"},
	} {
		e := a.dial(r, "team-a")
		wantForbidden(t, test.who, test.hello(e), test.why)
		wantClosed(t, test.who, e)
	}
	// The exec of each job is asked for, and the connection goes on.
	client, other, worker := a.dial(r, "team-a"), a.dial(r, "team-a"), a.dial(r, "worker-1")
	wantWelcome(t, "a client", client.helloClient("team-a", "", 1))
	wantWelcome(t, "a client with a token", other.helloClient("team-b", token, 1))
	wantWelcome(t, "a worker of a narrower pattern", worker.helloWorker("job.assign.calc.add", ""))
	_, forbidden := submission("team-a", "sum")
	client.send(forbidden)
	wantForbidden(t, "a job of another exec", client.next(), "may not run")
	_, submit := submission("team-b", "sum")
	other.send(submit)
	if f := other.next(); f.Type != wire.SubmitAck {
		t.Errorf("a job that is allowed is answered with %s %s", f.Type, f.Payload)
	}

	// A worker cannot make up results of execs that it may not run.
	forged := ok(wire.Frame{MsgID: submit.MsgID, CorrID: wire.NewGUID(), Payload: submit.Payload})
	unknown := wire.NewGUID()
	forged.CorrID, forged.Payload = unknown, []byte(strings.ReplaceAll(string(forged.Payload), submit.MsgID.String(), unknown.String()))
	worker.send(forged)
	if f := worker.next(); f.Type != wire.Error || !strings.Contains(string(f.Payload), "may not be a worker of") {
		t.Fatalf("a made up result is answered with %s %s", f.Type, f.Payload)
	}
	if f := worker.next(); f.Type != wire.ResultAck {
		t.Errorf("after that comes %s", f.Type)
	}
	other.send(wire.Frame{Type: wire.Query, CorrID: unknown})
	if f := other.next(); f.Type != wire.Status || !strings.Contains(string(f.Payload), "unknown") {
		t.Errorf("a client is sent %s of a job that it has not submitted", f.Type)
	}

	// Those that new rules do not let in are closed, the others stay.
	rewrite("[team-a]\nsans = [")
	if err := r.Reload(); err == nil {
		t.Error("rules that cannot be read are taken")
	}
	_, submit = submission("team-b", "sum")
	other.send(submit)
	if f := other.next(); f.Type != wire.SubmitAck {
		t.Errorf("after rules that cannot be read, a job is answered with %s %s", f.Type, f.Payload)
	}
	rewrite(strings.Replace(byCertificate, "job.assign.calc.>", "job.assign.calc.sub", 1)) // no team-b, and another pattern
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	wantForbidden(t, "one who was taken out", other.next(), "not in the file any more")
	wantClosed(t, "one who was taken out", other)
	wantForbidden(t, "a worker whose pattern was taken out", worker.next(), "may not be a worker")
	wantClosed(t, "a worker whose pattern was taken out", worker)
	id, submit := submission("team-a", "calc.add")
	client.send(submit)
	if f := client.next(); f.Type != wire.SubmitAck {
		t.Errorf("the job %s of one who stays is answered with %s %s", id, f.Type, f.Payload)
	}
}
