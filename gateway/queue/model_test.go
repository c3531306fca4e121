package queue_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
)

// place is where a job is. A job is in one, because it is one word.
type place string

const (
	queued   place = "queued"
	delayed  place = "delayed"
	leased   place = "leased"
	dead     place = "dead"
	finished place = "finished"
	canceled place = "canceled"
	dropped  place = "dropped" // was dead
)

// listedAs says in which list a job is.
var listedAs = map[place][]place{
	"queued": {queued, delayed}, "started": {leased}, "finished": {finished}, "failed": {dead, dropped}, "canceled": {canceled},
}

// modelJob is what the rules say of a job.
type modelJob struct {
	kind           jobs.Kind // empty for zpe
	failures       int       // that its kind allows, beside retries
	place          place
	retries, backs int
	worker, lease  string // who holds it, or has finished it
	ends, runs     time.Time
	created        time.Time
	first          time.Time // zero before the first lease
	cancel, late   bool      // late: a late result waits to be accepted
	timedOut       bool
	revoked        bool // the worker of the lease was
	result         string
	lateBy         [3]string         // worker, lease, result
	reaped         map[string]string // leases taken back, by id: their worker
	failed         map[string][2]string
}

type modelWorker struct {
	caller   queue.Caller
	id       string
	revoked  bool
	requests map[string][][2]string // request: jobs and leases
}

// model does in plain Go what the scripts do, one operation at a time.
type model struct {
	r       *rig
	q       []*queue.Queue          // gateways whose clocks differ
	order   map[jobs.Kind][]jobs.ID // the queues, from the head; jobs that are elsewhere are passed over
	letters map[jobs.Kind][]jobs.ID
	turns   map[jobs.Kind]int // when a kind was last chosen among several
	turn    int
	jobs    map[jobs.ID]*modelJob
	workers []*modelWorker
	grants  []queue.Grant
	ended   map[jobs.ID]int // how often a result was recorded as new
}

// TestScriptsDoWhatTheModelDoes plays random histories to both and compares what
// is where after each step.
func TestScriptsDoWhatTheModelDoes(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it takes much CPU")
	testrun.Once(t, "it runs in one goroutine")
	r := newRig(t)
	r.LeaseTTL, r.JobTimeout, r.TokenTTL, r.MaxRetries = 10*time.Minute, 30*time.Minute, 10*365*24*time.Hour, 1
	// A job that is timed out, dead-lettered, requeued and extended again takes many steps.
	if err := flag.Set("rapid.steps", "200"); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		r.rdb.FlushAll(r.ctx())
		m := &model{r: r, q: r.replicas(0, 20*time.Second), jobs: map[jobs.ID]*modelJob{}, ended: map[jobs.ID]int{}}
		m.order, m.letters, m.turns = map[jobs.Kind][]jobs.ID{}, map[jobs.Kind][]jobs.ID{}, map[jobs.Kind]int{}
		for range 3 {
			m.workers = append(m.workers, m.hire())
		}
		t.Repeat(map[string]func(*rapid.T){
			"submit": m.submit, "lease": m.lease, "lease 2": m.lease, "lease 3": m.lease, "extend": m.extend, "extend 2": m.extend,
			"finish": m.finish, "fail": m.fail, "reap": m.reap, "reap 2": m.reap, "pass 2": m.pass, "pass 3": m.pass, "accept 2": m.accept,
			"requeue 2": m.requeue, "promote": m.promote, "cancel": m.cancel, "requeue": m.requeue, "drop": m.drop, "accept": m.accept,
			"revoke": m.revoke, "pass": m.pass, "double": m.double, "fsck": m.fsck, "": m.check,
		})
	})
}

func (m *model) gateway(t *rapid.T) (*queue.Queue, time.Time) {
	q := rapid.SampledFrom(m.q).Draw(t, "gateway")
	return q, q.Now()
}

func (m *model) job(t *rapid.T) (jobs.ID, *modelJob) {
	return m.jobWhere(t, func(*modelJob) bool { return true })
}

// jobWhere draws a job, mostly one that is fit.
func (m *model) jobWhere(t *rapid.T, fit func(*modelJob) bool) (jobs.ID, *modelJob) {
	all := slices.Sorted(maps.Keys(m.jobs))
	if len(all) == 0 {
		t.Skip("no job")
	}
	some := slices.DeleteFunc(slices.Clone(all), func(id jobs.ID) bool { return !fit(m.jobs[id]) })
	if len(some) > 0 && rapid.IntRange(0, 4).Draw(t, "fit") > 0 {
		all = some
	}
	id := rapid.SampledFrom(all).Draw(t, "job")
	return id, m.jobs[id]
}

// grant draws an old or a living lease, and a worker, who mostly is its holder.
func (m *model) grant(t *rapid.T) (queue.Grant, *modelJob, *modelWorker) {
	if len(m.grants) == 0 {
		t.Skip("no lease yet")
	}
	g := m.grants[max(0, len(m.grants)-1-rapid.IntRange(0, 5).Draw(t, "back"))]
	w := rapid.SampledFrom(m.workers).Draw(t, "worker")
	if rapid.IntRange(0, 4).Draw(t, "honest") > 0 {
		for _, h := range m.workers {
			for _, got := range h.requests {
				if slices.ContainsFunc(got, func(one [2]string) bool { return one[1] == g.LeaseID }) {
					w = h
				}
			}
		}
	}
	return g, m.jobs[g.Job], w
}

func (m *model) want(t *rapid.T, what string, got, want error) {
	if !errors.Is(got, want) || (got == nil) != (want == nil) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

func (m *model) hire() *modelWorker {
	c := m.r.worker()
	return &modelWorker{caller: c, id: must(m.r.Authorize(m.r.ctx(), c))(m.r), requests: map[string][][2]string{}}
}

func (m *model) holds(j *modelJob, w *modelWorker, lease string) bool {
	return j.place == leased && j.worker == w.id && j.lease == lease
}

func (m *model) pass(t *rapid.T) {
	m.r.clock.pass(rapid.SampledFrom([]time.Duration{
		time.Millisecond, time.Second, 20 * time.Second, 2 * time.Minute, 11 * time.Minute, 40 * time.Minute,
	}).Draw(t, "time"))
}

func (m *model) submit(t *rapid.T) {
	q, now := m.gateway(t)
	id := jobs.ID(fmt.Sprintf("j%d", rapid.IntRange(0, 6).Draw(t, "id")))
	var kind jobs.Kind
	if id > "j3" {
		kind = "thumbnail"
	}
	_, err := q.SubmitJob(m.r.ctx(), queue.Submission{ID: id, Kind: kind, Payload: []byte("{}")})
	m.want(t, "submit", err, nil)
	if m.jobs[id] == nil {
		m.jobs[id] = &modelJob{kind: kind, place: queued, created: now, reaped: map[string]string{}, failed: map[string][2]string{}}
		m.enqueue(id)
	}
}

func (m *model) enqueue(id jobs.ID) {
	kind := m.jobs[id].kind
	m.order[kind] = slices.Insert(m.order[kind], 0, id)
}

func (m *model) enqueueNext(id jobs.ID) {
	kind := m.jobs[id].kind
	m.order[kind] = append(m.order[kind], id)
}

// keyOf is a key that each kind has one of.
func keyOf(name string, kind jobs.Kind) string {
	if kind == "" {
		return "zpe:" + name
	}
	return "zpe:" + name + ":" + string(kind)
}

// double is damage: an entry too many.
func (m *model) double(t *rapid.T) {
	id, j := m.job(t)
	m.r.do("LPUSH", keyOf("queue", j.kind), string(id))
	if j.kind != "" {
		m.r.do("SADD", "zpe:queue_kinds", string(j.kind))
	}
	m.enqueue(id)
}

func (m *model) promoted(now time.Time) (n int) {
	var due []jobs.ID
	for id, j := range m.jobs {
		if j.place == delayed && !j.runs.After(now) {
			due = append(due, id)
		}
	}
	slices.SortFunc(due, func(a, b jobs.ID) int {
		return cmp.Or(m.jobs[a].runs.Compare(m.jobs[b].runs), cmp.Compare(a, b))
	})
	for _, id := range due {
		m.jobs[id].place = queued
		m.enqueue(id)
	}
	return len(due)
}

func (m *model) promote(t *rapid.T) {
	q, now := m.gateway(t)
	n, err := q.Promote(m.r.ctx())
	m.want(t, "promote", err, nil)
	if want := m.promoted(now); n != want {
		t.Fatalf("promoted %d, want %d", n, want)
	}
}

func (m *model) lease(t *rapid.T) {
	q, now := m.gateway(t)
	w := rapid.SampledFrom(m.workers).Draw(t, "worker")
	request := rapid.SampledFrom([]string{"", "", "r1", "r2"}).Draw(t, "request")
	kinds := rapid.SampledFrom([][]jobs.Kind{nil, {"thumbnail"}, {"zpe", "thumbnail"}, {"other", "thumbnail", "zpe"}}).Draw(t, "kinds")
	most := rapid.SampledFrom([]int{1, 1, 2, queue.MaxBatch}).Draw(t, "most")
	grants, _, err := q.LeaseJobs(m.r.ctx(), w.caller, queue.LeaseRequest{Renews: true, RequestID: request, Kinds: kinds}, most)
	if w.revoked {
		m.want(t, "lease of a revoked worker", err, queue.ErrTokenRevoked)
		return
	}
	m.want(t, "lease", err, nil)
	if again := m.stillHeld(w, request, now); len(again) > 0 {
		if len(grants) != len(again) {
			t.Fatalf("request %s got %+v, want %v again", request, grants, again)
		}
		for i, g := range grants {
			if j := m.jobs[g.Job]; again[i] != [2]string{string(g.Job), g.LeaseID} || g.TTL != j.ends.Sub(now) {
				t.Fatalf("request %s got %+v, want %v again", request, grants, again)
			}
		}
		return
	}
	m.promoted(now)
	var got [][2]string
	for len(got) < most {
		kind, ok := m.next(kinds)
		if !ok {
			break
		}
		last := len(m.order[kind]) - 1
		id := m.order[kind][last]
		m.order[kind] = m.order[kind][:last]
		if m.jobs[id].place == queued {
			if len(got) == len(grants) {
				t.Fatalf("leased %+v, and %s is next", grants, id)
			}
			m.granted(t, q, w, kinds, id, grants[len(got)], now)
			got = append(got, [2]string{string(id), grants[len(got)].LeaseID})
		}
	}
	if len(got) != len(grants) {
		t.Fatalf("leased %+v, want %v", grants, got)
	}
	if len(got) > 0 {
		w.requests[cmp.Or(request, got[0][1])] = got
	}
}

// stillHeld returns what an earlier request of the same id has got, as far as the worker holds it.
func (m *model) stillHeld(w *modelWorker, request string, now time.Time) (again [][2]string) {
	for _, old := range w.requests[request] { // none has an empty id
		if j := m.jobs[jobs.ID(old[0])]; m.holds(j, w, old[1]) && j.ends.After(now) {
			again = append(again, old)
		}
	}
	return again
}

// granted is what a lease changes.
func (m *model) granted(t *rapid.T, q *queue.Queue, w *modelWorker, kinds []jobs.Kind, want jobs.ID, g queue.Grant, now time.Time) {
	j := m.jobs[want]
	if g.Job != want || g.Retries != j.retries+j.failures || g.Failures != j.failures || g.Kind != j.kind {
		t.Fatalf("%+v, want %s: %+v", g, want, j)
	}
	if len(kinds) > 1 {
		m.turn++
		m.turns[j.kind] = m.turn
	}
	j.place, j.worker, j.lease, j.ends, j.revoked = leased, w.id, g.LeaseID, now.Add(q.LeaseTTL), false
	if j.first.IsZero() {
		j.first = now
	}
	m.grants = append(m.grants, g)
}

// next returns the kind whose turn it is.
func (m *model) next(kinds []jobs.Kind) (jobs.Kind, bool) {
	if len(kinds) == 0 {
		kinds = []jobs.Kind{"zpe"}
	}
	var with []jobs.Kind
	for _, kind := range kinds {
		if kind == "zpe" {
			kind = ""
		}
		if len(m.order[kind]) > 0 {
			with = append(with, kind)
		}
	}
	if len(with) == 0 {
		return "", false
	}
	return slices.MinFunc(with, func(a, b jobs.Kind) int {
		return cmp.Or(cmp.Compare(m.turns[a], m.turns[b]), cmp.Compare(cmp.Or(a, "zpe"), cmp.Or(b, "zpe")))
	}), true
}

// callerOf is a worker that speaks of a job on the path of its kind.
func callerOf(w *modelWorker, j *modelJob) queue.Caller {
	c := w.caller
	c.Kind = j.kind
	return c
}

// several draws leases of one worker and kind, which it reports on together.
func (m *model) several(t *rapid.T) (some []queue.Grant, w *modelWorker) {
	first, j, w := m.grant(t)
	some = []queue.Grant{first}
	for range rapid.IntRange(0, 3).Draw(t, "more") {
		if g, other, _ := m.grant(t); other.kind == j.kind {
			some = append(some, g)
		}
	}
	return some, w
}

func (m *model) extend(t *rapid.T) {
	q, now := m.gateway(t)
	some, w := m.several(t)
	beats := make([]queue.Heartbeat, len(some))
	for i, g := range some {
		beats[i] = queue.Heartbeat{Job: g.Job, Lease: g.LeaseID}
	}
	extended, errs := q.ExtendAll(m.r.ctx(), callerOf(w, m.jobs[some[0].Job]), beats)
	for i, g := range some {
		j, e, err := m.jobs[g.Job], extended[i], errs[i]
		switch {
		case w.revoked:
			m.want(t, "extend", err, queue.ErrTokenRevoked)
		case !m.holds(j, w, g.LeaseID):
			m.want(t, "extend", err, jobs.ErrLeaseLost)
		case !now.Before(j.first.Add(q.JobTimeout)):
			m.want(t, "extend", err, queue.ErrJobTimeout)
			j.ends, j.timedOut = now.Add(-q.Skew), true
		default:
			m.want(t, "extend", err, nil)
			j.ends = now.Add(q.LeaseTTL)
			if e.Cancel != j.cancel {
				t.Fatalf("cancel=%v, want %v", e.Cancel, j.cancel)
			}
		}
	}
}

func (m *model) finish(t *rapid.T) {
	q, _ := m.gateway(t)
	some, w := m.several(t)
	results := make([]queue.ResultOf, len(some))
	for i, g := range some {
		results[i] = queue.ResultOf{Job: g.Job, Lease: g.LeaseID, Result: queue.Result{JSON: rapid.SampledFrom([]string{"1", "2"}).Draw(t, "result")}}
	}
	verdicts := q.FinishAll(m.r.ctx(), callerOf(w, m.jobs[some[0].Job]), results)
	for i, r := range results {
		m.finished(t, w, r, verdicts[i])
	}
}

// finished checks the verdict on one result, the earlier ones of its batch before it.
func (m *model) finished(t *rapid.T, w *modelWorker, r queue.ResultOf, v queue.Verdict) {
	j := m.jobs[r.Job]
	switch {
	case w.revoked:
		m.want(t, "finish", v.Err, queue.ErrTokenRevoked)
	case m.holds(j, w, r.Lease):
		m.want(t, "finish", v.Err, nil)
		if v.Duplicate {
			t.Fatal("a new result counts as one on record")
		}
		m.ended[r.Job]++
		j.place, j.result, j.late, j.reaped, j.retries = finished, r.JSON, false, map[string]string{}, 0
	case j.place == finished && j.worker == w.id && j.lease == r.Lease:
		if j.result != r.JSON {
			m.want(t, "finish", v.Err, queue.ErrFinished)
		} else if m.want(t, "finish", v.Err, nil); !v.Duplicate {
			t.Fatal("recorded twice")
		}
	case j.place != finished && j.reaped[r.Lease] == w.id:
		m.want(t, "finish", v.Err, jobs.ErrLeaseLost)
		if !v.Late {
			t.Fatal("a late result was thrown away")
		}
		j.late, j.lateBy = true, [3]string{w.id, r.Lease, r.JSON}
	default:
		m.want(t, "finish", v.Err, jobs.ErrLeaseLost)
		if v.Late {
			t.Fatal("a stranger's result was kept")
		}
	}
}

func (m *model) deadLetter(id jobs.ID) {
	j := m.jobs[id]
	j.place = dead
	m.letters[j.kind] = slices.Insert(m.letters[j.kind], 0, id)
}

func (m *model) retry(q *queue.Queue, id jobs.ID, now time.Time) {
	j := m.jobs[id]
	if j.retries++; j.retries > q.MaxRetries {
		m.deadLetter(id)
		return
	}
	j.place, j.runs = delayed, now.Add(queue.RetryDelay(j.retries))
}

func (j *modelJob) end(p place) { j.place, j.retries = p, 0 }

func (m *model) fail(t *rapid.T) {
	q, now := m.gateway(t)
	g, j, w := m.grant(t)
	how := rapid.SampledFrom([]queue.RetryPolicy{queue.Retry, queue.Retry, queue.Final, queue.ReturnUncounted}).Draw(t, "how")
	if j.kind != "" && rapid.Bool().Draw(t, "by its kind") {
		how = queue.RetryByKind
	}
	waits := []time.Duration{time.Second, time.Minute} // of kind thumbnail
	outcome, err := q.Fail(m.r.ctx(), callerOf(w, j), g.Job, g.LeaseID, queue.Failure{Code: "X", RetryPolicy: how, Waits: waits})
	ack, known := j.failed[g.LeaseID]
	switch {
	case w.revoked:
		m.want(t, "fail", err, queue.ErrTokenRevoked)
		return
	case known && ack[0] == w.id && ack[1] == string(how):
		if m.want(t, "fail", err, nil); !outcome.Duplicate {
			t.Fatal("a failure counted twice")
		}
		return
	case known && ack[0] == w.id:
		m.want(t, "fail", err, queue.ErrReported)
		return
	case !m.holds(j, w, g.LeaseID):
		m.want(t, "fail", err, jobs.ErrLeaseLost)
		return
	}
	m.want(t, "fail", err, nil)
	j.failed[g.LeaseID] = [2]string{w.id, string(how)}
	switch {
	case j.cancel && how != queue.Final:
		j.end(canceled)
	case how == queue.Final && j.kind != "":
		j.failures++
		m.deadLetter(g.Job)
	case j.timedOut || how == queue.Final:
		j.retries++
		m.deadLetter(g.Job)
	case how == queue.RetryByKind:
		if j.failures++; j.failures > len(waits) {
			m.deadLetter(g.Job)
		} else {
			j.place, j.runs = delayed, now.Add(waits[j.failures-1])
		}
	case how == queue.ReturnUncounted: // far from the hundredth
		j.place = queued
		m.enqueueNext(g.Job)
	default:
		m.retry(q, g.Job, now)
	}
	if outcome.Dead != (j.place == dead) || outcome.Requeued != (j.place == delayed || j.place == queued) || j.place != canceled && outcome.Retries != j.retries+j.failures {
		t.Fatalf("%+v, but the job is %+v", outcome, j)
	}
}

func (m *model) reap(t *rapid.T) {
	q, now := m.gateway(t)
	reaped, err := q.Reap(m.r.ctx())
	m.want(t, "reap", err, nil)
	var over []jobs.ID
	for id, j := range m.jobs {
		if j.place == leased && !j.ends.After(now.Add(-q.Skew)) {
			over = append(over, id)
		}
	}
	slices.SortFunc(over, func(a, b jobs.ID) int {
		return cmp.Or(m.jobs[a].ends.Compare(m.jobs[b].ends), cmp.Compare(a, b))
	})
	if len(reaped) != len(over) {
		t.Fatalf("reaped %+v, want %v", reaped, over)
	}
	for i, id := range over {
		j := m.jobs[id]
		j.reaped[j.lease] = j.worker
		code := "LEASE_EXPIRED"
		switch {
		case j.cancel:
			j.end(canceled)
			code = "CANCELED"
		case j.timedOut:
			j.retries++
			m.deadLetter(id)
			code = "JOB_TIMEOUT"
		case j.revoked: // far from the hundredth
			j.place, code = queued, "WORKER_REVOKED"
			m.enqueueNext(id)
		default:
			m.retry(q, id, now)
		}
		retries := j.retries + j.failures
		if j.cancel {
			retries = 0
		}
		if want := (queue.Reaped{Job: id, Worker: j.worker, Became: string(j.place), Code: code, Retries: retries, Kind: j.kind}); reaped[i] != want {
			t.Fatalf("reaped %+v, want %+v", reaped[i], want)
		}
	}
}

func (m *model) cancel(t *rapid.T) {
	q, _ := m.gateway(t)
	id, j := m.job(t)
	ended, err := q.Cancel(m.r.ctx(), id)
	m.want(t, "cancel", err, nil)
	want := ""
	switch j.place {
	case finished:
		want = "finished"
	case dead, dropped:
		want = "failed"
	case leased:
		j.cancel = true
	case queued, delayed:
		j.end(canceled)
	case canceled:
		want = "canceled"
	}
	if ended != want {
		t.Fatalf("cancel of a %s job: %q, want %q", j.place, ended, want)
	}
}

// onDead is an operation on a dead letter; others have none.
func (m *model) onDead(t *rapid.T, do func(q *queue.Queue, id jobs.ID) error) (jobs.ID, *modelJob) {
	q, _ := m.gateway(t)
	id, j := m.jobWhere(t, func(j *modelJob) bool { return j.place == dead })
	err := do(q, id)
	if j.place != dead {
		m.want(t, "on no dead letter", err, queue.ErrNoJob)
		t.Skip("no dead letter")
	}
	m.want(t, "on a dead letter", err, nil)
	m.letters[j.kind] = slices.DeleteFunc(m.letters[j.kind], func(l jobs.ID) bool { return l == id })
	return id, j
}

func (m *model) requeue(t *rapid.T) {
	id, j := m.onDead(t, func(q *queue.Queue, id jobs.ID) error { return q.Requeue(m.r.ctx(), id) })
	j.place, j.retries, j.backs, j.timedOut, j.cancel, j.first = queued, 0, 0, false, false, time.Time{}
	j.failures = 0
	m.enqueue(id)
}

func (m *model) drop(t *rapid.T) {
	_, j := m.onDead(t, func(q *queue.Queue, id jobs.ID) error { return q.Drop(m.r.ctx(), id) })
	j.end(dropped)
}

func (m *model) accept(t *rapid.T) {
	q, _ := m.gateway(t)
	id, j := m.jobWhere(t, func(j *modelJob) bool { return j.late })
	err := q.AcceptLate(m.r.ctx(), id)
	if !j.late {
		m.want(t, "accept nothing", err, queue.ErrNoJob)
		return
	}
	m.want(t, "accept", err, nil)
	m.ended[id]++
	m.letters[j.kind] = slices.DeleteFunc(m.letters[j.kind], func(l jobs.ID) bool { return l == id })
	j.end(finished)
	j.worker, j.lease, j.result, j.late, j.reaped = j.lateBy[0], j.lateBy[1], j.lateBy[2], false, map[string]string{}
}

func (m *model) revoke(t *rapid.T) {
	q, now := m.gateway(t)
	i := rapid.IntRange(0, len(m.workers)-1).Draw(t, "worker")
	w := m.workers[i]
	n, err := q.Revoke(m.r.ctx(), w.id)
	m.want(t, "revoke", err, nil)
	if (n.Tokens == 1) == w.revoked {
		t.Fatalf("revoked %+v", n)
	}
	w.revoked = true
	for _, j := range m.jobs {
		if j.place == leased && j.worker == w.id {
			j.ends, j.revoked = now.Add(-q.Skew), true
		}
	}
	if len(m.workers) < 6 {
		m.workers = append(m.workers, m.hire())
	}
}

func (m *model) fsck(t *rapid.T) {
	rep, err := m.r.Fsck(m.r.ctx(), false)
	m.want(t, "fsck", err, nil)
	for kind := range rep.Counts { // what "double" makes
		if kind != "stale entry" && kind != "in the queue twice" && kind != "in two places" {
			t.Fatalf("fsck: %+v", rep.Findings)
		}
	}
}

// check compares Redis with the model.
func (m *model) check(t *rapid.T) {
	ctx, rdb := m.r.ctx(), m.r.rdb
	strs := func(ids []jobs.ID) []string {
		list := make([]string, len(ids))
		for i, id := range ids {
			list[i] = string(id)
		}
		return list
	}
	for _, kind := range []jobs.Kind{"", "thumbnail"} {
		if got := rdb.LRange(ctx, keyOf("queue", kind), 0, -1).Val(); !slices.Equal(got, strs(m.order[kind])) {
			t.Fatalf("queue of kind %q %v, want %v", kind, got, m.order[kind])
		}
		if got := rdb.LRange(ctx, keyOf("dlq", kind), 0, -1).Val(); !slices.Equal(got, strs(m.letters[kind])) {
			t.Fatalf("dead letters of kind %q %v, want %v", kind, got, m.letters[kind])
		}
		if kind == "" {
			continue
		}
		if got, want := rdb.SIsMember(ctx, "zpe:queue_kinds", string(kind)).Val(), len(m.order[kind]) > 0; got != want {
			t.Fatalf("kind %s is registered as one with a queue: %v, want %v", kind, got, want)
		}
		if got, want := rdb.SIsMember(ctx, "zpe:dlq_kinds", string(kind)).Val(), len(m.letters[kind]) > 0; got != want {
			t.Fatalf("kind %s is registered as one with dead letters: %v, want %v", kind, got, want)
		}
	}
	scores := func(key string) map[string]float64 {
		all := map[string]float64{}
		for _, z := range rdb.ZRangeWithScores(ctx, key, 0, -1).Val() {
			id, _ := z.Member.(string)
			all[id] = z.Score
		}
		return all
	}
	delays, index := scores("zpe:delay"), scores("zpe:lease:index")
	listed := map[place]map[string]float64{}
	for list, places := range listedAs {
		listed[list] = scores("zpe:jobs:" + string(list))
		for id, score := range scores("zpe:other_jobs:" + string(list)) {
			if m.jobs[jobs.ID(id)].kind == "" {
				t.Fatalf("%s is of kind zpe, and listed as another", id)
			}
			listed[list][id] = score
		}
		want := 0
		for _, j := range m.jobs {
			if slices.Contains(places, j.place) {
				want++
			}
		}
		if len(listed[list]) != want {
			t.Fatalf("%v are listed as %s, want %d", listed[list], list, want)
		}
	}
	for id, j := range m.jobs {
		var lease, status *redis.MapStringStringCmd
		var retries, result *redis.StringCmd
		var payload *redis.IntCmd
		_, _ = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			lease, status = p.HGetAll(ctx, "zpe:lease:"+string(id)), p.HGetAll(ctx, "zpe:status:"+string(id))
			retries, result = p.Get(ctx, "zpe:retry_count:"+string(id)), p.Get(ctx, "zpe:result:"+string(id))
			payload = p.Exists(ctx, "zpe:payload:"+string(id))
			return nil
		})
		want := map[place]string{
			queued: "queued", delayed: "queued", leased: "started", dead: "failed", dropped: "failed", canceled: "failed", finished: "finished",
		}[j.place]
		if status.Val()["status"] != want {
			t.Fatalf("%s is %s, its status %v", id, j.place, status.Val())
		}
		wantScore := func(all map[string]float64, in place, at time.Time) {
			score, ok := all[string(id)]
			if ok != (j.place == in) || ok && score != float64(at.UnixMilli())/1000 {
				t.Fatalf("%s is %s; %s says %v, %v, want %v", id, j.place, in, ok, score, at.UnixMilli())
			}
		}
		for list, places := range listedAs {
			if score, ok := listed[list][string(id)]; ok != slices.Contains(places, j.place) || ok && score != float64(j.created.UnixMilli()) {
				t.Fatalf("%s is %s and of %d; listed as %s: %v, %v", id, j.place, j.created.UnixMilli(), list, ok, score)
			}
		}
		wantScore(delays, delayed, j.runs)
		wantScore(index, leased, j.ends)
		if l := lease.Val(); len(l) > 0 != (j.place == leased) || len(l) > 0 && (l["worker_id"] != j.worker || l["lease_id"] != j.lease) {
			t.Fatalf("%s is %+v, its lease %v", id, j, l)
		}
		if n := cmp.Or(retries.Val(), "0"); n != fmt.Sprint(j.retries) {
			t.Fatalf("%s has retry count %s, want %d", id, n, j.retries)
		}
		if result.Val() != j.result {
			t.Fatalf("%s has result %q, want %q", id, result.Val(), j.result)
		}
		if has := j.place == queued || j.place == delayed || j.place == leased || j.place == dead; (payload.Val() == 1) != has {
			t.Fatalf("%s is %s, payload=%v", id, j.place, payload.Val())
		}
		if m.ended[id] > 1 {
			t.Fatalf("%s has finished %d times", id, m.ended[id])
		}
	}
	if len(delays)+len(index) > len(m.jobs) {
		t.Fatalf("delay %v and index %v hold more than %d jobs", delays, index, len(m.jobs))
	}
}
