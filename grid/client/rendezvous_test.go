package client

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// submitAs submits a job to calcA with this id.
func submitAs(t *testing.T, m *Multi, id wire.GUID) *Job {
	t.Helper()
	j, err := m.Submit(t.Context(), wire.JobRequest{JobID: id, ExecName: "calcA"})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// given returns which leaders have got jobs, by the jobs' ids.
func (n *fakeNet) given(t *testing.T) map[wire.GUID][]string {
	t.Helper()
	all := map[wire.GUID][]string{}
	for a, l := range n.leaders {
		for _, id := range l.ids(t, wire.SubmitJob) {
			all[id] = append(all[id], a)
		}
	}
	return all
}

func TestG75ProcessesChooseSameLeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		addresses := []string{"a:1", "b:1", "c:1"}
		n := newNet(t, addresses...)
		ids := make([]wire.GUID, 90)
		for i := range ids {
			ids[i] = wire.NewGUID()
		}
		for range 2 {
			m := n.client(t, Config{Policy: Rendezvous, Desired: 100, Leaders: addresses})
			stop := n.run(t, m)
			for _, id := range ids {
				submitAs(t, m, id)
			}
			after(time.Second)
			stop()
			slices.Reverse(ids)
			slices.Reverse(addresses)
		}
		count := map[string]int{}
		for id, at := range n.given(t) {
			if len(at) != 2 || at[0] != at[1] {
				t.Errorf("job %s was given to %v, want one leader twice", id, at)
			}
			count[at[0]]++
		}
		for _, a := range addresses {
			if count[a] < 10 {
				t.Errorf("of %d jobs leader %s has got %d", len(ids), a, count[a])
			}
		}
	})
}

func TestG75JobsOfLostLeaderGoToSecondChoice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1", "b:1", "c:1")
		m := n.start(t, Config{Policy: Rendezvous, Desired: 100})
		var jobs []*Job
		for range 60 {
			jobs = append(jobs, submit(t, m))
		}
		before := n.given(t)
		n.leaders["a:1"].crash()
		after(time.Second)
		fresh := submit(t, m)
		after(0)
		if at := n.given(t)[fresh.ID]; len(at) != 1 {
			t.Errorf("a job that came after the leader was lost is at %v", at)
		}
		after(2 * DefaultGrace)
		moved := map[string]int{}
		for _, j := range jobs {
			was, is := before[j.ID], n.given(t)[j.ID]
			switch {
			case was[0] != "a:1" && len(is) != 1:
				t.Errorf("job %s of leader %s was given to %v", j.ID, was[0], is)
			case was[0] == "a:1" && len(is) != 2:
				t.Errorf("job %s of the lost leader was given to %v", j.ID, is)
			case was[0] == "a:1":
				moved[is[0]]++
				moved[is[1]]++
			}
		}
		if moved["b:1"] == 0 || moved["c:1"] == 0 {
			t.Errorf("the jobs of the lost leader went to %v, want some to each", moved)
		}
	})
}

func TestG75JobWaitsForFirstConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1", "b:1")
		slow := make(chan struct{})
		m, err := New(Config{
			ClientID: "clientA", Policy: Rendezvous, Desired: 100, Leaders: []string{"a:1", "b:1"}, Log: slog.New(slog.DiscardHandler),
			Dial: func(ctx context.Context, address string) (net.Conn, error) {
				if address == "a:1" {
					select {
					case <-slow:
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}
				return n.dial(ctx, address)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		n.run(t, m)
		for range 40 {
			submit(t, m)
		}
		atB := len(n.leaders["b:1"].ids(t, wire.SubmitJob))
		if atB == 0 || atB == 40 {
			t.Errorf("leader b has got %d jobs, want its own", atB)
		}
		close(slow)
		after(0)
		if got := len(n.leaders["a:1"].ids(t, wire.SubmitJob)); got != 40-atB {
			t.Errorf("leader a has got %d jobs, want %d", got, 40-atB)
		}
	})
}

func TestG75FailedDialReleasesWaitingJobs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1", "b:1")
		n.leaders["a:1"].down = true
		m := n.start(t, Config{Policy: Rendezvous, Desired: 100})
		for range 40 {
			submit(t, m)
		}
		if got := len(n.leaders["b:1"].ids(t, wire.SubmitJob)); got != 40 {
			t.Errorf("leader b has got %d jobs, want all", got)
		}
	})
}

func TestG75BusyLeaderSpillsToSecondChoice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1", "b:1", "c:1")
		n.leaders["b:1"].reply, n.leaders["c:1"].reply = runAll, runAll // they never have any in flight
		m := n.start(t, Config{Policy: Rendezvous, Desired: 1000})
		for range 300 {
			submit(t, m)
		}
		if got := len(n.leaders["a:1"].ids(t, wire.SubmitJob)); got != spillFrom+1 {
			t.Errorf("a leader that ends none has got %d jobs, want %d", got, spillFrom+1)
		}
	})
}

func TestG75AcknowledgeAfterErrLater(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1", "b:1")
		n.leaders["a:1"].reply, n.leaders["b:1"].reply = runAll, runAll
		var told []wire.GUID
		m := n.start(t, Config{OnResult: func(r Result) error {
			told = append(told, r.JobID)
			return ErrLater
		}})
		acks := func(address string, want ...wire.GUID) {
			t.Helper()
			after(0)
			if got := n.leaders[address].ids(t, wire.ResultAck); !slices.Equal(got, want) {
				t.Errorf("acknowledged to %s are %v, want %v", address, got, want)
			}
		}
		j, foreign := submit(t, m), wire.NewGUID()
		n.leaders["b:1"].send(t, resultOf(j.ID, "b:1")) // it has run the job as well
		n.leaders["b:1"].send(t, resultOf(foreign, "b:1"))
		after(time.Minute)
		select {
		case <-j.Done():
			t.Error("the job has ended before its result was taken for good")
		default:
		}
		acks("a:1")
		acks("b:1")
		n.leaders["a:1"].drop() // it does not change who is acknowledged to
		after(time.Minute)
		if want := []wire.GUID{j.ID, foreign}; !slices.Equal(told, want) {
			t.Errorf("told were %v, want %v", told, want)
		}
		m.Acknowledge(j.ID)
		acks("a:1", j.ID)
		acks("b:1", j.ID)
		if got := result(t, j); got != "a:1" {
			t.Errorf("result is from %q", got)
		}
		m.Acknowledge(foreign)
		acks("b:1", j.ID, foreign)
		n.leaders["b:1"].send(t, resultOf(foreign, "b:1"))
		acks("b:1", j.ID, foreign, foreign)
		if len(told) != 2 {
			t.Errorf("a result that was taken was told again: %v", told)
		}
	})
}

func TestG75ConflictIsReported(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newNet(t, "a:1").start(t, Config{})
		j := submit(t, m)
		if _, err := m.SubmitPayload(t.Context(), j.ID, "calcA", []byte("{}")); !errors.Is(err, ErrConflict) {
			t.Errorf("another request with the same id is answered with %v", err)
		}
	})
}

func TestG75FullWindowWithEndedContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newNet(t, "a:1").start(t, Config{Window: 1})
		full := errors.New("full")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(full)
		if _, err := m.SubmitPayload(ctx, wire.NewGUID(), "calcA", []byte("{}")); err != nil {
			t.Errorf("while there is room a job is refused: %v", err)
		}
		if _, err := m.SubmitPayload(ctx, wire.NewGUID(), "calcA", []byte("{}")); !errors.Is(err, full) {
			t.Errorf("a job beyond the window is answered with %v", err)
		}
	})
}
