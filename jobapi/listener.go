package jobapi

import (
	"context"

	"github.com/batchfleet/batchfleet/httpd"
)

// listener is one request that follows a job.
type listener struct {
	hub   *hub
	topic *topic
	logs  bool
	round uint64 // the last that had begun when it was made
	free  func() // gives its place back
}

// listen begins to follow a job, and with logs its log. The error is a [Refusal] when
// there are too many listeners.
func (h *hub) listen(id string, logs bool) (*listener, error) {
	free, err := h.server.Listen(h.scope.Name)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.watched[id]
	if t == nil {
		t = &topic{id: id}
		h.watched[id] = t
	}
	t.listeners++
	if logs {
		t.readers++
	}
	return &listener{hub: h, topic: t, logs: logs, round: h.rounds, free: free}, nil
}

// leave ends it. It must be called once.
func (l *listener) leave() {
	h := l.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	l.topic.listeners--
	if l.logs {
		l.topic.readers--
	}
	if l.topic.listeners == 0 {
		delete(h.watched, l.topic.id)
	}
	l.free()
}

// begin returns the job as of a round that began after the listener was made. An
// earlier round may be older than what the caller has seen.
func (l *listener) begin(ctx context.Context) (*snapshot, error) {
	// The running round and the next may each take as long as their calls may.
	ctx, cancel := context.WithTimeoutCause(ctx, 3*callTimeout, errUnavailable)
	defer cancel()
	which := 0
	if l.logs {
		which = 1
	}
	l.hub.again()
	for {
		l.hub.mu.Lock()
		done, asOf := l.hub.done, l.topic.asOf[which]
		l.hub.mu.Unlock()
		if asOf.round > l.round {
			if asOf.err != nil {
				return nil, asOf.err
			}
			return l.now(), nil
		}
		select {
		case <-done:
		case <-httpd.Stopping(ctx):
			return nil, errUnavailable
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// now returns the newest snapshot.
func (l *listener) now() *snapshot { return l.topic.now.Load() }
