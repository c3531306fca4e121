package router_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/client"
	"github.com/batchfleet/batchfleet/grid/router"
	"github.com/batchfleet/batchfleet/grid/wire"
)

func TestG75JobsAndResultsPassUnchanged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, "a:1", "b:1")
		c := r.welcomed("clientA")
		job := c.job("1")
		job.Payload = bytes.Replace(job.Payload, []byte(`"Args"`), []byte(` "More":[ 1 ], "Args"`), 1)
		c.send(job)
		c.queued(job)
		var got []wire.Frame
		var mu sync.Mutex
		for a := range r.leaders {
			w := r.dial(a)
			w.send(wire.Frame{Type: wire.HelloWorker, MsgID: wire.NewGUID()}, wire.Frame{Type: wire.Credit, Payload: wire.AppendCredit(nil, 1)})
			go func() {
				if f, err := w.Receive(); err == nil {
					mu.Lock()
					got = append(got, f)
					mu.Unlock()
					done := answer(f)
					done.Payload = append(done.Payload[:len(done.Payload)-1], ` ,"More" : 1}`...)
					_ = w.Send(done)
				}
			}()
		}
		result := c.next(wire.Result)
		mu.Lock()
		defer mu.Unlock()
		if len(got) != 1 || string(got[0].Payload) != string(job.Payload) {
			t.Errorf("workers were given %+v, want %s", got, job.Payload)
		}
		if want := wire.ResultSubject("clientA", job.MsgID); result.Subject != want || result.MsgID != job.MsgID || result.CorrID != job.MsgID {
			t.Errorf("the result is %+v, want subject %s", result, want)
		}
		if !strings.HasSuffix(string(result.Payload), ` ,"More" : 1}`) || !strings.Contains(string(result.Payload), `"Stdout":"1"`) {
			t.Errorf("the result has %s", result.Payload)
		}
	})
}

func TestG75SubmitAckComesBeforeResult(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, "a:1", "b:1")
		c := r.welcomed("clientA")
		r.worker("a:1")
		r.worker("b:1")
		for range 300 {
			job := c.job()
			c.send(job)
			c.queued(job)
			c.send(ack(c.next(wire.Result).MsgID))
		}
	})
}

// kept returns how many results leaders keep.
func (r *rig) kept() (n int) {
	for a := range r.leaders {
		numbers, _ := r.numbers(a)
		n += numbers.Results
	}
	return n
}

func TestG75LeaderKeepsResultUntilClientAck(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, "a:1", "b:1")
		c := r.welcomed("clientA")
		r.worker("a:1")
		r.worker("b:1")
		job := c.job()
		c.send(job)
		c.queued(job)
		c.next(wire.Result)
		after(time.Minute)
		if n := r.kept(); n != 1 {
			t.Fatalf("leaders keep %d results before the client has acknowledged its one", n)
		}
		c.send(ack(job.MsgID))
		after(0)
		if n := r.kept(); n != 0 {
			t.Errorf("leaders keep %d results after the client has acknowledged its one", n)
		}
	})
}

func TestG75SubmitAgainReachesSameLeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, "a:1", "b:1", "c:1")
		var jobs []wire.Frame
		for again := range 3 {
			c := r.welcomed("clientA")
			for range 60 {
				if again == 0 {
					jobs = append(jobs, c.job())
				}
			}
			c.send(jobs...)
			c.queued(jobs...)
			c.Abort(nil)
			if again == 1 { // it makes no difference which router it is
				r.router.kill()
				r.startRouter(&router.Router{Leaders: []string{"c:1", "b:1", "a:1"}})
			}
		}
		known, duplicates := 0, uint64(0)
		for a := range r.leaders {
			n, c := r.numbers(a)
			if n.Open < 5 {
				t.Errorf("leader %s has %d jobs of %d", a, n.Open, len(jobs))
			}
			known += n.Open
			duplicates += c.Duplicates
		}
		if known != len(jobs) || duplicates != uint64(2*len(jobs)) {
			t.Errorf("leaders have %d jobs and got %d again, want %d and %d", known, duplicates, len(jobs), 2*len(jobs))
		}
	})
}

func TestG75JobsOfKilledLeaderMoveAfterGrace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, "a:1", "b:1")
		c := r.welcomed("clientA")
		jobs := map[wire.GUID]bool{}
		for range 40 {
			job := c.job()
			jobs[job.MsgID] = true
			c.send(job)
			c.queued(job)
		}
		before, _ := r.numbers("b:1")
		if before.Open == 0 || before.Open == 40 {
			t.Fatalf("leader b has %d jobs of 40", before.Open)
		}
		r.leaders["a:1"].kill()
		after(client.DefaultGrace - time.Second)
		if n, _ := r.numbers("b:1"); n.Open != before.Open {
			t.Errorf("within the grace the other leader has got %d jobs", n.Open-before.Open)
		}
		after(2 * time.Second)
		if n, _ := r.numbers("b:1"); n.Open != 40 {
			t.Errorf("after the grace the other leader has %d jobs, want all", n.Open)
		}
		delete(r.leaders, "a:1")
		r.worker("b:1")
		for len(jobs) > 0 {
			f, err := c.Receive()
			if err != nil {
				t.Fatal(err)
			}
			if f.Type == wire.Result {
				delete(jobs, f.MsgID)
				c.send(ack(f.MsgID))
			}
		}
		if n := r.kept(); n != 0 {
			t.Errorf("leaders keep %d results", n)
		}
	})
}

func TestG75KilledRouterLosesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, "a:1", "b:1")
		var mu sync.Mutex
		ledger := map[wire.GUID][]string{}
		m, err := client.New(client.Config{
			ClientID: "clientA", Leaders: []string{"router:1"}, Desired: 20, Window: 100, Log: quiet, Dial: r.dialTo,
			OnResult: func(result client.Result) error {
				got, err := result.Decode()
				if err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				ledger[result.JobID] = append(ledger[result.JobID], got.Stdout)
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		const n = 400
		want := map[wire.GUID]string{}
		var jobs []*client.Job
		for i := range n {
			switch i {
			case 90: // the window is full nearly
				r.worker("a:1")
				r.worker("b:1")
			case 60, 200, 300, 399:
				r.router.kill()
				r.startRouter(&router.Router{})
			}
			j, err := m.Submit(t.Context(), wire.JobRequest{ExecName: "calcA", Args: []string{fmt.Sprint(i)}})
			if err != nil {
				t.Fatal(err)
			}
			jobs = append(jobs, j)
			want[j.ID] = fmt.Sprint(i)
		}
		waiting, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for _, j := range jobs {
			if _, err := j.Wait(waiting); err != nil {
				t.Errorf("job %s: %v", j.ID, err)
			}
		}
		after(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		for id, told := range ledger {
			if len(told) != 1 || told[0] != want[id] {
				t.Errorf("job %s has results %q, want %q", id, told, want[id])
			}
		}
		if len(ledger) != n {
			t.Errorf("%d of %d jobs have results", len(ledger), n)
		}
		if n := r.kept(); n != 0 {
			t.Errorf("leaders keep %d results", n)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestG75ResultsComeWithNextHello(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, "a:1", "b:1")
		c := r.welcomed("clientA")
		var jobs []wire.Frame
		for range 10 {
			jobs = append(jobs, c.job())
		}
		c.send(jobs...)
		c.queued(jobs...)
		r.worker("a:1")
		for range 3 {
			c.next(wire.Result) // they are not acknowledged
			if n, _ := r.numbers("a:1"); n.Open == 0 {
				break
			}
		}
		c.Abort(nil)
		after(time.Second)
		r.worker("b:1")
		after(time.Minute)
		if n := r.kept(); n != 10 {
			t.Fatalf("leaders keep %d results, want 10", n)
		}
		c = r.welcomed("clientA")
		got := map[wire.GUID]bool{}
		for range 10 {
			f := c.next(wire.Result)
			got[f.MsgID] = true
			c.send(ack(f.MsgID))
		}
		if len(got) != 10 {
			t.Errorf("%d different results have come, want 10", len(got))
		}
		after(time.Second)
		if n := r.kept(); n != 0 {
			t.Errorf("leaders keep %d results", n)
		}
	})
}

func TestG75ResultGoesToSubmittingConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, "a:1", "b:1")
		first := r.welcomed("clientA")
		second := r.welcomed("clientA")
		one, two, three := first.job("1"), second.job("2"), first.job("3")
		first.send(one, three)
		first.queued(one, three)
		second.send(two)
		second.queued(two)
		other := r.welcomed("clientB")
		r.worker("a:1")
		r.worker("b:1")
		for range 2 {
			if f := first.next(wire.Result); f.MsgID != one.MsgID && f.MsgID != three.MsgID {
				t.Errorf("the first connection has got the result of %s", f.MsgID)
			}
		}
		if f := second.next(wire.Result); f.MsgID != two.MsgID {
			t.Errorf("the second connection has got the result of %s", f.MsgID)
		}
		first.send(ack(one.MsgID))
		after(time.Second)
		first.Abort(nil)
		if f := second.next(wire.Result); f.MsgID != three.MsgID { // it was not acknowledged
			t.Errorf("the second connection has got the result of %s", f.MsgID)
		}
		after(time.Second)
		other.Abort(nil)
		if f, err := other.Receive(); err == nil {
			t.Errorf("another client has got %s", f.Type)
		}
	})
}

func TestG75OwnFeatureHidesOtherResults(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, "a:1", "b:1")
		r.worker("a:1")
		r.worker("b:1")
		gone := r.welcomed("clientA")
		old := gone.job()
		gone.send(old)
		gone.queued(old)
		gone.Abort(nil)
		after(time.Second)
		c := r.client("clientA", "", append([]string{wire.FeatureOwn}, all...)...)
		c.next(wire.Welcome)
		job := c.job()
		c.send(job)
		c.queued(job)
		if f := c.next(wire.Result); f.MsgID != job.MsgID {
			t.Errorf("the result of %s has come, which is another's", f.MsgID)
		}
	})
}

func TestG75OriginalClientIsServed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, "a:1", "b:1")
		c := r.client("clientA", "")
		first, second := c.job("1"), c.job("2")
		c.send(first, second)
		c.Close() // its jobs go on
		after(time.Minute)
		r.worker("a:1")
		r.worker("b:1")
		after(time.Minute)
		if n := r.kept(); n != 2 {
			t.Fatalf("leaders keep %d results, want 2", n)
		}
		c = r.client("clientA", "")
		got := map[wire.GUID]bool{c.next(wire.Result).MsgID: true, c.next(wire.Result).MsgID: true}
		if !got[first.MsgID] || !got[second.MsgID] {
			t.Errorf("results have come of %v", got)
		}
		c.send(wire.Frame{Type: wire.Query, CorrID: first.MsgID}) // whose answer it would not know
		after(time.Second)
		third := c.job("3")
		c.send(third)
		if f := c.next(wire.Result); f.MsgID != third.MsgID {
			t.Errorf("the result of %s has come", f.MsgID)
		}
		after(time.Second)
		if n := r.kept(); n != 0 {
			t.Errorf("leaders keep %d results that were written", n)
		}
		bad := c.job("4")
		bad.Payload = bytes.Replace(bad.Payload, []byte(`"calcA"`), []byte(`"calcB"`), 1)
		c.send(bad)
		checkFailed(t, c.next(wire.Result), bad, wire.ReasonRejected)
	})
}
