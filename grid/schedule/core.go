package schedule

import (
	"cmp"
	"math/rand/v2"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// Moment is the time since the leader was started, by a monotonic clock.
type Moment = time.Duration

// PeerID identifies a connection. It is never used for another one.
type PeerID uint64

// Config has the settings of a Core. A zero field stands for the default at the end of its comment.
type Config struct {
	AcceptTimeout Moment // for the first attempt; it doubles with each failed one; 1 s
	MaxTimeout    Moment // limit of that, and of the pauses between attempts; 30 s
	Lease         Moment // how long an attempt counts as running after Accept or Renew; 30 s
	PlainTimeout  Moment // for an attempt by a worker without these, if the job has no time limit; 1 h
	Recovery      Moment // how long workers may claim attempts after a restart of the leader; 10 s
	KeepResult    Moment // how long results wait for their client; 24 h
	MaxAttempts   int    // attempts of a job that does not say, at most 100; 6
	MaxCrashes    int    // workers that a job may lose by their connections, at most 100; 5
	DefaultCap    int    // cap of a client that declares none; 4

	MaxJobs      int   // jobs that have not ended; 4 million
	MaxBytes     int64 // bytes of requests and results in memory; 2 GiB
	MaxResults   int64 // bytes of results that wait for one client, above which none of its jobs is started; 256 MiB
	KeepAcked    int   // results that are kept after their clients have acknowledged them; 10 000
	AckedBytes   int64 // bytes of these; 64 MiB
	MaxExecs     int   // execs with jobs queued; 10 000
	MaxDead      int   // dead letters, above which the oldest is dropped; 100 000
	ResultWindow int   // bytes of unacknowledged results on their way over one connection; 4 MiB

	Epoch     time.Time  // when the Moment was 0
	Random    *rand.Rand // for the jitter of timeouts; random when nil
	NoRecords bool       // make no records: the leader keeps nothing on disk
	// Observe, if not nil, is called with durations, for metrics.
	Observe func(what Span, d Moment)
	// Moved, if not nil, is called for each job whose state changes, also while records are replayed: from 0 when it becomes known, to 0 when it is forgotten.
	Moved func(exec string, from, to jobs.State)
}

// Span is what an observation is about.
type Span uint8

// The spans of a job.
const (
	Waited Span = iota + 1 // from its submission to its first attempt
	Ran                    // the attempt that has ended it
	Took                   // from its submission to its end
)

func (c *Core) observe(what Span, d Moment) {
	if c.cfg.Observe != nil && !c.replaying {
		c.cfg.Observe(what, d)
	}
}

func (c *Config) init() {
	c.AcceptTimeout = cmp.Or(c.AcceptTimeout, time.Second)
	c.MaxTimeout = cmp.Or(c.MaxTimeout, 30*time.Second)
	c.Lease = cmp.Or(c.Lease, 30*time.Second)
	c.PlainTimeout = cmp.Or(c.PlainTimeout, time.Hour)
	c.Recovery = cmp.Or(c.Recovery, 10*time.Second)
	c.KeepResult = cmp.Or(c.KeepResult, 24*time.Hour)
	c.MaxAttempts = cmp.Or(c.MaxAttempts, 6)
	c.MaxCrashes = cmp.Or(c.MaxCrashes, 5)
	c.DefaultCap = cmp.Or(c.DefaultCap, 4)
	c.MaxJobs = cmp.Or(c.MaxJobs, 4_000_000)
	c.MaxBytes = cmp.Or(c.MaxBytes, 2<<30)
	c.MaxResults = cmp.Or(c.MaxResults, 256<<20)
	c.KeepAcked = cmp.Or(c.KeepAcked, 10_000)
	c.AckedBytes = cmp.Or(c.AckedBytes, 64<<20)
	c.MaxExecs = cmp.Or(c.MaxExecs, 10_000)
	c.MaxDead = cmp.Or(c.MaxDead, 100_000)
	c.ResultWindow = cmp.Or(c.ResultWindow, 4<<20)
	c.MaxAttempts, c.MaxCrashes = min(c.MaxAttempts, wire.MaxAttempts), min(c.MaxCrashes, wire.MaxAttempts)
	if c.Random == nil {
		c.Random = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
}

// Core is the state of a leader. Its methods must not be called concurrently.
type Core struct {
	cfg Config
	now Moment

	jobs    map[wire.GUID]*job
	clients map[string]*client
	execs   map[execKey]*exec
	peers   map[PeerID]*peer
	groups  map[groupKey]*group
	ready   chain[*exec]   // execs to serve next, in turn
	hot     chain[*group]  // groups that have credit again, and execs that wait for it
	roomy   chain[*client] // clients that have room again, and lines that wait for it
	timers  timers
	order   order            // of all jobs, by age
	blobs   map[[32]byte]int // how many requests need each
	paused  map[string]int64 // execs, and since when in Unix milliseconds

	withheld map[wire.GUID]Moment // workers that are given no jobs, and when they were last connected
	gone     map[wire.GUID]Worker // workers that were lost, until they come back

	open      int    // jobs that have not ended
	busyExecs int    // execs with jobs queued
	attempts  int    // attempts that workers have
	bytes     int64  // of requests and results in memory
	acked     list   // ended, and their clients have the results: oldest first
	dead      []*job // oldest first
	turns     uint64 // counts assignments

	recovering   list // jobs that ran when an earlier leader ended
	recoverUntil Moment
	waitedAt     Moment // up to when it is counted how long they have waited
	replaying    bool
	shift        Moment    // added to the moments of records to get those of this leader
	names        [2]string // the last client and exec in a record
	sweepAt      Moment

	out, taken       []Effect
	changed, told    []wire.GUID // jobs, some more than once
	record, recorded []Record
	buf, bufTaken    []byte // of the records
	Counts           Counts
}

// New returns an empty state.
func New(cfg Config) *Core {
	cfg.init()
	return &Core{
		cfg: cfg, jobs: map[wire.GUID]*job{}, clients: map[string]*client{}, execs: map[execKey]*exec{}, peers: map[PeerID]*peer{},
		groups: map[groupKey]*group{}, blobs: map[[32]byte]int{}, paused: map[string]int64{}, withheld: map[wire.GUID]Moment{}, gone: map[wire.GUID]Worker{},
	}
}

// Counts counts events since the start of the leader.
type Counts struct {
	Submitted, Duplicates, Refused              uint64
	Assigned, Succeeded, Failed, Canceled       uint64
	Dead, Crashes                               uint64
	NotAccepted, LeaseExpired, Retried, Expired uint64 // attempts that did not end their job, by reason; jobs that were not started before NotAfter
	LateResults, DuplicateResults, Orphans      uint64
	CreditViolations, StrangerAcks              uint64
	Adopted                                     uint64 // attempts that went on after a restart of the leader, or a reconnect
	ResultsExpired                              uint64 // results that were not fetched in time
}

// Op is what an Effect does.
type Op uint8

// The effects. Promises are carried out only when the records that were taken with them are on disk.
const (
	Assign    Op = iota + 1 // to a worker: Job, Attempt, Exec, Client, Body, Number, Checkpoint
	CancelRun               // to a worker: Job, Attempt, Reason
	SubmitAck               // to a client, a promise: Job
	Result                  // to a client, a promise: Job, Client, Body
	ResultAck               // to a worker, a promise: Job
	ErrorTo                 // Job if it is about one, Code, Reason; Client and Exec if a job was not taken and its client is to learn of no other end
	CloseWith               // the same, and then the connection is closed
	Forget                  // no peer: the stored Body.Ref is no longer needed
)

// Promises reports whether an effect must wait for the records that were taken with it.
func (o Op) Promises() bool { return o == SubmitAck || o == Result || o == ResultAck }

// Effect is something that the caller must do.
type Effect struct {
	Op      Op
	Peer    PeerID
	Job     wire.GUID
	Attempt wire.GUID
	Exec    string
	Client  string
	Body    Body
	// Number is which attempt an Assign is, from 1, and Checkpoint what one before has left; nil for nothing.
	Number     int
	Checkpoint *wire.Blob
	Code       string
	Reason     string
}

// Body is a request or a result. The Core does not read it.
type Body struct {
	Bytes []byte // nil if the caller has stored it elsewhere
	Size  int
	Ref   wire.GUID // names it where it is stored; zero if Bytes has it
	Blobs []byte    // of a request: the SHA-256 of each of its blobs, 32 bytes each
}

// memory returns how many bytes of memory the body takes.
func (b Body) memory() int64 { return int64(len(b.Bytes) + len(b.Blobs)) }

// maxSpare is the capacity, in bytes, up to which a buffer is kept for the records of later calls.
const maxSpare = 1 << 20

// Take returns the effects and the records since the last call, in order. They are valid until the next call.
func (c *Core) Take() ([]Effect, []Record) {
	c.pump()
	clear(c.taken) // so that bodies can be freed
	clear(c.recorded)
	if cap(c.bufTaken) > maxSpare {
		c.bufTaken = nil
	}
	c.taken, c.out = c.out, c.taken[:0]
	c.recorded, c.record = c.record, c.recorded[:0]
	c.bufTaken, c.buf = c.buf, c.bufTaken[:0]
	c.told, c.changed = c.changed, c.told[:0]
	return c.taken, c.recorded
}

// Changed returns the ids of jobs that have changed their state or their attempts before the last call of [Core.Take], the first change first; an id may come more than
// once. It is valid until the next one.
func (c *Core) Changed() []wire.GUID { return c.told }

func (c *Core) emit(e Effect) {
	if !c.replaying {
		c.out = append(c.out, e)
	}
}

// at sets the time of an event. Time never goes back.
func (c *Core) at(now Moment) {
	if now > c.now {
		c.now = now
	}
}

// Lease returns how long an attempt counts as running after Accept or Renew.
func (c *Core) Lease() time.Duration { return c.cfg.Lease }

// Numbers are the sizes of the state.
type Numbers struct {
	Open, Queued, Running, Dead, Results, Clients, Workers, Execs int
	Bytes                                                         int64
}

// Numbers returns the present sizes of the state.
func (c *Core) Numbers() Numbers {
	n := Numbers{Open: c.open, Running: c.attempts + c.recovering.n, Dead: len(c.dead), Clients: len(c.clients), Execs: len(c.execs), Bytes: c.bytes}
	n.Queued = n.Open - n.Running
	for _, g := range c.groups {
		n.Workers += g.workers
	}
	for _, cl := range c.clients {
		n.Results += cl.waiting.n
		for _, s := range cl.sessions {
			n.Results += s.unsent.n + s.sent.n
		}
	}
	return n
}
