package monitor

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// How old what is shown may be, if somebody asks.
const (
	ageBusy  = time.Second      // the counts of a scope in which something changes, or that cannot tell
	ageIdle  = 5 * time.Second  // the counts of a scope that would have told of a change
	ageOther = 2 * time.Second  // its workers, pauses and kinds, if something changes
	ageQuiet = 10 * time.Second // the same, if nothing does
	ageDeep  = 5 * time.Second  // its error groups and times, which are made again only if something has changed
)

// scope is a scope of the server as the monitor sees it.
type scope struct {
	jobapi.Scope
	monitor *Monitor
	numbers *numbers
	seen    *seen // used by its feed only

	mu       sync.Mutex
	done     chan struct{} // closed when the look that runs is over; nil while none runs
	begun    time.Time     // of that look
	last     *look         // the last one; nil before the first. It does not change.
	looked   time.Time     // when it was over
	fed      bool          // its feed would tell of a change
	changed  bool          // something has changed since the last look began
	deepened bool          // nothing has changed since its errors and times were read
	deep     time.Time     // when they were
	forced   bool          // the last look is from before a change through this server
	samples  []sample      // oldest first
	well     bool          // the last look was good
}

// look is what was read of a scope.
type look struct {
	at      time.Time // when it was begun
	err     error
	counts  *jobapi.Counts // nil if it cannot count
	other   time.Time      // when what follows was read
	workers []jobapi.Worker
	hasWork bool // its workers are known
	paused  []jobapi.Paused
	kinds   []jobapi.Kind
}

// touched tells that a job has changed.
func (s *scope) touched() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed, s.deepened = true, false
}

// stale tells that something was changed through this server.
func (s *scope) stale() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed, s.forced, s.deepened = true, true, false
}

// following tells whether changes are read.
func (s *scope) following(does bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, feeds := s.Jobs.(jobapi.Feed)
	s.fed = does && feeds
}

// refresh begins a look if the last one is too old, and returns a channel that is closed when the one that runs is over,
// and when that was begun, or asked if that is earlier. The channel is nil if the last look is good enough for what was asked.
func (s *scope) refresh(ctx context.Context, asked time.Time) (done <-chan struct{}, begun time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.done != nil {
		return s.done, earlier(s.begun, asked)
	}
	if s.last != nil && !s.forced {
		if !s.looked.Before(asked) { // it is as new as it can be
			return nil, now
		}
		age := ageBusy
		if s.fed && !s.changed && s.last.err == nil {
			age = ageIdle
		}
		if now.Sub(s.last.at) < age {
			return nil, now
		}
	}
	over := make(chan struct{})
	s.done, s.begun = over, now
	forced, changed := s.forced || s.last == nil, s.changed || !s.fed
	s.forced, s.changed = false, false
	ctx = context.WithoutCancel(ctx) // others wait for it, too
	go s.look(ctx, over, now, s.last, forced, changed)
	return over, earlier(now, asked)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// look reads the scope, and closes over.
func (s *scope) look(ctx context.Context, over chan struct{}, now time.Time, before *look, forced, changed bool) {
	l := &look{at: now}
	l.err = s.safely(ctx, func() error { return s.read(ctx, l, before, forced, changed) })
	first := before == nil || before.err != nil
	if first && l.err == nil {
		s.deeper(ctx, l) // otherwise the first who asks would see no errors
	}
	s.mu.Lock()
	well := s.well
	s.last, s.looked, s.done, s.well = l, time.Now(), nil, l.err == nil
	s.mu.Unlock()
	close(over)
	if l.err != nil && (well || before == nil) {
		s.monitor.server.Log.WarnContext(ctx, "cannot look at the jobs of a scope", "scope", s.Name, "err", l.err)
	}
	if !first && l.err == nil {
		s.deeper(ctx, l)
	}
}

// read fills in a look.
func (s *scope) read(ctx context.Context, l, before *look, forced, changed bool) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var all sync.WaitGroup
	errs := make([]error, 4)
	call := func(i int, f func(context.Context) error) {
		all.Go(func() { errs[i] = s.safely(ctx, func() error { return f(ctx) }) })
	}
	if c, ok := s.Jobs.(jobapi.Counter); ok {
		call(0, func(ctx context.Context) error {
			counts, err := c.Count(ctx)
			l.counts = &counts
			return err
		})
	}
	age := ageQuiet
	if changed {
		age = ageOther
	}
	if !forced && before != nil && before.err == nil && l.at.Sub(before.other) < age {
		l.other, l.workers, l.hasWork, l.paused, l.kinds = before.other, before.workers, before.hasWork, before.paused, before.kinds
		all.Wait()
		return errs[0]
	}
	l.other = l.at
	if w, ok := s.Jobs.(jobapi.Workforce); ok {
		call(1, func(ctx context.Context) (err error) {
			l.workers, err = w.Workers(ctx)
			l.hasWork = err == nil
			return err
		})
	}
	if p, ok := s.Jobs.(jobapi.Pauser); ok {
		call(2, func(ctx context.Context) (err error) {
			l.paused, err = p.Paused(ctx)
			return err
		})
	}
	if k, ok := s.Jobs.(jobapi.Catalog); ok {
		call(3, func(ctx context.Context) (err error) {
			l.kinds, err = k.Kinds(ctx)
			return err
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// deeper reads the newest jobs that have failed and succeeded, unless that was just done or nothing has changed since.
func (s *scope) deeper(ctx context.Context, l *look) {
	s.mu.Lock()
	due := !s.deepened && time.Since(s.deep) >= ageDeep
	if due {
		s.deep, s.deepened = time.Now(), s.fed // a scope that cannot tell is read each time
	}
	s.mu.Unlock()
	if !due || !s.numbers.outdated(l.counts) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := s.safely(ctx, func() error { return s.numbers.read(ctx, s) })
	if err != nil {
		s.mu.Lock()
		s.deepened = false
		s.mu.Unlock()
		s.numbers.again()
		s.monitor.server.Log.WarnContext(ctx, "cannot read the newest jobs that have ended", "scope", s.Name, "err", err)
	}
}

// now returns the last look, and false while there is none that can be shown: the store has not answered.
func (s *scope) now(done <-chan struct{}) (*look, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil || s.last.err != nil {
		return s.last, false
	}
	if done != nil {
		select {
		case <-done:
		default:
			return s.last, false // it was waited for long enough
		}
	}
	return s.last, true
}

// whyNot says for people why a scope cannot be shown. What an error tells of the inside of the server is in the log.
func whyNot(l *look) string {
	if l != nil && l.err != nil && !errors.Is(l.err, jobs.ErrUnavailable) && !errors.Is(l.err, context.DeadlineExceeded) {
		return "it cannot be read: the log of this server says why"
	}
	return "the place where its jobs are kept does not answer"
}
