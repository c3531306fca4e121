package memory

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// Message is one entry of a [Queue].
type Message struct {
	Job        jobs.Job
	Invalid    error // why the job cannot run: see [jobs.Lease]
	Data       []byte
	Attributes map[string]string
}

// Queue is a worker.Source in memory, first in, first out unless Compare says otherwise. A lease that runs out,
// or is handed back, makes its message available again, behind those that wait.
// Its methods may be called concurrently. The zero value is an empty queue; it
// must not be copied.
type Queue struct {
	// Set before the first lease.
	Name     string        // Raw.Queue of its leases
	LeaseTTL time.Duration // of a new lease; 0 means 600 s
	// Compare orders messages, as for slices.SortFunc: those that are less come first. Equal ones stay in the order in
	// which they came.
	Compare func(a, b *Message) int

	mu       sync.Mutex
	messages int // how many were ever added, for their ids
	leases   int // how many were ever given, for their ids
	waiting  []*item
	leased   map[string]*item // by lease id
	arrived  chan struct{}    // closed when a message becomes available; nil while no call waits
}

// item is a message on its way through the queue.
type item struct {
	Message
	id       string
	delivery int
	expiry   *time.Timer // ends the current lease
}

// Add appends messages to the queue.
func (q *Queue) Add(messages ...Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range messages {
		q.messages++
		q.append(&item{Message: m, id: "m" + strconv.Itoa(q.messages)})
	}
}

// Len returns how many messages wait for a lease, those that are delayed left out,
// and how many are leased.
func (q *Queue) Len() (waiting, leased int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting), len(q.leased)
}

// append makes a message available. q.mu is held.
func (q *Queue) append(it *item) {
	i := len(q.waiting)
	if q.Compare != nil {
		i, _ = slices.BinarySearchFunc(q.waiting, it, func(a, b *item) int { return cmp.Or(q.Compare(&a.Message, &b.Message), -1) })
	}
	q.waiting = slices.Insert(q.waiting, i, it)
	q.wake()
}

// Wake makes calls of LeaseIf look again at the messages that wait: what they want has changed.
func (q *Queue) Wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wake()
}

// wake is Wake for who holds q.mu.
func (q *Queue) wake() {
	if q.arrived != nil {
		close(q.arrived)
		q.arrived = nil
	}
}

// Lease implements worker.Source. Its only error is the cause of ctx.
func (q *Queue) Lease(ctx context.Context) (jobs.Lease, error) {
	return q.wait(ctx, func(*item) bool { return true })
}

// LeaseKinds implements worker.KindSource.
func (q *Queue) LeaseKinds(ctx context.Context, kinds []jobs.Kind) (jobs.Lease, error) {
	return q.LeaseIf(ctx, func(job *jobs.Job) bool { return slices.Contains(kinds, job.Kind) })
}

// LeaseIf is Lease for jobs that are wanted. It may also return a message that names no job.
func (q *Queue) LeaseIf(ctx context.Context, wanted func(*jobs.Job) bool) (jobs.Lease, error) {
	return q.wait(ctx, func(it *item) bool { return it.Job.ID == "" || wanted(&it.Job) })
}

// wait waits for a message that is wanted and leases it.
func (q *Queue) wait(ctx context.Context, wanted func(*item) bool) (jobs.Lease, error) {
	for {
		lease, arrived := q.take(wanted)
		if arrived == nil {
			return lease, nil
		}
		select {
		case <-ctx.Done():
			return jobs.Lease{}, context.Cause(ctx)
		case <-arrived:
		}
	}
}

// take leases the first message that is wanted. If there is none, it returns a channel
// that is closed when a message arrives.
func (q *Queue) take(wanted func(*item) bool) (jobs.Lease, <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.IndexFunc(q.waiting, wanted)
	if i < 0 {
		if q.arrived == nil {
			q.arrived = make(chan struct{})
		}
		return jobs.Lease{}, q.arrived
	}
	it := q.waiting[i]
	if i == 0 {
		q.waiting = q.waiting[1:] // the rest need not move
	} else {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	return q.lease(it), nil
}

// lease hands out a message that no longer waits. q.mu is held.
func (q *Queue) lease(it *item) jobs.Lease {
	ttl := q.LeaseTTL
	if ttl == 0 {
		ttl = 600 * time.Second
	}
	q.leases++
	it.delivery++
	id := "lease" + strconv.Itoa(q.leases)
	it.expiry = time.AfterFunc(ttl, func() { q.end(id, 0) })
	if q.leased == nil {
		q.leased = map[string]*item{}
	}
	q.leased[id] = it
	return jobs.Lease{
		ID: id, Job: it.Job, Invalid: it.Invalid, Until: time.Now().Add(ttl), Delivery: it.delivery,
		Raw: jobs.Raw{ID: it.id, Queue: q.Name, Ack: id, Data: it.Data, Attributes: it.Attributes},
	}
}

// end makes the message of a lease available again after delay. A lease that is
// over is left alone.
func (q *Queue) end(lease string, delay time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	it := q.leased[lease]
	if it == nil {
		return
	}
	it.expiry.Stop()
	delete(q.leased, lease)
	if delay <= 0 {
		q.append(it)
		return
	}
	time.AfterFunc(delay, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.append(it)
	})
}

// errExpired is why a lease that is not held is lost.
var errExpired = errors.New("lease has expired")

// Extend implements worker.Source. It names every lease that is lost and returns
// no error.
func (q *Queue) Extend(_ context.Context, leases []jobs.Lease, ttl time.Duration) (map[string]error, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	lost := map[string]error{}
	for _, l := range leases {
		if it := q.leased[l.ID]; it != nil {
			it.expiry.Reset(ttl)
		} else {
			lost[l.ID] = errExpired
		}
	}
	return lost, nil
}

// Ack implements worker.Source.
func (q *Queue) Ack(_ context.Context, lease jobs.Lease) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if it := q.leased[lease.ID]; it != nil {
		it.expiry.Stop()
		delete(q.leased, lease.ID)
	}
	return nil
}

// Nack implements worker.Source.
func (q *Queue) Nack(_ context.Context, lease jobs.Lease, delay time.Duration) error {
	q.end(lease.ID, delay)
	return nil
}

// HandBack implements worker.HandBacker. Leases of a queue with another name are left
// alone.
func (q *Queue) HandBack(_ context.Context, queue string, acks []string) error {
	if queue != q.Name {
		return nil
	}
	for _, id := range acks {
		q.end(id, 0)
	}
	return nil
}
