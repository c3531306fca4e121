package schedule

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// pick draws a value of a map, by its key.
func pick[K interface{ ~uint64 }, V any](t *rapid.T, all map[K]V, fit func(V) bool) (K, V) {
	var keys []K
	for k, v := range all {
		if fit == nil || fit(v) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		t.Skip("none")
	}
	slices.Sort(keys)
	k := rapid.SampledFrom(keys).Draw(t, "one")
	return k, all[k]
}

func (w *world) peer() PeerID {
	w.nextPeer++
	return w.nextPeer
}

func (w *world) connectClient(t *rapid.T) {
	if len(w.clients) > 5 {
		t.Skip("enough")
	}
	cl := &simClient{id: w.peer(), name: rapid.SampledFrom(simClients).Draw(t, "name"), resultAck: rapid.Bool().Draw(t, "acks results")}
	var features []string
	if cl.resultAck {
		features = append(features, wire.FeatureResultAck)
	}
	if cl.own = rapid.IntRange(0, 3).Draw(t, "own") == 0; cl.own {
		features = append(features, wire.FeatureOwn)
	}
	if rapid.Bool().Draw(t, "wants acks") {
		features = append(features, wire.FeatureSubmitAck)
	}
	w.clients[cl.id] = cl
	w.c.ClientHello(w.now, cl.id, cl.name, rapid.IntRange(0, 3).Draw(t, "cap"), features)
}

func (w *world) clientGone(t *rapid.T) {
	id, _ := pick(t, w.clients, nil)
	delete(w.clients, id)
	w.c.Gone(w.now, id)
}

func (w *world) submit(t *rapid.T) {
	id, cl := pick(t, w.clients, nil)
	j := &simJob{client: cl.name, seq: int64(len(w.order) + 1), indexes: map[int64]bool{}}
	j.ID, j.Exec, j.Digest = wire.NewGUID(), rapid.SampledFrom(simExecs).Draw(t, "exec"), uint64(len(w.order)+1)
	o := &j.Options
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0, 1:
		o.Priority = rapid.IntRange(-1, 1).Draw(t, "priority")
	case 2:
		j.NotAfter = w.now + rapid.SampledFrom([]Moment{1, time.Second, time.Minute}).Draw(t, "not after")
		at := w.cfg.Epoch.Add(j.NotAfter)
		o.NotAfter = &at
	case 3:
		o.RetryOn = []string{wire.ReasonExit}
	case 4:
		o.MaxAttempts = rapid.IntRange(1, 3).Draw(t, "attempts")
	case 5:
		o.OnDisconnect = "cancel"
	case 6, 7:
		j.First = rapid.Int64Range(0, 2).Draw(t, "first")
		j.Last = j.First + rapid.Int64Range(0, 3).Draw(t, "more")
		o.Array = fmt.Sprintf("%d-%d", j.First, j.Last)
		if rapid.Bool().Draw(t, "retries") {
			o.RetryOn = []string{wire.ReasonExit}
		}
	}
	text, err := wire.MarshalRequest(&wire.JobRequest{JobID: j.ID, ClientID: cl.name, ExecName: j.Exec, Options: *o})
	if err != nil {
		w.Fatalf("%v", err)
	}
	j.Body = Body{Bytes: text, Size: len(text)}
	for range rapid.IntRange(0, 2).Draw(t, "blobs") {
		j.Body.Blobs = append(j.Body.Blobs, strings.Repeat(rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "blob"), 32)...)
	}
	w.jobs[j.ID] = j
	w.order = append(w.order, j)
	w.c.Submit(w.now, id, j.Submission)
}

func (w *world) submitAgain(t *rapid.T) {
	if len(w.order) == 0 {
		t.Skip("none")
	}
	j := w.order[rapid.IntRange(0, len(w.order)-1).Draw(t, "job")]
	id, _ := pick(t, w.clients, func(cl *simClient) bool { return cl.name == j.client })
	if w.c.jobs[j.ID] == nil { // a crash has lost it, or it was dropped
		j.promised = false
		w.order = append(w.order, j)
		j.seq = int64(len(w.order))
		j.loose = j.loose || j.started || j.delivered != nil
	}
	w.c.Submit(w.now, id, j.Submission)
}

func (w *world) delivered(t *rapid.T) {
	id, cl := pick(t, w.clients, func(cl *simClient) bool { return len(cl.got) > 0 })
	if cl.resultAck {
		w.c.Delivered(w.now, id, cl.got)
	} else {
		w.c.Written(w.now, id, cl.got)
	}
	cl.got = nil
}

// connectWorker connects a new worker, or one that was cut off: a modern one tells what it has in hand, and sends results again.
func (w *world) connectWorker(t *rapid.T) {
	if len(w.workers) > 5 || rapid.Bool().Draw(t, "again") {
		old, s := pick(t, w.workers, func(s *simWorker) bool { return s.id == 0 })
		delete(w.workers, old)
		if s.modern {
			w.hello(s)
		}
		return
	}
	w.hello(&simWorker{
		guid: wire.NewGUID(), pattern: rapid.SampledFrom(simPatterns).Draw(t, "pattern"), modern: rapid.IntRange(0, 2).Draw(t, "modern") > 0,
		array: rapid.Bool().Draw(t, "array"), cancel: rapid.Bool().Draw(t, "cancel"), limit: rapid.IntRange(1, 3).Draw(t, "limit"), results: map[wire.GUID]simResult{},
	})
}

func (w *world) hello(s *simWorker) {
	s.id = w.peer()
	s.draining, s.granted, s.assigned = false, 0, 0
	w.workers[s.id] = s
	info := WorkerInfo{ID: s.guid, Pattern: s.pattern, Host: "host", Limit: s.limit}
	if s.modern {
		info.Running = slices.Clone(s.hand)
		info.Features = []string{wire.FeatureAccept, wire.FeatureResultAck}
	}
	if s.array {
		info.Features = append(info.Features, wire.FeatureArray)
	}
	if s.cancel {
		info.Features = append(info.Features, wire.FeatureCancel)
	}
	w.c.WorkerHello(w.now, s.id, info)
	w.settle()
	for _, id := range slices.SortedFunc(maps.Keys(s.results), func(a, b wire.GUID) int { return slices.Compare(a[:], b[:]) }) {
		w.c.Ack(w.now, s.id, id, s.results[id].attempt, s.results[id].ended)
	}
}

func live(s *simWorker) bool { return s.id != 0 }

func busy(s *simWorker) bool { return s.id != 0 && len(s.hand) > 0 }

// workerGone ends a connection. The worker may have died, or may come again.
func (w *world) workerGone(t *rapid.T) {
	id, s := pick(t, w.workers, live)
	if s.modern && rapid.Bool().Draw(t, "cut off") {
		w.cutOff(id, s)
	} else {
		delete(w.workers, id)
	}
	if rapid.Bool().Draw(t, "comes before its end is known") && s.modern {
		w.hello(s)
		delete(w.workers, 1<<40+id)
	}
	w.c.Gone(w.now, id)
}

func (w *world) credit(t *rapid.T) {
	id, s := pick(t, w.workers, live)
	p := w.c.peers[id]
	n := rapid.IntRange(1, 3).Draw(t, "n")
	if rapid.IntRange(0, 9).Draw(t, "sense") == 0 {
		n = rapid.SampledFrom([]int{0, -1, 1 << 30}).Draw(t, "nonsense")
	}
	before := p.credit
	w.c.Credit(w.now, id, n)
	if n <= 0 && p.credit != before {
		w.Fatalf("credit %d has changed %d to %d", n, before, p.credit)
	}
	s.granted += p.credit - before
}

func (w *world) renew(t *rapid.T) {
	id, s := pick(t, w.workers, func(s *simWorker) bool { return live(s) && s.modern })
	info := wire.RenewInfo{Running: slices.Clone(s.hand), Seen: int64(s.assigned), Limit: new(s.granted), CPU: 0.5}
	switch rapid.IntRange(0, 5).Draw(t, "limit") {
	case 0: // a credit was lost
		*info.Limit = max(s.assigned, s.granted-1)
	case 1: // it takes credit back, and the leader may have used some of it
		*info.Limit = rapid.IntRange(0, s.granted).Draw(t, "less")
	case 2:
		info.Limit = nil
	}
	before := w.c.peers[id].credit
	w.c.Renew(w.now, id, info)
	p := w.c.peers[id]
	switch {
	case info.Limit == nil && p.credit != before:
		w.Fatalf("without a limit the credit of %d has become %d", before, p.credit)
	case info.Limit != nil && *info.Limit <= s.assigned && p.credit != 0:
		w.Fatalf("after a limit of %d the worker has credit %d, and was given %d", *info.Limit, p.credit, s.assigned)
	case info.Limit != nil && p.credit == max(0, *info.Limit-s.assigned):
		s.granted = max(*info.Limit, s.assigned)
	}
}

func (w *world) drain(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "seldom") > 0 {
		t.Skip("not now")
	}
	id, s := pick(t, w.workers, live)
	s.draining = true
	w.c.Drain(w.now, id)
}

func (w *world) attempt(t *rapid.T) (PeerID, *simWorker, wire.Running) {
	id, s := pick(t, w.workers, busy)
	return id, s, s.hand[rapid.IntRange(0, len(s.hand)-1).Draw(t, "attempt")]
}

func (s *simWorker) forget(attempt wire.GUID) {
	s.hand = slices.DeleteFunc(s.hand, func(r wire.Running) bool { return r.AttemptID == attempt })
}

func (w *world) accept(t *rapid.T) {
	id, s, r := w.attempt(t)
	if s.modern {
		w.c.Accept(w.now, id, r.JobID, r.AttemptID)
	}
}

func (w *world) handBack(t *rapid.T) {
	id, s, r := w.attempt(t)
	if s.modern {
		s.forget(r.AttemptID)
		w.c.HandBack(w.now, id, r.JobID, r.AttemptID)
	}
}

func (w *world) end(t *rapid.T) {
	id, s, r := w.attempt(t)
	s.hand = slices.DeleteFunc(s.hand, func(h wire.Running) bool { return h == r })
	e := w.ended(r.JobID, rapid.IntRange(0, 2).Draw(t, "ok") > 0)
	if s.modern {
		s.results[r.JobID] = simResult{r.AttemptID, e}
	}
	w.c.Ack(w.now, id, r.JobID, r.AttemptID, e)
}

var endings int

// ended is a result that no other attempt has.
func (w *world) ended(id wire.GUID, ok bool) Ended {
	endings++
	e := Ended{Client: "a", Exec: "calc", OK: ok}
	if j := w.c.jobs[id]; j != nil {
		e.Client, e.Exec = j.line.client.name, j.line.exec.key.name
	} else if j := w.jobs[id]; j != nil && j.client != "" {
		e.Client, e.Exec = j.client, j.Exec
	}
	if !ok {
		e.Reason, e.Stderr = wire.ReasonExit, "it has failed"
	}
	e.Body.Bytes = fmt.Appendf(nil, `{"JobId":%q,"Stdout":"%d"}`, id, endings)
	e.Body.Size = len(e.Body.Bytes)
	return e
}

// endAgain sends a result again, over whatever connection the worker has.
func (w *world) endAgain(t *rapid.T) {
	id, s := pick(t, w.workers, func(s *simWorker) bool { return live(s) && len(s.results) > 0 })
	for job, r := range s.results {
		w.c.Ack(w.now, id, job, r.attempt, r.ended)
	}
}

// stranger sends a result of a job that a worker does not have, without an attempt.
func (w *world) stranger(t *rapid.T) {
	id, s := pick(t, w.workers, live)
	if len(w.order) == 0 {
		t.Skip("none")
	}
	j := w.order[rapid.IntRange(0, len(w.order)-1).Draw(t, "job")]
	before := w.c.jobs[j.ID]
	if before == nil || slices.ContainsFunc(s.hand, func(r wire.Running) bool { return r.JobID == j.ID }) {
		t.Skip("it has it")
	}
	was := before.state
	w.c.Ack(w.now, id, j.ID, wire.GUID{}, w.ended(j.ID, true))
	if before.state != was && was != 0 {
		w.Fatalf("G44: a stranger has ended job %s", j.ID)
	}
}

func (w *world) cancelJob(t *rapid.T) {
	if len(w.order) == 0 || rapid.Bool().Draw(t, "seldom") {
		t.Skip("none")
	}
	j := w.order[rapid.IntRange(0, len(w.order)-1).Draw(t, "job")]
	w.c.Cancel(w.now, j.client, j.ID)
}

func (w *world) deadLetter(t *rapid.T) wire.GUID {
	if len(w.c.dead) == 0 {
		t.Skip("none")
	}
	return w.c.dead[rapid.IntRange(0, len(w.c.dead)-1).Draw(t, "dead letter")].id
}

func (w *world) requeue(t *rapid.T) {
	id := w.deadLetter(t)
	j := w.c.jobs[id]
	if w.jobs[id] == nil {
		w.jobs[id] = &simJob{}
	}
	w.jobs[id].loose = true
	if j.rare.index >= 0 {
		w.jobs[j.rare.arrayID].loose = true
	}
	if !w.c.Requeue(w.now, id) {
		w.Fatalf("a dead letter was not requeued")
	}
}

func (w *world) drop(t *rapid.T) {
	id := w.deadLetter(t)
	if w.jobs[id] == nil {
		w.jobs[id] = &simJob{}
	}
	w.jobs[id].loose, w.jobs[id].promised = true, false // it may be submitted again
	w.c.Drop(w.now, id)
}

// finish lets all jobs end: workers that can run everything and give credit, and clients that take their results.
func (w *world) finish() {
	for id := range maps.Clone(w.workers) {
		w.c.Gone(w.now, id)
	}
	for id := range maps.Clone(w.clients) {
		w.c.Gone(w.now, id)
	}
	w.workers, w.clients = map[PeerID]*simWorker{}, map[PeerID]*simClient{}
	for _, exec := range simExecs {
		w.c.Resume(w.now, exec)
	}
	for _, name := range simClients {
		cl := &simClient{id: w.peer(), name: name, resultAck: true}
		w.clients[cl.id] = cl
		w.c.ClientHello(w.now, cl.id, name, 3, []string{wire.FeatureResultAck})
	}
	s := &simWorker{guid: wire.NewGUID(), pattern: "job.assign.>", modern: true, array: true, cancel: true, limit: 100, results: map[wire.GUID]simResult{}}
	w.hello(s)
	for range 400 {
		w.sync(nil)
		for _, r := range slices.Clone(s.hand) {
			s.forget(r.AttemptID)
			w.c.Ack(w.now, s.id, r.JobID, r.AttemptID, w.ended(r.JobID, true))
		}
		p := w.c.peers[s.id]
		if n := p.room(); n > 0 {
			w.c.Credit(w.now, s.id, n)
			s.granted += n
		}
		for id, cl := range w.clients {
			w.c.Delivered(w.now, id, cl.got)
			cl.got = nil
		}
		w.now += 31 * time.Second
		w.c.Tick(w.now)
	}
	w.sync(nil)
	for id, j := range w.c.jobs {
		if j.isOpen() || w.c.owed(j) {
			w.Fatalf("P1: job %s has not ended, or its client has no result: %s", id, w.c.Explain(w.now, id))
		}
		if w.jobs[id] == nil || w.jobs[id].delivered == nil && !w.jobs[id].loose {
			w.Fatalf("P1: the result of job %s was not delivered", id)
		}
	}
	for id, j := range w.jobs {
		if j.promised && !j.refused && w.c.jobs[id] == nil && !j.loose {
			w.Fatalf("P1: job %s is not known any more", id)
		}
	}
}
