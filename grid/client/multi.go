package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/wire"
)

// Multi is a client of several leaders, or one. Its methods may be called concurrently.
type Multi struct {
	cfg     Config
	limit   int // of jobs that leaders have at the same time
	window  *window
	stopped chan struct{} // closed at the end of Run

	mu       sync.Mutex
	leaders  []*leader
	jobs     map[wire.GUID]*Job // those that have not ended
	pending  pending
	inFlight int // jobs that are with a leader
	last     int // the leader that got the last job
	order    uint64
	began    time.Time // of Run
	recent   recent    // jobs that have ended
	queries  map[wire.GUID][]*query
	refused  []*Job // whose results OnResult has refused
	isOver   bool

	telling chan struct{} // full while OnResult is told
}

// New returns a client, which does nothing before [Multi.Run]. The error has all that is wrong with the settings.
func New(cfg Config) (*Multi, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("client of the grid: %w", err)
	}
	m := &Multi{
		cfg: cfg, limit: maxWindow, window: &window{maxJobs: cfg.Window, maxBytes: cfg.WindowBytes},
		stopped: make(chan struct{}), telling: make(chan struct{}, 1), jobs: map[wire.GUID]*Job{}, queries: map[wire.GUID][]*query{},
	}
	if cfg.Desired < len(cfg.Leaders) {
		// Each leader runs at least one job of a client, which would be more than desired: so no more are sent.
		m.limit = cfg.Desired
	}
	for i, share := range shares(cfg.Desired, len(cfg.Leaders)) {
		m.leaders = append(m.leaders, newLeader(m, cfg.Leaders[i], share))
	}
	m.last = len(m.leaders) - 1
	return m, nil
}

// Run connects to the leaders and serves until ctx ends, or all leaders refuse this client. It is called once. Jobs that are
// unfinished at its end go on at their leaders; here they end with [ErrStopped].
func (m *Multi) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	m.mu.Lock()
	m.began = time.Now()
	m.mu.Unlock()
	var running sync.WaitGroup
	for _, l := range m.leaders {
		running.Go(func() { l.run(ctx, stop) })
	}
	running.Go(func() { m.watch(ctx) })
	running.Wait()
	err := context.Cause(ctx)
	if !errors.Is(err, ErrRefused) {
		err = nil
	}
	m.stop(err)
	return err
}

// stop ends all jobs.
func (m *Multi) stop(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.stopped) // those that wait for room
	m.isOver = true
	for _, j := range m.jobs {
		j.end(nil, errors.Join(ErrStopped, err))
	}
}

// Submit sends a job to a leader, at once or when one is there. It waits while the window is full, unless ctx has ended. Job and
// client may have no id in the request: then they get one. A job that is unfinished already is returned again if the request is the
// same. Of files that fit into no frame the leader is given the contents before the job: they must not be changed before its end.
//
// The error tells what is wrong with the request, or is [ErrConflict], [ErrStopped] or the cause of ctx. What a leader has to say comes from
// [Job.Wait].
func (m *Multi) Submit(ctx context.Context, request wire.JobRequest) (*Job, error) {
	if request.JobID.IsZero() {
		request.JobID = wire.NewGUID()
	}
	if request.ClientID == "" {
		request.ClientID = m.cfg.ClientID
	}
	if request.ClientID != m.cfg.ClientID {
		return nil, fmt.Errorf("submit job %s: it is of client %q, and this is %s", request.JobID, request.ClientID, m.cfg.ClientID)
	}
	if err := wire.CheckRequest(&request); err != nil {
		return nil, fmt.Errorf("submit job %s: %w", request.JobID, err)
	}
	contents, err := detach(&request)
	if err != nil {
		return nil, fmt.Errorf("submit job %s: %w", request.JobID, err)
	}
	payload, err := wire.MarshalRequest(&request)
	if err != nil {
		return nil, fmt.Errorf("submit job %s: %w", request.JobID, err)
	}
	return m.submit(ctx, &Job{ID: request.JobID, payload: payload, array: request.Array != "", contents: contents}, request.ExecName)
}

// SubmitPayload is Submit for a JobRequest in JSON, with the members that are given beside it. It keeps payload.
func (m *Multi) SubmitPayload(ctx context.Context, id wire.GUID, exec string, payload []byte) (*Job, error) {
	if err := wire.CheckExecName(exec); err != nil {
		return nil, fmt.Errorf("submit job %s: %w", id, err)
	}
	return m.submit(ctx, &Job{ID: id, payload: payload}, exec)
}

// submit submits a job that has an id and a payload.
func (m *Multi) submit(ctx context.Context, j *Job, exec string) (*Job, error) {
	if most := wire.MaxSubmit(exec); len(j.payload) > most {
		return nil, fmt.Errorf("submit job %s: %w: the request has %d bytes, at most %d; give it smaller files", j.ID, wire.ErrTooLarge, len(j.payload), most)
	}
	j.m, j.subject, j.size = m, wire.SubmitSubject(exec), len(j.payload)
	for _, c := range j.contents {
		j.size += len(c.data)
	}
	if known, err := m.known(j); known != nil || err != nil {
		return known, err
	}
	if err := m.window.acquire(ctx, j.size, m.stopped); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isOver {
		m.window.release(j.size)
		return nil, ErrStopped
	}
	if known, err := m.sameAs(j); known != nil || err != nil { // it has come while this one waited
		m.window.release(j.size)
		return known, err
	}
	m.recent.remove(j.ID) // its result is wanted once more
	m.order++
	j.order = m.order
	m.jobs[j.ID] = j
	m.pending.add(j)
	m.send()
	return j, nil
}

// known returns the unfinished job with the id of j, or nil.
func (m *Multi) known(j *Job) (*Job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sameAs(j)
}

// sameAs is known with m.mu held.
func (m *Multi) sameAs(j *Job) (*Job, error) {
	known := m.jobs[j.ID]
	if known != nil && (known.subject != j.subject || string(known.payload) != string(j.payload)) {
		return nil, fmt.Errorf("submit job %s: %w", j.ID, ErrConflict)
	}
	return known, nil
}

// ahead is how many bytes are given to a connection before they are written. More would have to be written within
// [link.WriteTimeout], and could not be given to another leader.
const ahead = 1 << 20

// send gives jobs to leaders, while there are some of both. m.mu is held.
func (m *Multi) send() {
	for _, l := range m.leaders {
		l.sendAgain()
	}
	next := m.next
	if m.cfg.Policy == Rendezvous {
		next = m.nextAtHome
	}
	for m.inFlight < m.limit {
		j, l := next()
		if j == nil {
			return
		}
		j.stopWaiting()
		j.at = l
		l.inFlight++
		m.inFlight++
		if err := l.give(j); err != nil && !errors.Is(err, link.ErrSlow) {
			// The connection has ended before the job was given to it, and its reader will find out.
			l.ready = false
			j.leave()
			m.pending.add(j)
		}
	}
}

// next returns the job that is to be given to a leader now, and the leader; nil if there is none. m.mu is held.
func (m *Multi) next() (*Job, *leader) {
	for len(m.pending) > 0 {
		j := m.pending[0]
		if l := m.pick(j); l != nil {
			return j, l
		}
		err := m.cannotTake(j)
		if err == nil {
			return nil, nil
		}
		j.end(nil, err)
	}
	return nil, nil
}

// pick returns the leader that gets a job, the next one, or nil. m.mu is held.
func (m *Multi) pick(j *Job) *leader {
	best := -1
	for i := range m.leaders {
		n := (m.last + 1 + i) % len(m.leaders)
		l := m.leaders[n]
		if !l.takes() || len(j.contents) > 0 && !l.features[wire.FeatureBlob] {
			continue
		}
		if best < 0 || l.inFlight < m.leaders[best].inFlight {
			best = n
		}
		if m.cfg.Policy == RoundRobin {
			break
		}
	}
	if best < 0 {
		return nil
	}
	m.last = best
	return m.leaders[best]
}

// watch does what is due, until ctx ends.
func (m *Multi) watch(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		m.move()
		m.tellAgain()
	}
}

// watchEvery is how exactly grace and pauses are kept.
const watchEvery = time.Second / 2

// move takes jobs from leaders that are lost for longer than the grace.
func (m *Multi) move() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.leaders {
		if l.conn != nil || l.inFlight == 0 || time.Since(l.lost) < m.cfg.Grace {
			continue
		}
		for _, j := range m.jobs {
			if j.at == l {
				j.move()
			}
		}
	}
	m.send()
}

// move takes a job from a leader that is lost. m.mu is held.
func (j *Job) move() {
	l := j.at
	j.leave()
	if !slices.Contains(j.was, l) {
		j.was = append(j.was, l)
	}
	if j.canceled {
		j.end(nil, ErrCanceled)
		return
	}
	j.m.pending.add(j)
}
