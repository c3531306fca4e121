package relay

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The relay is killed after each of its writes, and another one goes on from there.
func TestR26R55R62CrashAfterEachWrite(t *testing.T) {
	hook, orchestrator := newParty(t, answers(500)), newParty(t, answers(503))
	r := calls(t, hook).to(orchestrator.URL).open().soon()
	dir, writes := t.TempDir(), 0
	deliver := r.tasks.events
	r.tasks.events = func(e *entry, t *Task) {
		r.copyTo(dir + "/" + strconv.Itoa(writes))
		writes++
		deliver(e, t)
	}
	id := r.queued(hook.URL)
	r.made(r.claim(id), oneFile)
	r.deliver().untilTold(id)
	r.stop()
	all := []string{"queued 1", "running 2", "uploading 3", "succeeded 4"}
	if writes < 8 { // three states, four events told, and one that was tried again
		t.Errorf("%d writes", writes)
	}
	for i := range writes {
		next := r.at(dir + "/" + strconv.Itoa(i))
		uploads, events := len(orchestrator.all()), len(hook.all())
		next.open().soon()
		found := next.task(id)
		if found.State == Queued { // it was running
			if found.Crashes != 1 || found.Sequence != 3 {
				t.Errorf("write %d: %s", i, jsonOf(t, found))
			}
			continue
		}
		next.deliver().untilTold(id)
		next.stop()
		if ended := next.onDisk(id); ended.State != Succeeded || ended.Attempt != 1 {
			t.Errorf("write %d: %s", i, jsonOf(t, ended))
		}
		if n := len(orchestrator.all()) - uploads; (n == 1) != (found.State == Uploading) || n > 1 {
			t.Errorf("write %d: found %s, and uploaded %d times", i, found.State, n)
		}
		got := told(t, hook.all()[events:])
		var want []string
		switch {
		case len(found.Events) > 0:
			want = all[found.Events[0].Sequence-1:]
		case found.State == Uploading:
			want = all[3:]
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("write %d: %s", i, d)
		}
	}
}
