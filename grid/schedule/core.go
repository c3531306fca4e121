package schedule

import (
	"cmp"
	"math/rand/v2"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// Moment is a time since the leader has started, by a clock that never leaps.
type Moment = time.Duration

// PeerID names a connection. It is never used again.
type PeerID uint64

// Config are the settings of a Core. Zero fields get the defaults that their comments name.
type Config struct {
	AcceptTimeout Moment // for the first attempt; it doubles with each; 1 s
	MaxTimeout    Moment // up to which it doubles, and the pauses between attempts; 30 s
	Lease         Moment // how long an attempt counts as running after its worker has said so; 30 s
	PlainTimeout  Moment // of an attempt by a worker that does not say so, unless the job has a limit; 1 h
	Recovery      Moment // how long workers may claim what they ran before the leader was started again; 10 s
	KeepResult    Moment // for a client that does not come; 24 h
	MaxAttempts   int    // 100 at most; 6
	MaxCrashes    int    // how many workers a job may lose, 100 at most; 5
	DefaultCap    int    // of a client that declares none; 4

	MaxJobs      int   // that have not ended; 4 million
	MaxBytes     int64 // of requests and results; 2 GiB
	MaxResults   int64 // bytes of results that wait for one client; its further jobs wait for it to come; 256 MiB
	KeepAcked    int   // how many results stay that their clients have; 10 000
	AckedBytes   int64 // and how many bytes of them; 64 MiB
	MaxExecs     int   // with jobs queued; 10 000
	MaxDead      int   // dead letters; the oldest goes; 100 000
	ResultWindow int   // bytes of results on their way to one client; 4 MiB

	Epoch     time.Time  // when the Moment was 0
	Random    *rand.Rand // for the jitter of timeouts
	NoRecords bool       // are made: the leader keeps nothing on disk
	// Observe is told how long things took. Nil for nothing.
	Observe func(what Span, d Moment)
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

// Core is the state of a leader. It is used by one goroutine at a time.
type Core struct {
	cfg Config
	now Moment

	jobs    map[wire.GUID]*job
	clients map[string]*client
	execs   map[execKey]*exec
	peers   map[PeerID]*peer
	groups  map[groupKey]*group
	ready   chain[*exec]   // to be served in turn
	hot     chain[*group]  // have credit again, and execs that wait for it
	roomy   chain[*client] // have room again, and lines that wait for it
	timers  timers
	order   order            // of all jobs, by age
	blobs   map[[32]byte]int // how many requests need each

	open      int // jobs that have not ended
	busyExecs int // with jobs queued
	attempts  int // that run
	bytes     int64
	acked     list   // ended, and their clients have the results: oldest first
	dead      []*job // oldest first
	turns     uint64 // counts what workers are given

	recovering   list // running when the leader ended
	recoverUntil Moment
	waitedAt     Moment // up to when it is counted how long they have waited
	replaying    bool
	shift        Moment    // from the moments of records to those of this leader
	names        [2]string // of the last client and exec in a record
	sweepAt      Moment

	out, taken       []Effect
	record, recorded []Record
	buf, bufTaken    []byte // of the records
	Counts           Counts
}

// New returns an empty state.
func New(cfg Config) *Core {
	cfg.init()
	return &Core{
		cfg: cfg, jobs: map[wire.GUID]*job{}, clients: map[string]*client{}, execs: map[execKey]*exec{}, peers: map[PeerID]*peer{},
		groups: map[groupKey]*group{}, blobs: map[[32]byte]int{},
	}
}

// Counts are what has happened so far.
type Counts struct {
	Submitted, Duplicates, Refused              uint64
	Assigned, Succeeded, Failed, Canceled       uint64
	Dead, Crashes                               uint64
	NotAccepted, LeaseExpired, Retried, Expired uint64 // attempts that were made again, and jobs that came too late
	LateResults, DuplicateResults, Orphans      uint64
	CreditViolations, StrangerAcks              uint64
	Adopted                                     uint64 // attempts that went on over a restart of the leader, or of a connection
	ResultsExpired                              uint64 // that were not fetched in time
}

// Op is what an Effect does.
type Op uint8

// The effects. Those that promise something are carried out once the records are on disk.
const (
	Assign    Op = iota + 1 // to a worker: Job, Attempt, Number, Exec, Body
	CancelRun               // to a worker: Job, Attempt, Reason
	SubmitAck               // to a client, a promise: Job
	Result                  // to a client, a promise: Job, Client, Body
	ResultAck               // to a worker, a promise: Job
	ErrorTo                 // Job if it is about one, Code, Reason; Client and Exec if a job was not taken and its client is to learn of no other end
	CloseWith               // the same, and then the connection is closed
	Forget                  // no peer: what is stored as Body.Ref is no longer needed
)

// Promises reports whether an effect must wait for the records that were taken with it.
func (o Op) Promises() bool { return o == SubmitAck || o == Result || o == ResultAck }

// Effect is something that the caller is to do.
type Effect struct {
	Op      Op
	Peer    PeerID
	Job     wire.GUID
	Attempt wire.GUID
	Exec    string
	Client  string
	Number  int // of the attempt, from 1
	Body    Body
	Code    string
	Reason  string
}

// Body is a request or a result. The Core does not look into it.
type Body struct {
	Bytes []byte // nil if it is stored elsewhere
	Size  int
	Ref   wire.GUID // where it is stored; zero if it is not
	Blobs []byte    // of a request: the SHA-256 of each of its blobs, 32 bytes each
}

// memory returns how many bytes of memory it takes.
func (b Body) memory() int64 { return int64(len(b.Bytes) + len(b.Blobs)) }

// maxSpare is how many bytes are kept for the records of later calls.
const maxSpare = 1 << 20

// Take returns the effects and the records since the last call, in order. They are valid until the next call.
func (c *Core) Take() ([]Effect, []Record) {
	c.pump()
	clear(c.taken) // bodies that are no longer needed
	clear(c.recorded)
	if cap(c.bufTaken) > maxSpare {
		c.bufTaken = nil
	}
	c.taken, c.out = c.out, c.taken[:0]
	c.recorded, c.record = c.record, c.recorded[:0]
	c.bufTaken, c.buf = c.buf, c.bufTaken[:0]
	return c.taken, c.recorded
}

func (c *Core) emit(e Effect) {
	if !c.replaying {
		c.out = append(c.out, e)
	}
}

// at notes the time of an event.
func (c *Core) at(now Moment) {
	if now > c.now {
		c.now = now
	}
}

// Lease is how long an attempt counts as running after its worker has said so.
func (c *Core) Lease() time.Duration { return c.cfg.Lease }

// Numbers are the sizes of the state at one moment.
type Numbers struct {
	Open, Queued, Running, Dead, Results, Clients, Workers, Execs int
	Bytes                                                         int64
}

// Numbers returns them.
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
