package client

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/wire"
)

func TestG18LeaderDecidesResultOfCanceledJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1", "b:1")
		m := n.start(t, Config{})
		j := submit(t, m)
		if err := m.Cancel(t.Context(), j.ID); err != nil {
			t.Fatal(err)
		}
		after(0)
		if got := n.leaders["a:1"].ids(t, wire.Cancel); !slices.Equal(got, []wire.GUID{j.ID}) {
			t.Errorf("canceled are %v, want %s", got, j.ID)
		}
		if got := n.leaders["b:1"].ids(t, wire.Cancel); len(got) != 0 {
			t.Errorf("canceled at a leader that never had the job are %v", got)
		}
		n.leaders["a:1"].send(t, resultOf(j.ID, "canceled"))
		if got := result(t, j); got != "canceled" {
			t.Errorf("result is %q", got)
		}
	})
}

func TestG18CancelOfPendingJobIsImmediate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1")
		n.leaders["a:1"].down = true
		m := n.start(t, Config{})
		j := submit(t, m)
		if err := m.Cancel(t.Context(), j.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := j.Wait(t.Context()); !errors.Is(err, ErrCanceled) {
			t.Errorf("the job has ended with %v", err)
		}
		n.leaders["a:1"].back()
		after(time.Minute)
		if got := n.leaders["a:1"].ids(t, wire.SubmitJob); len(got) != 0 {
			t.Errorf("it was sent")
		}
	})
}

func TestG18CancelWaitsForLostLeader(t *testing.T) {
	for _, tt := range []struct {
		name  string
		away  time.Duration
		knows bool
	}{{"it is back and knows the job", time.Second, true}, {"it is back without the job", time.Second, false}, {"it is back late", time.Minute, true}} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := newNet(t, "a:1", "b:1")
				a := n.leaders["a:1"]
				m := n.start(t, Config{})
				j := submit(t, m)
				a.crash()
				after(0)
				if err := m.Cancel(t.Context(), j.ID); err != nil {
					t.Fatal(err)
				}
				a.plays(func(_ *fakeLeader, c *link.Conn, f wire.Frame) {
					if f.Type == wire.Cancel && tt.knows {
						_ = c.Send(resultOf(f.CorrID, "canceled"))
					} else if f.Type == wire.Cancel {
						_ = c.Send(errorFrame(f.CorrID, wire.CodeNotFound))
					}
				})
				after(tt.away)
				a.back()
				r, err := j.Wait(t.Context())
				if known := tt.knows && tt.away < DefaultGrace; known != (r.Stdout == "canceled") || known == errors.Is(err, ErrCanceled) {
					t.Errorf("the job has ended with %q, %v", r.Stdout, err)
				}
				after(time.Minute)
				if got := a.ids(t, wire.Cancel); !slices.Equal(got, []wire.GUID{j.ID}) {
					t.Errorf("canceled are %v, want %s", got, j.ID)
				}
				if got := append(a.ids(t, wire.SubmitJob), n.leaders["b:1"].ids(t, wire.SubmitJob)...); len(got) != 1 {
					t.Errorf("the job was sent %d times", len(got))
				}
			})
		})
	}
}

func TestG18CancelOfForeignJobAsksAllLeaders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1", "b:1")
		m := n.start(t, Config{})
		id := wire.NewGUID()
		if err := m.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		after(0)
		for a, l := range n.leaders {
			if got := l.ids(t, wire.Cancel); !slices.Equal(got, []wire.GUID{id}) {
				t.Errorf("canceled at %s are %v", a, got)
			}
		}
	})
}

func TestG18NotFoundSubmitsJobAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1")
		m := n.start(t, Config{})
		j := submit(t, m)
		n.leaders["a:1"].send(t, errorFrame(j.ID, wire.CodeNotFound))
		after(0)
		if got := n.leaders["a:1"].ids(t, wire.SubmitJob); !slices.Equal(got, []wire.GUID{j.ID, j.ID}) {
			t.Errorf("the leader has got %v, want the job twice", got)
		}
	})
}

func TestG18QueryAsksLeaderOfJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1", "b:1")
		knows := func(l *fakeLeader, c *link.Conn, f wire.Frame) {
			if f.Type == wire.Query {
				info := wire.StatusInfo{JobID: f.CorrID, State: "running", Worker: l.address}
				_ = c.Send(wire.Frame{Type: wire.Status, CorrID: f.CorrID, Payload: must(json.Marshal(info))})
			}
		}
		missing := func(_ *fakeLeader, c *link.Conn, f wire.Frame) {
			if f.Type == wire.Query {
				_ = c.Send(errorFrame(f.CorrID, wire.CodeNotFound))
			}
		}
		n.leaders["a:1"].reply, n.leaders["b:1"].reply = missing, knows
		m := n.start(t, Config{})
		state := func(id wire.GUID) string {
			t.Helper()
			info, err := m.Query(t.Context(), id)
			if err != nil {
				t.Error(err)
			}
			return strings.TrimSpace(info.State + " " + info.Worker)
		}
		submit(t, m)
		ofB := submit(t, m)
		if got := state(ofB.ID); got != "running b:1" {
			t.Errorf("the job is %s", got)
		}
		if got := n.leaders["a:1"].ids(t, wire.Query); len(got) != 0 {
			t.Errorf("the other leader was asked as well")
		}
		if got := state(wire.NewGUID()); got != "running b:1" {
			t.Errorf("a job of an earlier process is %s", got)
		}
		n.leaders["b:1"].plays(missing)
		if got := state(wire.NewGUID()); got != Unknown {
			t.Errorf("a job that no leader knows is %s", got)
		}
		n.leaders["a:1"].crash()
		n.leaders["b:1"].crash()
		after(time.Second)
		if got, err := m.Query(t.Context(), wire.NewGUID()); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("without a leader the answer is %v, %v", got, err)
		}
		if got := state(submit(t, m).ID); got != "queued" {
			t.Errorf("a job that is with no leader is %s", got)
		}
	})
}

func TestG18QueryEndsWithConnectionOrTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1")
		m := n.start(t, Config{})
		if _, err := m.Query(t.Context(), wire.NewGUID()); !errors.Is(err, errNoAnswer) {
			t.Errorf("a leader that is silent: %v", err)
		}
		n.leaders["a:1"].plays(func(_ *fakeLeader, c *link.Conn, f wire.Frame) {
			if f.Type == wire.Query {
				go c.Abort(errors.New("crash"))
			}
		})
		if _, err := m.Query(t.Context(), wire.NewGUID()); err == nil || errors.Is(err, errNoAnswer) {
			t.Errorf("a leader that is lost: %v", err)
		}
		if len(m.queries) != 0 {
			t.Errorf("%d queries are left", len(m.queries))
		}
	})
}

func TestG18OriginalLeaderGetsNoNewFrames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1")
		l := n.leaders["a:1"]
		l.features = nil
		m := n.start(t, Config{OnResult: func(Result) error { return nil }})
		j := submit(t, m)
		after(time.Hour) // it says nothing, and the connection stays
		if err := m.Cancel(t.Context(), j.ID); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("cancel: %v", err)
		}
		if _, err := m.Query(t.Context(), j.ID); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("query: %v", err)
		}
		select {
		case <-j.Queued():
			t.Error("the job is queued for good, which this leader cannot tell")
		default:
		}
		l.send(t, resultOf(j.ID, "a:1"))
		if got := result(t, j); got != "a:1" {
			t.Errorf("result is from %q", got)
		}
		<-j.Queued()
		after(time.Hour)
		for i, want := range []wire.Type{wire.HelloClient, wire.SubmitJob} {
			if got := l.frames(); len(got) != 2 || got[i].Type != want {
				t.Fatalf("the leader has got %v", got)
			}
		}
	})
}

func TestG18QueuedClosesAtSubmitAck(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1")
		n.leaders["a:1"].reply = func(*fakeLeader, *link.Conn, wire.Frame) {}
		m := n.start(t, Config{})
		a, b := submit(t, m), submit(t, m)
		queued := a.Queued()
		select {
		case <-queued:
			t.Error("the job is queued before the leader has told so")
		default:
		}
		n.leaders["a:1"].send(t, wire.Frame{Type: wire.SubmitAck, Payload: wire.AppendGUIDs(nil, a.ID, b.ID)})
		<-queued
		<-b.Queued()
		n.leaders["a:1"].send(t, resultOf(a.ID, ""))
		result(t, a)
	})
}

func TestG18ClientRefusedByAllLeadersStops(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1", "b:1")
		refuse := func(l *fakeLeader, c *link.Conn, f wire.Frame) {
			_ = c.Send(errorFrame(wire.GUID{}, wire.CodeForbidden))
		}
		for _, l := range n.leaders {
			l.features, l.reply = nil, refuse
		}
		m := n.client(t, Config{})
		j := submit(t, m)
		err := m.Run(t.Context())
		if told, ok := errors.AsType[*Error](err); !ok || told.Code != wire.CodeForbidden {
			t.Errorf("run has ended with %v", err)
		}
		if _, err := j.Wait(t.Context()); !errors.Is(err, ErrStopped) {
			t.Errorf("the job has ended with %v", err)
		}
		if _, err := m.Submit(t.Context(), wire.JobRequest{ExecName: "calcA"}); !errors.Is(err, ErrStopped) {
			t.Errorf("a job is taken after the end: %v", err)
		}
		n.stop()
	})
}

func TestG52SilentLeaderIsLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1", "b:1")
		a := n.leaders["a:1"]
		n.leaders["b:1"].down = true
		m := n.start(t, Config{})
		j := submit(t, m)
		n.leaders["b:1"].reply = runAll
		n.leaders["b:1"].back()
		hung := make(chan struct{})
		defer close(hung)
		a.plays(func(l *fakeLeader, _ *link.Conn, f wire.Frame) {
			n.mu.Lock()
			l.down = true
			n.mu.Unlock()
			<-hung // it does not even answer pings
		})
		other := submit(t, m)
		began := time.Now()
		if got := result(t, j) + result(t, other); got != "b:1b:1" {
			t.Errorf("results are from %q", got)
		}
		if took := time.Since(began); took > link.SilenceLimit+link.PingEvery+DefaultGrace+watchEvery {
			t.Errorf("the leader was lost after %s", took)
		}
	})
}
