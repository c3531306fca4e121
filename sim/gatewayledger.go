package sim

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// gatewayLedger watches gateways. It looks at the queue in Redis after each script.
type gatewayLedger struct {
	w *world

	mu       sync.Mutex
	accounts map[jobs.ID]*gatewayAccount
	places   map[string]*place // of agents, by their worker id
	wrong    []string
}

// gatewayAccount is what the ledger knows of a job.
type gatewayAccount struct {
	job
	asked     bool // to be canceled
	submitted bool // the queue has said that it has it
	answered  bool // an agent was told that its result is kept
	last      queued
	owner     string // the process that holds the lease
	astray    bool   // the lease may be nobody's: given to a process that had died, or ended and lost
	extended  time.Time
	grants    int  // leases there have been
	forgiven  bool // Redis has lost writes since
}

// queued is what Redis has of a job.
type queued struct {
	status, detail, code, result string
	worker, lease                string // of its lease
	indexed, delayed             bool
	end                          float64 // of its lease
	retries                      int
}

func (q queued) ended() bool { return q.status == "finished" || q.status == "failed" }

func newGatewayLedger(w *world, list []job) *gatewayLedger {
	l := &gatewayLedger{w: w, accounts: map[jobs.ID]*gatewayAccount{}, places: map[string]*place{}}
	for _, j := range list {
		l.accounts[j.id] = &gatewayAccount{job: j}
	}
	return l
}

// broken writes down that a promise is broken. l.mu is held.
func (l *gatewayLedger) broken(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	l.w.note("BROKEN: %s", line)
	l.wrong = append(l.wrong, line)
}

func (l *gatewayLedger) failf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken(format, args...)
}

// readQueued returns what Redis has of a job.
func readQueued(db *miniredis.Miniredis, id jobs.ID) (q queued) {
	status, lease := "zpe:status:"+string(id), "zpe:lease:"+string(id)
	q.status, q.detail, q.code = db.HGet(status, "status"), db.HGet(status, "detail"), db.HGet(status, "error_code")
	q.worker, q.lease = db.HGet(lease, "worker_id"), db.HGet(lease, "lease_id")
	q.result, _ = db.Get("zpe:result:" + string(id))
	count, _ := db.Get("zpe:retry_count:" + string(id))
	q.retries, _ = strconv.Atoi(count)
	index, _ := db.SortedSet("zpe:lease:index")
	delay, _ := db.SortedSet("zpe:delay")
	q.end, q.indexed = index[string(id)]
	_, q.delayed = delay[string(id)]
	return q
}

// wrote looks at what a script has changed. Scripts learn from the queue which jobs they
// work on, so it looks at all.
func (l *gatewayLedger) wrote(from string, _ []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.accounts {
		before, now := a.last, readQueued(l.w.redis.db, a.id)
		if a.last = now; before != now {
			l.changed(a, from, before, now)
		}
	}
}

// changed checks one step of a job. l.mu is held.
func (l *gatewayLedger) changed(a *gatewayAccount, from string, before, now queued) {
	if before.status != now.status || before.lease != now.lease {
		l.w.note("%s: job %s is %s %s %s, %d retries, lease of %s", from, a.id, now.status, now.detail, now.code, now.retries, l.nameOf(now.worker))
	}
	l.onePlace(a, now)
	// A fault of long ago may have kept the agent from hearing of its lease, and a gateway that goes on
	// extends leases that their agents have given up: it has their requests from before.
	since := a.extended.Add(-10 * time.Second)
	if before.ended() && before.status != now.status {
		l.broken("job %s was %s and is %s", a.id, before.status, now.status)
	}
	if !now.ended() && now.retries > queue.DefaultRules.MaxRetries {
		l.broken("job %s has failed %d times and is to run again", a.id, now.retries)
	}
	if now.lease != before.lease && now.lease != "" {
		a.grants++
		a.owner = l.nameOf(now.worker)
		place, _, _ := strings.Cut(a.owner, ".")
		a.astray = l.w.anyExcused(place+".") || l.w.excused(from) // it may answer a request of long ago
	}
	if now.end != before.end {
		a.extended = time.Now()
	}
	expired := before.lease != "" && now.lease == "" && now.code == "LEASE_EXPIRED" && before.code != now.code
	if expired && !a.astray && !l.w.excused(a.owner) && !l.w.hadFault(a.owner, since) && !l.w.hadFault("gateway", since) {
		l.broken("the lease of job %s was taken from %s, which had no fault", a.id, a.owner)
	}
	if !before.ended() && now.ended() {
		l.ended(a, before, now)
	}
	if before.result != now.result && now.result != wantResult(a.id) {
		l.broken("the result of job %s is %q", a.id, now.result)
	}
}

// onePlace checks that a job is in exactly one place. l.mu is held.
func (l *gatewayLedger) onePlace(a *gatewayAccount, now queued) {
	leased := now.lease != ""
	if leased != now.indexed || leased != (now.status == "started") || leased && now.delayed || now.ended() && now.delayed {
		l.broken("job %s is in no place or in two: %+v", a.id, now)
	}
}

// ended checks how a job has ended. l.mu is held.
func (l *gatewayLedger) ended(a *gatewayAccount, before, now queued) {
	switch {
	case now.status == "finished":
		if now.result == "" {
			l.broken("job %s is finished and has no result", a.id)
		}
		if before.lease == "" && !l.w.isLossy() {
			l.broken("job %s was finished without a lease", a.id)
		}
	case now.detail == "canceled":
		if !a.asked {
			l.broken("job %s was canceled, and nobody had asked for it", a.id)
		}
	case a.does == fails && now.code == faultCode && a.pages%2 == 0:
	case now.retries <= queue.DefaultRules.MaxRetries, a.grants <= queue.DefaultRules.MaxRetries:
		l.broken("job %s is a dead letter after %d leases and %d failures: %s", a.id, a.grants, now.retries, now.code)
	}
}

// nameOf returns the process that a worker id is of now.
func (l *gatewayLedger) nameOf(worker string) string {
	if s := l.places[worker]; s != nil {
		if p, _ := s.current(); p != nil {
			return p.name
		}
	}
	return worker
}

// moved is told that Redis is another one, which has lost what was last written. What was
// answered it must have, because the queue waits for replicas.
func (l *gatewayLedger) moved() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.accounts {
		a.last, a.forgiven = readQueued(l.w.redis.db, a.id), true
		a.astray = true // a failure that was answered may be lost: then nobody has the lease
		if a.submitted && a.last.status == "" {
			l.broken("job %s was submitted, and a failover has lost it", a.id)
		}
		if a.answered && a.last.status != "finished" {
			l.broken("the result of job %s was answered, and a failover has lost it", a.id)
		}
	}
}

func (l *gatewayLedger) mark(id jobs.ID, set func(*gatewayAccount)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	set(l.accounts[id])
}

func (l *gatewayLedger) isBroken() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.wrong) > 0
}

// unfinished returns the jobs that have not ended.
func (l *gatewayLedger) unfinished() (left []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.accounts {
		if !a.last.ended() {
			left = append(left, fmt.Sprintf("job %s is %+v", a.id, a.last))
		}
	}
	return left
}

// watchedPlane tells the ledger which results were answered.
type watchedPlane struct {
	gateway.ControlPlane
	ledger *gatewayLedger
}

// Result implements [gateway.ControlPlane].
func (p watchedPlane) Result(ctx context.Context, id string, q wire.ResultRequest) (wire.ReportResponse, error) {
	a, err := p.ControlPlane.Result(ctx, id, q)
	if err == nil {
		p.ledger.answered(jobs.ID(id))
	}
	return a, err
}

// answered is told that an agent forgets a result, because the gateway has it.
func (l *gatewayLedger) answered(id jobs.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[id]
	a.answered = true
	if a.last.status != "finished" {
		l.broken("the result of job %s was answered, and the job is %s", id, a.last.status)
	}
}
