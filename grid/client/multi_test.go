package client

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/wire"
)

func TestG10HelloHasClientAndCap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1")
		n.start(t, Config{Desired: 8, Token: "secret"})
		hello := n.leaders["a:1"].frames()[0]
		if hello.Type != wire.HelloClient || !hello.MsgID.IsZero() || !hello.CorrID.IsZero() || hello.Subject != "clientA" {
			t.Errorf("hello is %+v", hello)
		}
		var config map[string]any
		if err := json.Unmarshal(hello.Payload, &config); err != nil {
			t.Fatal(err)
		}
		if config["ClientId"] != "clientA" || config["DesiredParallelism"] != 8.0 || config["Token"] != "secret" || config["Features"] == nil {
			t.Errorf("payload is %s", hello.Payload)
		}
	})
}

func TestG55TotalIsSplitEvenly(t *testing.T) {
	for _, tt := range []struct {
		total, leaders int
		want           []int
	}{
		{12, 3, []int{4, 4, 4}}, {4, 3, []int{2, 1, 1}}, {5, 3, []int{2, 2, 1}}, {2, 3, []int{1, 1, 1}}, {1, 1, []int{1}},
	} {
		if got := shares(tt.total, tt.leaders); !slices.Equal(got, tt.want) {
			t.Errorf("%d for %d leaders is %v, want %v", tt.total, tt.leaders, got, tt.want)
		}
	}
}

func TestG55ClientKeepsTotalBelowLeaders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1", "b:1", "c:1")
		for _, l := range n.leaders {
			l.features = nil // they send nothing but results
		}
		m := n.start(t, Config{Desired: 2})
		after(2 * welcomeWait)
		var all []*Job
		for range 5 {
			all = append(all, submit(t, m))
		}
		for done := range all {
			sent := 0
			for _, l := range n.leaders {
				sent += len(l.ids(t, wire.SubmitJob))
			}
			if want := min(done+2, len(all)); sent != want {
				t.Fatalf("%d jobs were sent when %d have ended, want %d", sent, done, want)
			}
			for _, l := range n.leaders {
				if slices.Contains(l.ids(t, wire.SubmitJob), all[done].ID) {
					l.send(t, resultOf(all[done].ID, l.address))
				}
			}
			result(t, all[done])
			after(0)
		}
	})
}

func TestG54JobsAreSpreadOverAllLeaders(t *testing.T) {
	for name, policy := range map[string]Policy{"in turn": RoundRobin, "by jobs in flight": LeastInFlight} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := newNet(t, "a:1", "b:1", "c:1")
				n.leaders["b:1"].reply = runAll // it never has any in flight
				m := n.start(t, Config{Policy: policy})
				for range 12 {
					submit(t, m)
				}
				want := map[string]int{"a:1": 4, "b:1": 4, "c:1": 4}
				if policy == LeastInFlight {
					want = map[string]int{"a:1": 1, "b:1": 10, "c:1": 1}
				}
				for a, l := range n.leaders {
					if got := len(l.ids(t, wire.SubmitJob)); got != want[a] {
						t.Errorf("leader %s has got %d jobs, want %d", a, got, want[a])
					}
				}
			})
		})
	}
}

func TestG54ClientStartsWithoutLeaders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1", "b:1")
		n.leaders["a:1"].down, n.leaders["b:1"].down = true, true
		n.leaders["b:1"].reply = runAll
		m := n.start(t, Config{})
		jobs := []*Job{submit(t, m), submit(t, m)}
		after(time.Minute)
		n.leaders["b:1"].back()
		for _, j := range jobs {
			if got := result(t, j); got != "b:1" {
				t.Errorf("result is from %q", got)
			}
		}
		if got := n.leaders["b:1"].ids(t, wire.SubmitJob); !slices.Equal(got, []wire.GUID{jobs[0].ID, jobs[1].ID}) {
			t.Errorf("jobs came as %v, want them in order", got)
		}
	})
}

func TestG54JobsMoveAfterGrace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1", "b:1")
		n.leaders["b:1"].down = true
		m := n.start(t, Config{})
		j := submit(t, m)
		n.leaders["b:1"].back()
		after(time.Minute)
		n.leaders["a:1"].crash()
		lost := time.Now()
		after(DefaultGrace - time.Nanosecond)
		if got := n.leaders["b:1"].ids(t, wire.SubmitJob); len(got) != 0 {
			t.Fatalf("the job was sent to another leader before the grace was over")
		}
		after(watchEvery)
		if got := n.leaders["b:1"].ids(t, wire.SubmitJob); !slices.Equal(got, []wire.GUID{j.ID}) {
			t.Fatalf("%s after the loss the other leader has %v, want %s", time.Since(lost), got, j.ID)
		}
		n.leaders["b:1"].send(t, resultOf(j.ID, "b:1"))
		if got := result(t, j); got != "b:1" {
			t.Errorf("result is from %q", got)
		}
	})
}

func TestG54ReconnectWithinGraceKeepsJobs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1", "b:1")
		m := n.start(t, Config{})
		want := map[string][]wire.GUID{}
		for range 10 {
			for _, address := range []string{"a:1", "b:1"} { // in turn
				want[address] = append(want[address], submit(t, m).ID)
			}
		}
		n.leaders["a:1"].drop()
		after(time.Hour)
		if got := n.leaders["a:1"].ids(t, wire.SubmitJob); !slices.Equal(got, slices.Repeat(want["a:1"], 2)) {
			t.Errorf("the leader that was lost has got %v, want its jobs twice, in order", got)
		}
		if got := n.leaders["b:1"].ids(t, wire.SubmitJob); !slices.Equal(got, want["b:1"]) {
			t.Errorf("the other leader has got %v, want its own jobs", got)
		}
	})
}

func TestG54ReconnectBackoff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1")
		l := n.leaders["a:1"]
		n.start(t, Config{})
		waits := func(stays time.Duration, count int) (all []time.Duration) {
			for range count {
				after(stays)
				dropped, hellos := time.Now(), len(l.ids(t, wire.HelloClient))
				l.drop()
				for len(l.ids(t, wire.HelloClient)) == hellos {
					after(time.Millisecond)
				}
				all = append(all, time.Since(dropped))
			}
			return all
		}
		check := func(got []time.Duration, want ...float64) {
			t.Helper()
			for i, planned := range want {
				if s := got[i].Seconds(); s < planned*0.8 || s > planned*1.2+0.002 {
					t.Errorf("waits are %v; number %d should be %gs give or take a fifth", got, i, planned)
				}
			}
		}
		check(waits(time.Second, 9), 0.5, 1, 2, 4, 8, 16, 30, 30, 30)
		check(waits(stableAfter, 2), 0.5, 0.5)
		check(waits(time.Second, 3), 1, 2, 4)
	})
}

func TestG54GraceBeginsWithLastReadyConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1", "b:1")
		n.leaders["b:1"].down = true
		m := n.start(t, Config{})
		submit(t, m)
		n.leaders["b:1"].back()
		n.leaders["b:1"].plays(runAll)
		after(time.Minute)
		n.mu.Lock()
		n.leaders["a:1"].features = nil
		n.mu.Unlock()
		n.leaders["a:1"].plays(func(_ *fakeLeader, c *link.Conn, _ wire.Frame) { go c.Abort(errors.New("drop")) }) // at the hello
		n.leaders["a:1"].drop()
		after(DefaultGrace + watchEvery)
		if got := n.leaders["b:1"].ids(t, wire.SubmitJob); len(got) != 1 {
			t.Errorf("the other leader has got %v", got)
		}
	})
}

func TestG54JobsLeaveFlappingLeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1", "b:1")
		n.leaders["b:1"].down = true
		m := n.start(t, Config{})
		j := submit(t, m)
		n.leaders["b:1"].back()
		n.leaders["b:1"].plays(runAll)
		after(time.Minute)
		n.leaders["a:1"].plays(func(_ *fakeLeader, c *link.Conn, f wire.Frame) {
			if f.Type == wire.SubmitJob {
				go c.Abort(errors.New("drop"))
			}
		})
		n.leaders["a:1"].drop()
		if got := result(t, j); got != "b:1" {
			t.Errorf("result is from %q", got)
		}
	})
}

func TestG54UnsentJobMovesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1", "b:1")
		m := n.start(t, Config{})
		j := &Job{ID: wire.NewGUID(), m: m, subject: wire.SubmitSubject("calcA"), payload: []byte("{}")}
		m.mu.Lock() // so that the reader cannot tell that the connection has ended
		m.leaders[0].conn.Abort(errors.New("cut"))
		m.jobs[j.ID] = j
		m.window.take(0)
		m.pending.add(j)
		m.send()
		m.mu.Unlock()
		after(0)
		if got := n.leaders["b:1"].ids(t, wire.SubmitJob); !slices.Equal(got, []wire.GUID{j.ID}) {
			t.Errorf("the other leader has got %v, want %s", got, j.ID)
		}
	})
}
