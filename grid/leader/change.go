package leader

import (
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// moved counts a job that goes from one state to another. What the journal tells has come and ended before.
func (l *Leader) moved(exec string, from, to jobs.State) {
	var at time.Time
	if l.live {
		at = time.Now()
	}
	l.tally.Move(at, exec, from, to)
}

// tell tells those who follow the jobs of a leader which have changed. other is how much else has happened.
func (l *Leader) tell(changed []wire.GUID, other int) {
	switch {
	case len(changed) > 0 && l.changes.Wanted():
		ids := make([]string, len(changed))
		for i, id := range changed {
			ids[i] = id.String()
		}
		l.changes.Add(ids...)
	case len(changed)+other > 0:
		l.changes.Wake()
	}
}
