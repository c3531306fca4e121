package relay

import (
	"log/slog"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// After so many failures in a row the tasks of a kind wait for a while: something is wrong with the machine, or with the
// program, and each further task would be lost to it. The while doubles until one succeeds.
const (
	failuresInRow = 5
	firstPause    = time.Minute
	longestPause  = 30 * time.Minute
)

// pauses are the kinds whose tasks have failed several times in a row.
type pauses struct {
	log  *slog.Logger
	over func() // a pause has ended

	mu    sync.Mutex
	kinds map[jobs.Kind]*pause
}

type pause struct {
	failures int
	until    time.Time
	length   time.Duration // of the last pause
	timer    *time.Timer
}

func newPauses(log *slog.Logger) *pauses {
	return &pauses{log: log, kinds: map[jobs.Kind]*pause{}}
}

// blames reports whether a failure may be the fault of the machine or the program, and not of the request.
func blames(o jobs.Outcome) bool {
	switch codeOf(o, false) {
	case codeExecFailed, codeNoArtifacts, codeGPUOOM, "OUT_OF_MEMORY":
		return o.State == jobs.Failed
	}
	return false
}

// ended counts an attempt.
func (p *pauses) ended(kind jobs.Kind, o jobs.Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.State == jobs.Succeeded {
		if k := p.kinds[kind]; k != nil && k.timer != nil {
			k.timer.Reset(0) // the others need not wait any longer
		}
		delete(p.kinds, kind)
		return
	}
	if !blames(o) {
		return
	}
	k := p.kinds[kind]
	if k == nil {
		k = &pause{}
		p.kinds[kind] = k
	}
	if k.failures++; k.failures < failuresInRow || time.Now().Before(k.until) {
		return
	}
	k.length = min(max(firstPause, 2*k.length), longestPause)
	k.until = time.Now().Add(k.length)
	k.timer = time.AfterFunc(k.length, p.over)
	p.log.Error("tasks of a kind have failed one after the other: it waits", "kind", kind, "failures", k.failures, "pause", k.length, "do", "look at the log of the last task")
}

// paused reports whether the tasks of a kind are to wait.
func (p *pauses) paused(kind jobs.Kind) bool { return p.until(kind).After(time.Now()) }

// until returns when the pause of a kind ends; zero if it has none.
func (p *pauses) until(kind jobs.Kind) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.kinds[kind]; k != nil {
		return k.until
	}
	return time.Time{}
}

// stop ends the timers.
func (p *pauses) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.kinds {
		if k.timer != nil {
			k.timer.Stop()
		}
	}
}
