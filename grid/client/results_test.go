package client

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/wire"
)

func TestG47JobKeepsIDWhenSentAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1")
		l := n.leaders["a:1"]
		m := n.start(t, Config{})
		j := submit(t, m)
		<-j.Queued()
		l.drop() // it has run the job meanwhile, and answers with the result that it has kept
		l.plays(runAll)
		if got := result(t, j); got != "a:1" {
			t.Errorf("result is from %q", got)
		}
		var sent []string
		for _, f := range l.frames() {
			if f.Type == wire.SubmitJob {
				sent = append(sent, f.MsgID.String()+string(f.Payload))
			}
		}
		if len(sent) != 2 || sent[0] != sent[1] {
			t.Errorf("the job was sent as %q, want the same twice", sent)
		}
	})
}

func TestG47ConflictEndsJob(t *testing.T) {
	for _, code := range []string{wire.CodeConflict, wire.CodeInvalid, wire.CodeForbidden} {
		t.Run(code, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := newNet(t, "a:1", "b:1")
				n.leaders["a:1"].reply = refuseAll(code)
				m := n.start(t, Config{})
				_, err := submit(t, m).Wait(t.Context())
				told, ok := errors.AsType[*Error](err)
				if !ok || told.Code != code || told.Leader != "a:1" || told.Message == "" {
					t.Errorf("the job has ended with %v", err)
				}
				if got := n.leaders["b:1"].ids(t, wire.SubmitJob); len(got) != 0 {
					t.Errorf("it was sent to another leader")
				}
			})
		})
	}
}

func TestG47BusyLeaderIsPaused(t *testing.T) {
	for _, code := range []string{wire.CodeBusy, wire.CodeNoSpace, wire.CodeDraining} {
		t.Run(code, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := newNet(t, "a:1", "b:1")
				a, b := n.leaders["a:1"], n.leaders["b:1"]
				a.reply, b.reply = refuseAll(code), runAll
				m := n.start(t, Config{})
				for range 10 {
					if got := result(t, submit(t, m)); got != "b:1" {
						t.Errorf("result is from %q", got)
					}
				}
				if got := len(a.ids(t, wire.SubmitJob)); got != 1 {
					t.Errorf("the leader was asked %d times at once", got)
				}
				b.crash()
				j := submit(t, m)
				after(10 * time.Minute)
				if got := len(a.ids(t, wire.SubmitJob)); got < 20 || got > 40 {
					t.Errorf("the leader was asked %d times in 10 minutes", got)
				}
				a.plays(runAll)
				if got := result(t, j); got != "a:1" {
					t.Errorf("result is from %q", got)
				}
				a.plays(refuseAll(code))
				j = submit(t, m)
				after(0)
				a.plays(runAll)
				began := time.Now()
				result(t, j)
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("a leader that has taken a job since was asked again after %s", took)
				}
			})
		})
	}
}

func TestG47SubmitAgainGetsResultAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1")
		n.leaders["a:1"].reply = runAll
		m := n.start(t, Config{})
		id := wire.NewGUID()
		for range 2 {
			j, err := m.Submit(t.Context(), wire.JobRequest{JobID: id, ExecName: "calcA"})
			if err != nil {
				t.Fatal(err)
			}
			if got := result(t, j); got != "a:1" {
				t.Errorf("result is from %q", got)
			}
		}
	})
}

func TestG47SubmitReturnsUnfinishedJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1")
		m := n.start(t, Config{})
		request := wire.JobRequest{JobID: wire.NewGUID(), ExecName: "calcA", Args: []string{"1"}}
		first, err := m.Submit(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := m.Submit(t.Context(), request); again != first {
			t.Errorf("the same request is %v, %v; want the job that is there", again, err)
		}
		request.Args = []string{"2"}
		if other, err := m.Submit(t.Context(), request); err == nil {
			t.Errorf("another request with the id is %v; want an error", other)
		}
	})
}

func TestG48AckFollowsOnResult(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1")
		l := n.leaders["a:1"]
		l.reply = runAll
		var told []wire.GUID
		refusals := 2
		m := n.start(t, Config{OnResult: func(r Result) error {
			told = append(told, r.JobID)
			if refusals--; refusals >= 0 {
				return errors.New("disk full")
			}
			return nil
		}})
		j := submit(t, m)
		if got := l.ids(t, wire.ResultAck); len(got) != 0 {
			t.Fatal("a result is acknowledged that was not taken")
		}
		select {
		case <-j.Done():
			t.Error("the job has ended before its result was taken")
		default:
		}
		if got := result(t, j); got != "a:1" {
			t.Errorf("result is from %q", got)
		}
		after(0)
		if got := l.ids(t, wire.ResultAck); !slices.Equal(got, []wire.GUID{j.ID}) {
			t.Errorf("acknowledged are %v, want %s", got, j.ID)
		}
		if want := []wire.GUID{j.ID, j.ID, j.ID}; !slices.Equal(told, want) {
			t.Errorf("told were %v, want %v", told, want)
		}
		if got := len(l.ids(t, wire.SubmitJob)); got != 1 {
			t.Errorf("the job was sent %d times", got)
		}
	})
}

// TestG48AckIsSentWhenTheClientStops stops a client that has taken a result, and is at work on the next one.
func TestG48AckIsSentWhenTheClientStops(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1")
		l := n.leaders["a:1"]
		earlier, goOn := wire.NewGUID(), make(chan struct{})
		l.reply = func(l *fakeLeader, c *link.Conn, f wire.Frame) {
			if f.Type == wire.SubmitJob {
				_ = c.Send(resultOf(f.MsgID, l.address), resultOf(earlier, l.address))
			}
		}
		m := n.client(t, Config{OnResult: func(r Result) error {
			if r.JobID == earlier {
				<-goOn
			}
			return nil
		}})
		stop := n.run(t, m)
		j := submit(t, m)
		result(t, j)
		go stop()
		synctest.Wait()
		close(goOn)
		stop()
		if got := l.ids(t, wire.ResultAck); !slices.Contains(got, j.ID) {
			t.Errorf("acknowledged: %v, want %v", got, j.ID)
		}
	})
}

func TestG48NoCancelAfterRefusedResult(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1")
		l := n.leaders["a:1"]
		l.reply = func(l *fakeLeader, c *link.Conn, f wire.Frame) {
			runAll(l, c, f)
			if f.Type == wire.Query {
				_ = c.Send(wire.Frame{Type: wire.Status, CorrID: f.CorrID, Payload: []byte(`{"State":"succeeded"}`)})
			}
		}
		refusals := 1
		m := n.start(t, Config{OnResult: func(Result) error {
			if refusals--; refusals >= 0 {
				return errors.New("disk full")
			}
			return nil
		}})
		j := submit(t, m)
		if err := m.Cancel(t.Context(), j.ID); err != nil {
			t.Error(err)
		}
		if got, err := m.Query(t.Context(), j.ID); err != nil || got.State != "succeeded" {
			t.Errorf("the job is %q, %v", got.State, err)
		}
		if got := result(t, j); got != "a:1" {
			t.Errorf("result is from %q", got)
		}
	})
}

func TestG48RefusedResultSurvivesLeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1", "b:1")
		a := n.leaders["a:1"]
		a.reply = runAll
		refuse := true
		m := n.start(t, Config{OnResult: func(Result) error {
			if refuse {
				return errors.New("disk full")
			}
			return nil
		}})
		j := submit(t, m)
		a.crash()
		after(time.Minute)
		if got := n.leaders["b:1"].ids(t, wire.SubmitJob); len(got) != 0 {
			t.Error("a job whose result is here was sent to another leader")
		}
		refuse = false
		if got := result(t, j); got != "a:1" {
			t.Errorf("result is from %q", got)
		}
		a.back()
		after(time.Minute)
		a.send(t, resultOf(j.ID, "a:1")) // it has seen no acknowledgment
		after(0)
		if got := a.ids(t, wire.ResultAck); !slices.Equal(got, []wire.GUID{j.ID}) {
			t.Errorf("acknowledged are %v, want %s", got, j.ID)
		}
	})
}

func TestG48EarlierResultsAreReportedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1", "b:1")
		id := wire.NewGUID()
		kept := func(l *fakeLeader, c *link.Conn, f wire.Frame) {
			if f.Type == wire.HelloClient {
				_ = c.Send(resultOf(id, l.address))
			}
		}
		n.leaders["a:1"].reply, n.leaders["b:1"].reply = kept, kept
		var told []wire.GUID
		n.start(t, Config{OnResult: func(r Result) error {
			told = append(told, r.JobID)
			time.Sleep(time.Second) // until the other leader has sent its own
			return nil
		}})
		after(time.Minute)
		if !slices.Equal(told, []wire.GUID{id}) {
			t.Errorf("told were %v, want %s", told, id)
		}
		for a, l := range n.leaders {
			if got := l.ids(t, wire.ResultAck); !slices.Equal(got, []wire.GUID{id}) {
				t.Errorf("acknowledged to %s are %v, want %s", a, got, id)
			}
		}
	})
}

func TestG48UnwantedEarlierResultsStayWithLeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1")
		n.start(t, Config{})
		n.leaders["a:1"].send(t, resultOf(wire.NewGUID(), "a:1"))
		after(time.Second)
		if got := n.leaders["a:1"].ids(t, wire.ResultAck); len(got) != 0 {
			t.Errorf("acknowledged are %v", got)
		}
	})
}

func TestG48ArrayElementResults(t *testing.T) {
	for _, tell := range []bool{true, false} {
		t.Run(fmt.Sprintf("OnResult is there: %t", tell), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := newNet(t, "a:1")
				l := n.leaders["a:1"]
				var told []wire.GUID
				var cfg Config
				if tell {
					cfg.OnResult = func(r Result) error { told = append(told, r.JobID); return nil }
				}
				m := n.start(t, cfg)
				j, err := m.Submit(t.Context(), wire.JobRequest{ExecName: "calcA", Options: wire.Options{Array: "0-1"}})
				if err != nil {
					t.Fatal(err)
				}
				after(0)
				var want []wire.GUID
				for i := range int64(2) {
					id := wire.ElementID(j.ID, i)
					want = append(want, id)
					payload := must(wire.MarshalResult(&wire.JobResult{JobID: id, ClientID: "clientA", ExecName: "calcA", Status: wire.OK, Index: &i}))
					l.send(t, wire.Frame{Type: wire.Result, MsgID: id, CorrID: id, Payload: payload})
				}
				l.send(t, resultOf(j.ID, "2 of 2"))
				want = append(want, j.ID)
				if got := result(t, j); got != "2 of 2" {
					t.Errorf("result is %q", got)
				}
				after(0)
				if got := l.ids(t, wire.ResultAck); !slices.Equal(got, want) {
					t.Errorf("acknowledged are %v, want %v", got, want)
				}
				if tell && !slices.Equal(told, want) {
					t.Errorf("told were %v, want %v", told, want)
				}
			})
		})
	}
}

func TestG49JobsGoOnWhenTheClientStops(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1")
		m := n.client(t, Config{})
		stop := n.run(t, m)
		j := submit(t, m)
		stop()
		if _, err := j.Wait(t.Context()); !errors.Is(err, ErrStopped) {
			t.Errorf("the job has ended with %v, want %v", err, ErrStopped)
		}
		if got := n.leaders["a:1"].ids(t, wire.Cancel); len(got) != 0 {
			t.Errorf("canceled are %v", got)
		}
	})
}

func TestG16DecodeChecksJobID(t *testing.T) {
	id, other := wire.NewGUID(), wire.NewGUID()
	for _, payload := range []string{`{"JobId":"` + other.String() + `","Status":"OK"}`, `{"Status":"OK"}`, `junk`} {
		if got, err := (Result{id, []byte(payload)}).Decode(); err == nil || !strings.Contains(err.Error(), id.String()) {
			t.Errorf("%s: got %+v and error %v, want one that names the job", payload, got, err)
		}
	}
	if got, err := (Result{id, []byte(`{"JobId":"` + id.N() + `","Status":"OK"}`)}).Decode(); err != nil || got.Status != wire.OK {
		t.Errorf("its own result: %+v, %v", got, err)
	}
}
