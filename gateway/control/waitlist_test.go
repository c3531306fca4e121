package control

import (
	"testing"
)

func newWaiters(most int) *waitlist {
	ws := &waitlist{}
	ws.init(most, most)
	return ws
}

func (me *waiter) wasWoken() bool {
	select {
	case <-me.woken:
		return true
	default:
		return false
	}
}

func TestZ48TurnsComeInOrderAndOneForEachJob(t *testing.T) {
	t.Parallel()
	ws := newWaiters(10)
	var all []*waiter
	for range 4 {
		me := ws.join(ws.seen(), "w")
		if me == nil {
			t.Fatal("turned away")
		}
		all = append(all, me)
	}
	ws.wakeFirst(2)
	for i, want := range []bool{true, true, false, false} {
		if got := all[i].wasWoken(); got != want {
			t.Errorf("waiter %d was woken: %t, want %t", i, got, want)
		}
	}
	if ws.len() != 2 {
		t.Errorf("%d still wait, want 2", ws.len())
	}
}

func TestZ48TurnOfOneThatLeavesIsPassedOn(t *testing.T) {
	t.Parallel()
	ws := newWaiters(10)
	first := ws.join(ws.seen(), "w")
	second := ws.join(ws.seen(), "w")
	third := ws.join(ws.seen(), "w")
	ws.leave(second) // without a turn there is nothing to pass on
	if first.wasWoken() || third.wasWoken() {
		t.Error("a turn came out of nothing")
	}
	ws.wakeFirst(1)
	ws.leave(first) // at the moment in which its turn came
	if !third.wasWoken() {
		t.Error("the turn was lost")
	}
}

func TestZ48JobThatComesBeforeTheWaitBeginsIsNotMissed(t *testing.T) {
	t.Parallel()
	ws := newWaiters(10)
	seen := ws.seen()
	ws.wakeFirst(1)
	if me := ws.join(seen, "w"); me == nil || !me.wasWoken() {
		t.Error("the job was missed")
	}
	if me := ws.join(ws.seen(), "w"); me == nil || me.wasWoken() {
		t.Error("an old job wakes again")
	}
}

func TestZ48LineHasABound(t *testing.T) {
	t.Parallel()
	ws := newWaiters(1)
	first := ws.join(ws.seen(), "w")
	if ws.join(ws.seen(), "w") != nil {
		t.Error("the line holds more than it may")
	}
	ws.leave(first)
	if ws.join(ws.seen(), "w") == nil {
		t.Error("the place was not given back")
	}
}

func TestK05ATurnThatIsOfNoUseIsPassedToOneThatWaitsForBoth(t *testing.T) {
	t.Parallel()
	ws := newWaiters(10)
	ws.pass("k", "also") // none waits
	first, other, second := ws.join(ws.seen(), "w", "k"), ws.join(ws.seen(), "w", "x", "also"), ws.join(ws.seen(), "w", "k", "also")
	ws.pass("k", "also")
	if first.wasWoken() || other.wasWoken() || !second.wasWoken() || second.by != "k" {
		t.Error("another was woken")
	}
	ws.pass("k", "also")
	if seen := ws.seen(); seen != 0 || ws.len() != 2 || first.wasWoken() || other.wasWoken() {
		t.Errorf("%d wait, and %d turns count as missed; want 2 and none", ws.len(), seen)
	}
}
