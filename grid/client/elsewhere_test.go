package client

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

func TestG51FirstResultCancelsJobElsewhere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1", "b:1")
		a, b := n.leaders["a:1"], n.leaders["b:1"]
		b.down = true
		told := 0
		m := n.start(t, Config{OnResult: func(Result) error { told++; return nil }})
		j := submit(t, m)
		b.back()
		a.crash()
		after(time.Minute) // the job is moved
		a.back()
		after(time.Minute) // and the first leader is back, which still runs it
		b.send(t, resultOf(j.ID, "b:1"))
		if got := result(t, j); got != "b:1" {
			t.Errorf("result is from %q", got)
		}
		after(0)
		if got := a.ids(t, wire.Cancel); !slices.Equal(got, []wire.GUID{j.ID}) {
			t.Errorf("canceled at the other leader are %v, want %s", got, j.ID)
		}
		if got := b.ids(t, wire.Cancel); len(got) != 0 {
			t.Errorf("canceled at the leader that has finished the job are %v", got)
		}
		a.send(t, resultOf(j.ID, "a:1")) // it was too late
		after(0)
		if told != 1 {
			t.Errorf("the result was told %d times", told)
		}
		if got := a.ids(t, wire.ResultAck); !slices.Equal(got, []wire.GUID{j.ID}) {
			t.Errorf("acknowledged are %v, want %s", got, j.ID)
		}
	})
}

func TestG51NoCancelBeforeResultIsTaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1", "b:1")
		a, b := n.leaders["a:1"], n.leaders["b:1"]
		b.down = true
		full := true
		m := n.start(t, Config{OnResult: func(Result) error {
			if full {
				return errors.New("disk full")
			}
			return nil
		}})
		j := submit(t, m)
		b.back()
		a.crash()
		after(time.Minute) // the job is moved
		a.back()
		after(time.Minute)
		a.send(t, resultOf(j.ID, "a:1"))
		after(time.Minute)
		if got := b.ids(t, wire.Cancel); len(got) != 0 {
			t.Errorf("%v is canceled at the other leader, and its result was not taken", got)
		}
		full = false
		result(t, j)
		after(0)
		if got := b.ids(t, wire.Cancel); !slices.Equal(got, []wire.GUID{j.ID}) {
			t.Errorf("canceled at the other leader are %v, want %s", got, j.ID)
		}
	})
}

func TestG51CancelIsSentAfterReconnect(t *testing.T) {
	for _, features := range [][]string{ours, nil} {
		t.Run(fmt.Sprintf("features: %d", len(features)), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := newNet(t, "a:1", "b:1")
				a, b := n.leaders["a:1"], n.leaders["b:1"]
				a.features, b.down = features, true
				m := n.start(t, Config{})
				j := submit(t, m)
				after(2 * welcomeWait) // one of the original protocol has the job then
				b.plays(runAll)
				b.back()
				a.crash()
				result(t, j)
				a.back()
				after(time.Minute)
				want := []wire.GUID{j.ID}
				if features == nil {
					want = nil
				}
				if got := a.ids(t, wire.Cancel); !slices.Equal(got, want) {
					t.Errorf("canceled are %v, want %v", got, want)
				}
				if got := a.ids(t, wire.SubmitJob); len(got) != 1 {
					t.Errorf("the job was sent %d times", len(got))
				}
			})
		})
	}
}

func TestG51FirstLeaderResultCountsAfterMove(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1", "b:1")
		a, b := n.leaders["a:1"], n.leaders["b:1"]
		b.down = true
		m := n.start(t, Config{})
		j := submit(t, m)
		b.back()
		a.crash()
		after(time.Minute)
		a.back()
		after(time.Minute)
		a.send(t, resultOf(j.ID, "a:1"))
		if got := result(t, j); got != "a:1" {
			t.Errorf("result is from %q", got)
		}
		after(0)
		if got := b.ids(t, wire.Cancel); !slices.Equal(got, []wire.GUID{j.ID}) {
			t.Errorf("canceled are %v, want %s", got, j.ID)
		}
	})
}
