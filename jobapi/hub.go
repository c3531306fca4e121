package jobapi

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// pace is the least time between two rounds, and so between two states of a job
// that its listeners are sent.
const pace = 100 * time.Millisecond

// hub polls the jobs of a scope that have listeners, one round after the other. Its
// cost does not grow with the number of listeners of one job.
type hub struct {
	scope  Scope
	server *Server
	wake   chan struct{} // holds one while a round is wanted; see again

	mu      sync.Mutex
	watched map[string]*topic
	rounds  uint64        // that have begun
	done    chan struct{} // closed and replaced when a round is over
}

// topic is a job with listeners.
type topic struct {
	id  string
	now atomic.Pointer[snapshot] // nil before the first round
	log *window                  // nil while the log has no listeners; only the round uses it

	// Guarded by the hub's mu.
	listeners, readers int        // readers are listeners that follow the log, too
	asOf               [2]outcome // of the last rounds that read the job, and with its log
}

// outcome is how a round went.
type outcome struct {
	round uint64
	err   error
}

func newHub(sc Scope, s *Server) *hub {
	return &hub{scope: sc, server: s, wake: make(chan struct{}, 1), watched: map[string]*topic{}, done: make(chan struct{})}
}

// run does rounds while jobs have listeners, until ctx ends.
func (h *hub) run(ctx context.Context) {
	notifier, notifies := h.scope.Jobs.(Notifier)
	poll := cmp.Or(h.server.Poll, 250*time.Millisecond)
	well := true
	for {
		h.mu.Lock()
		idle := len(h.watched) == 0
		h.mu.Unlock()
		if idle {
			select {
			case <-ctx.Done():
				return
			case <-h.wake:
			}
		}
		var changed <-chan struct{}
		if notifies {
			changed = notifier.Changed() // before the round, so that no change during it is missed
		}
		began := time.Now()
		err := h.round(ctx)
		if err != nil && well && ctx.Err() == nil {
			h.server.Log.WarnContext(ctx, "cannot look at jobs that are followed", "scope", h.scope.Name, "err", err)
		}
		well = err == nil
		if jobs.Sleep(ctx, pace-time.Since(began)) != nil {
			return
		}
		var tick <-chan time.Time
		if !notifies || !well {
			tick = time.After(poll - pace)
		}
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
		case <-changed:
		case <-tick:
		}
	}
}

// again wakes run for another round.
func (h *hub) again() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// polled is one topic in a round.
type polled struct {
	*topic
	log         bool
	err, logErr error // of the job; of its log alone
}

// round reads all jobs that have listeners, once.
func (h *hub) round(ctx context.Context) error {
	h.mu.Lock()
	h.rounds++
	round := h.rounds
	all := make([]polled, 0, len(h.watched))
	for _, t := range h.watched {
		all = append(all, polled{topic: t, log: t.readers > 0})
	}
	h.mu.Unlock()

	var failed error
	for chunk := range slices.Chunk(all, MaxGet) {
		if isUnavailable(failed) {
			fail(chunk, failed)
			continue
		}
		failed = cmp.Or(h.read(ctx, chunk), failed)
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range all {
		a.asOf[0] = outcome{round, a.err}
		if a.log {
			a.asOf[1] = outcome{round, cmp.Or(a.err, a.logErr)}
		}
	}
	close(h.done)
	h.done = make(chan struct{})
	return failed
}

// read gets the jobs of at most MaxGet topics and publishes what is new. It returns
// the first error. An error of one log concerns only its topic.
func (h *hub) read(ctx context.Context, chunk []polled) (err error) {
	defer func() {
		if v := recover(); v != nil {
			h.server.Log.ErrorContext(ctx, "panic", "scope", h.scope.Name, "err", fmt.Sprint(v), "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", v)
			fail(chunk, err)
		}
	}()
	found, err := h.get(ctx, chunk)
	if err != nil {
		fail(chunk, err)
		return err
	}
	var away error // if the logs are unavailable: the same for every job
	for i := range chunk {
		a := &chunk[i]
		m := &snapshot{job: found[a.id], next: make(chan struct{})}
		if !a.log {
			a.topic.log = nil
		} else if a.logErr = away; away == nil && m.job != nil {
			var all bool
			all, a.logErr = h.readLog(ctx, a.topic)
			if !all && a.logErr == nil {
				h.again() // the rest must be read even if nothing changes
			}
			m.whole = all && m.job.Status.Terminal()
			if isUnavailable(a.logErr) {
				away = a.logErr
			}
		}
		if w := a.topic.log; w != nil {
			m.lines, m.first = w.lines, w.first
		}
		a.err = a.publish(m)
		err = cmp.Or(err, a.err, a.logErr)
	}
	return err
}

func fail(chunk []polled, err error) {
	for i := range chunk {
		chunk[i].err = err
	}
}

func (h *hub) get(ctx context.Context, chunk []polled) (map[string]*Job, error) {
	ids := make([]string, len(chunk))
	for i, a := range chunk {
		ids[i] = a.id
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := h.scope.Jobs.Get(ctx, ids)
	if err != nil {
		return nil, err
	}
	found := make(map[string]*Job, len(list))
	for i := range list {
		found[list[i].ID] = &list[i]
	}
	return found, nil
}

// readLog adds the new lines to a topic's window, and reports whether those were all.
func (h *hub) readLog(ctx context.Context, t *topic) (all bool, err error) {
	w, fresh := t.log, t.log == nil
	if fresh {
		w = &window{}
	}
	var added []logLine
	defer func() {
		if len(added) > 0 {
			w.add(added)
		}
		if err == nil || len(added) > 0 {
			t.log = w
		}
	}()
	for range logPages {
		q := LogQuery{Tail: logPage, After: cmp.Or(w.pos, LogStart)}
		if fresh {
			q = LogQuery{Tail: defaultTail}
		}
		l, err := h.logOf(ctx, t.id, q)
		if err != nil {
			return false, err
		}
		lines, err := encodeLines(l.Lines)
		if err != nil {
			return false, err
		}
		added = append(added, lines...)
		if len(lines) > 0 {
			w.pos = lines[len(lines)-1].pos
		}
		if fresh || len(lines) < q.Tail {
			return true, nil
		}
	}
	return false, nil
}

func (h *hub) logOf(ctx context.Context, id string, q LogQuery) (Log, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return h.scope.Jobs.Log(ctx, id, q)
}

// publish makes m the newest snapshot of its topic, if anything in it is new.
func (t *topic) publish(m *snapshot) error {
	old := t.now.Load()
	switch {
	case old != nil && old.version() == m.version() && old.end() == m.end() && old.whole == m.whole:
		return nil
	case old != nil && old.version() == m.version():
		m.data = old.data
	case m.job != nil:
		data, err := m.job.MarshalJSON()
		if err != nil {
			return fmt.Errorf("encode job %s: %w", t.id, err)
		}
		m.data = data
	}
	t.now.Store(m)
	if old != nil {
		close(old.next)
	}
	return nil
}
