package schedule

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// world is a leader's state with everything around it: connections, workers that run jobs and may be cut off, and a journal: a crash
// keeps what promises have relied on, and some of the rest.
type world struct {
	*testing.T
	rand     *rapid.T
	cfg      Config
	c        *Core
	now      Moment
	nextPeer PeerID
	journal  [][]byte // since the checkpoint
	before   [][]byte // the checkpoint
	synced   int      // how much of the journal is on disk
	promises []Effect // that wait for the journal

	clients map[PeerID]*simClient
	workers map[PeerID]*simWorker
	jobs    map[wire.GUID]*simJob
	order   []*simJob
	tallies map[*Core]tally
	last    map[string][2]int64 // of a client, exec and priority: seq and index of the newest first attempt
}

type simClient struct {
	id        PeerID
	name      string
	resultAck bool
	own       bool // it takes no results of others
	got       []wire.GUID
}

// simWorker is a worker over all its connections.
type simWorker struct {
	id      PeerID // 0 while it is cut off
	guid    wire.GUID
	pattern string
	modern  bool
	array   bool
	cancel  bool
	limit   int

	granted, assigned int // over this connection
	hand              []wire.Running
	results           map[wire.GUID]simResult // not acknowledged
	draining          bool
}

type simResult struct {
	attempt wire.GUID
	ended   Ended
}

type simJob struct {
	Submission
	client     string
	seq        int64
	promised   bool // a SubmitAck was sent
	refused    bool
	started    bool
	loose      bool // it was requeued: there may be another result
	outOfOrder bool // a crash has lost its end
	indexes    map[int64]bool
	delivered  []byte
}

var (
	simClients  = []string{"a", "b", "c"}
	simExecs    = []string{"calc", "gpu.train", "gpu.test"}
	simPatterns = []string{"job.assign.*", "job.assign.>", "job.assign.gpu.>", "job.assign.calc"}
)

func TestP1G30RandomHistories(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := &world{
			T: t, rand: r, clients: map[PeerID]*simClient{}, workers: map[PeerID]*simWorker{}, jobs: map[wire.GUID]*simJob{}, last: map[string][2]int64{},
			tallies: map[*Core]tally{},
		}
		w.cfg = Config{
			Epoch: time.Unix(1_800_000_000, 0), ResultWindow: rapid.SampledFrom([]int{1, 200, 1 << 20}).Draw(r, "window"), MaxAttempts: rapid.IntRange(1, 4).Draw(r, "attempts"),
			MaxCrashes: rapid.IntRange(1, 4).Draw(r, "crashes"), MaxResults: rapid.SampledFrom([]int64{300, 1 << 20}).Draw(r, "results"), KeepResult: 10_000 * time.Hour,
		}
		w.c = w.core()
		w.c.Recovered(0)
		w.keep()
		r.Repeat(map[string]func(*rapid.T){
			"client": w.connectClient, "client gone": w.clientGone, "worker": w.connectWorker, "worker 2": w.connectWorker, "worker gone": w.workerGone,
			"submit": w.submit, "submit 2": w.submit, "submit 3": w.submit, "submit again": w.submitAgain, "credit": w.credit, "credit 2": w.credit, "credit 3": w.credit,
			"accept": w.accept, "accept 2": w.accept, "renew": w.renew, "end": w.end, "end 2": w.end, "end 3": w.end, "end again": w.endAgain, "stranger": w.stranger,
			"hand back": w.handBack, "drain": w.drain, "cancel": w.cancelJob, "requeue": w.requeue, "drop": w.drop, "tick": w.tick, "tick 2": w.tick,
			"pause": w.pause, "resume": w.resume, "withhold": w.withhold, "delivered": w.delivered, "sync": w.sync, "crash": w.crash, "checkpoint": w.checkpoint, "replay": w.replayed, "": func(*rapid.T) { w.settle() },
		})
		w.finish()
	})
}

// Fatalf makes failures those of the history, so that a shorter one is looked for.
func (w *world) Fatalf(format string, args ...any) { w.rand.Helper(); w.rand.Fatalf(format, args...) }

func (w *world) core() *Core {
	cfg := w.cfg
	cfg.Random = rand.New(rand.NewPCG(1, 2))
	counted := tally{}
	cfg.Moved = counted.moved
	c := New(cfg)
	w.tallies[c] = counted
	return c
}

// settle carries out what the Core wants, and looks at what it has become.
func (w *world) settle() {
	effects := w.keep()
	for _, e := range effects {
		if e.Op.Promises() {
			w.promises = append(w.promises, e)
			continue
		}
		w.carryOut(e)
	}
	audit(w, w.c)
	w.auditTally(w.c)
}

func (w *world) keep() []Effect {
	effects, records := w.c.Take()
	effects = slices.Clone(effects)
	for _, r := range records {
		w.journal = append(w.journal, bytes.Clone(r))
	}
	return effects
}

func (w *world) carryOut(e Effect) {
	switch e.Op {
	case Assign:
		w.assigned(e)
	case CancelRun:
		if s := w.workers[e.Peer]; s != nil && s.id == e.Peer {
			s.forget(e.Attempt)
			if !s.cancel {
				w.Fatalf("a worker that knows no Cancel was sent one")
			}
		}
	case SubmitAck:
		w.jobs[e.Job].promised = true
	case Result:
		w.result(e)
	case ResultAck:
		if s := w.workers[e.Peer]; s != nil {
			delete(s.results, e.Job)
		}
	case ErrorTo:
		w.jobs[e.Job].refused = true
	case CloseWith, Forget: // its worker goes on all the same, and all bodies are in memory
	}
}

func (w *world) assigned(e Effect) {
	s := w.workers[e.Peer]
	if s == nil || s.draining {
		w.Fatalf("a job was assigned to a worker that is not there, or stopping")
	}
	if w.c.paused[e.Exec] != 0 {
		w.Fatalf("D-06: a job of %s was assigned, which is paused", e.Exec)
	}
	if _, ok := w.c.withheld[s.guid]; ok {
		w.Fatalf("D-05: a job was assigned to a worker that is to be given none")
	}
	s.assigned++
	if s.assigned > s.granted {
		w.Fatalf("P5: worker %d has granted %d credits, and was assigned %d jobs", e.Peer, s.granted, s.assigned)
	}
	s.hand = append(s.hand, wire.Running{JobID: e.Job, AttemptID: e.Attempt})
	if s.modern == e.Attempt.IsZero() {
		w.Fatalf("attempt %s for a worker that knows attempts: %t", e.Attempt, s.modern)
	}
	if cl := w.c.clients[e.Client]; cl.running > cl.cap {
		w.Fatalf("P2: client %s runs %d jobs, at most %d", e.Client, cl.running, cl.cap)
	}
	var body struct {
		JobID   wire.GUID  `json:"JobId"`
		ArrayID *wire.GUID `json:"ArrayId"`
		Index   *int64
	}
	if err := json.Unmarshal(e.Body.Bytes, &body); err != nil || body.JobID != e.Job {
		w.Fatalf("job %s is assigned with %s", e.Job, e.Body.Bytes)
	}
	j, index := w.jobs[e.Job], int64(0)
	if body.ArrayID != nil {
		if !s.array {
			w.Fatalf("a job of an array was assigned to a worker that knows none")
		}
		j, index = w.jobs[*body.ArrayID], *body.Index
	}
	switch {
	case j.loose:
	case body.ArrayID != nil && !j.indexes[index]:
		j.indexes[index] = true
		w.first(j, index)
	case body.ArrayID == nil && !j.started:
		w.first(j, 0)
	}
	j.started = true
	if j.NotAfter > 0 && w.now > j.NotAfter {
		w.Fatalf("job %s was started after NotAfter", e.Job)
	}
}

// first checks that first attempts are in the order of submissions.
func (w *world) first(j *simJob, index int64) {
	key := fmt.Sprint(j.client, j.Exec, j.Options.Priority, j.Options.Array != "")
	last, this := w.last[key], [2]int64{j.seq, index}
	if j.outOfOrder {
		return
	}
	if slices.Compare(this[:], last[:]) < 0 {
		w.Fatalf("P3: %v of %s is started after %v", this, key, last)
	}
	w.last[key] = this
}

func (w *world) result(e Effect) {
	cl := w.clients[e.Peer]
	if cl == nil {
		return // it is gone
	}
	if cl.name != e.Client {
		w.Fatalf("a result of %s was sent to %s", e.Client, cl.name)
	}
	cl.got = append(cl.got, e.Job)
	j := w.jobs[e.Job]
	if j == nil { // of an array
		j = &simJob{}
		w.jobs[e.Job] = j
	}
	if j.delivered != nil && !j.loose && !bytes.Equal(j.delivered, e.Body.Bytes) {
		w.Fatalf("P10: the result of %s was %s, and is now %s", e.Job, j.delivered, e.Body.Bytes)
	}
	j.delivered = bytes.Clone(e.Body.Bytes)
}

// sync makes the journal durable, and carries promises out.
func (w *world) sync(*rapid.T) {
	w.settle()
	w.synced = len(w.journal)
	promises := w.promises
	w.promises = nil
	for _, e := range promises {
		w.carryOut(e)
	}
}

// checkpoint replaces the journal by the records of the state.
func (w *world) checkpoint(*rapid.T) {
	w.sync(nil)
	w.before = records(w.c)
	w.journal, w.synced = nil, 0
}

func records(c *Core) (all [][]byte) {
	_ = c.Snapshot().Each(func(r []byte) error {
		all = append(all, bytes.Clone(r))
		return nil
	})
	return all
}

// replayed compares the state with what the journal makes of it, and with what a checkpoint does.
func (w *world) replayed(*rapid.T) {
	w.settle()
	old := dump(w.c)
	w.paused(records(w.c))
	w.paused(slices.Concat(w.before, w.journal))
	again := w.replay(slices.Concat(w.before, w.journal))
	w.same("the journal", old, dump(again))
	for range 2 {
		again = w.replay(records(again))
		w.same("a checkpoint of the journal", old, dump(again))
	}
	w.same("a checkpoint", old, dump(w.replay(records(w.c))))
	if a, b := w.queue(w.c), w.queue(w.replay(records(w.c))); !maps.EqualFunc(a, b, slices.Equal) {
		w.Fatalf("P7: after a checkpoint the jobs are queued as %v, before as %v", b, a)
	}
}

// queue has the jobs that wait for their first attempt, by client, exec and priority.
func (w *world) queue(c *Core) map[string][]wire.GUID {
	all := map[string][]wire.GUID{}
	for _, cl := range c.clients {
		for e, l := range cl.lines {
			for _, lane := range l.lanes {
				for j := lane.first; j != nil; j = j.next {
					if s := w.jobs[j.id]; s != nil && !s.loose && !s.started {
						key := fmt.Sprint(cl.name, e.key, lane.priority)
						all[key] = append(all[key], j.id)
					}
				}
			}
		}
	}
	return all
}

func (w *world) same(what string, old, again map[wire.GUID]string) {
	for id, text := range old {
		if again[id] != text {
			w.Fatalf("P7: after %s job %s is\n%s and was\n%s", what, id, again[id], text)
		}
	}
	for id := range again {
		if old[id] == "" {
			w.Fatalf("P7: after %s there is a job %s", what, id)
		}
	}
}

func (w *world) replay(all [][]byte) *Core {
	c := w.core()
	c.cfg.Epoch = w.cfg.Epoch.Add(w.now)
	for _, r := range all {
		buf := bytes.Clone(r)
		if err := c.Replay(buf); err != nil {
			w.Fatalf("replay %x: %v", r, err)
		}
		clear(buf) // a record is the caller's
	}
	c.Recovered(0)
	c.Take()
	audit(w, c)
	w.auditTally(c)
	delete(w.tallies, c)
	return c
}

// crash starts the leader again with what is on disk, and perhaps a part of what is not. The clock goes on.
func (w *world) crash(t *rapid.T) {
	w.settle()
	kept := rapid.IntRange(w.synced, len(w.journal)).Draw(t, "kept")
	for _, j := range w.jobs {
		if j.NotAfter > 0 {
			j.NotAfter -= w.now
			if j.NotAfter <= 0 {
				j.NotAfter = 1
			}
		}
	}
	w.promises = nil
	w.journal = w.journal[:kept]
	w.synced = kept
	old := w.c
	w.replay(slices.Concat(w.before, w.journal)) // which looks at it
	w.cfg.Epoch, w.now = w.cfg.Epoch.Add(w.now), 0
	delete(w.tallies, w.c)
	w.c = w.core()
	for _, r := range slices.Concat(w.before, w.journal) {
		if err := w.c.Replay(r); err != nil {
			w.Fatalf("replay: %v", err)
		}
	}
	w.c.Recovered(0)
	for id, j := range w.jobs {
		if before := old.jobs[id]; before != nil && !before.isOpen() && w.c.jobs[id] != nil && w.c.jobs[id].isOpen() {
			j.outOfOrder = true // its end is lost
		}
		if j.promised && !j.refused && w.c.jobs[id] == nil && old.jobs[id] != nil {
			w.Fatalf("P1: job %s was promised to be kept", id)
		}
	}
	w.clients = map[PeerID]*simClient{}
	for id, s := range w.workers {
		w.cutOff(id, s)
	}
}

func (w *world) cutOff(id PeerID, s *simWorker) {
	delete(w.workers, id)
	s.id, s.granted, s.assigned = 0, 0, 0
	w.workers[1<<40+id] = s // it may come again
}

func (w *world) tick(t *rapid.T) {
	w.now += rapid.SampledFrom([]Moment{0, time.Millisecond, time.Second, 5 * time.Second, 31 * time.Second, time.Hour}).Draw(t, "pause")
	w.c.Tick(w.now)
	if next := w.c.Next(); next <= w.now {
		w.Fatalf("Next is %s after a Tick at %s", next, w.now)
	}
}
