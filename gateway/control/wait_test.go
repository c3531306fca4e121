package control

import (
	"testing"
)

func newWaiters(most int) *waiters {
	ws := &waiters{}
	ws.init(most, most)
	return ws
}

func (me *waiter) woken() bool {
	select {
	case <-me.turn:
		return true
	default:
		return false
	}
}

func TestZ48TurnsComeInOrderAndOneForEachJob(t *testing.T) {
	ws := newWaiters(10)
	var all []*waiter
	for range 4 {
		me, ok := ws.join(ws.seen(), "w")
		if !ok {
			t.Fatal("turned away")
		}
		all = append(all, me)
	}
	ws.wake(2)
	for i, want := range []bool{true, true, false, false} {
		if got := all[i].woken(); got != want {
			t.Errorf("waiter %d was woken: %t, want %t", i, got, want)
		}
	}
	if ws.len() != 2 {
		t.Errorf("%d still wait, want 2", ws.len())
	}
}

func TestZ48TurnOfOneThatLeavesIsPassedOn(t *testing.T) {
	ws := newWaiters(10)
	first, _ := ws.join(ws.seen(), "w")
	second, _ := ws.join(ws.seen(), "w")
	third, _ := ws.join(ws.seen(), "w")
	ws.leave(second) // without a turn there is nothing to pass on
	if first.woken() || third.woken() {
		t.Error("a turn came out of nothing")
	}
	ws.wake(1)
	ws.leave(first) // at the moment in which its turn came
	if !third.woken() {
		t.Error("the turn was lost")
	}
}

func TestZ48JobThatComesBeforeTheWaitBeginsIsNotMissed(t *testing.T) {
	ws := newWaiters(10)
	seen := ws.seen()
	ws.wake(1)
	if me, ok := ws.join(seen, "w"); !ok || !me.woken() {
		t.Error("the job was missed")
	}
	if me, ok := ws.join(ws.seen(), "w"); !ok || me.woken() {
		t.Error("an old job wakes again")
	}
}

func TestZ48LineHasABound(t *testing.T) {
	ws := newWaiters(1)
	first, _ := ws.join(ws.seen(), "w")
	if _, ok := ws.join(ws.seen(), "w"); ok {
		t.Error("the line holds more than it may")
	}
	ws.leave(first)
	if _, ok := ws.join(ws.seen(), "w"); !ok {
		t.Error("the place was not given back")
	}
}
