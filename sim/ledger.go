package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2"

	"github.com/batchfleet/batchfleet/jobs"
)

// maxCrashes is after how many crashes a job is given up.
const maxCrashes = 3

// ledger watches a fleet and writes down each promise that is broken. It looks at Redis
// after each script, at the store when an object becomes visible, and at each ack as it is
// sent, and believes no worker.
type ledger struct {
	w *world

	mu       sync.Mutex
	accounts map[jobs.ID]*account
	leases   map[string]heldLease // by their id
	wrong    []string
}

// account is what the ledger knows of a job.
type account struct {
	job
	asked    bool // somebody asked for it to be canceled
	last     record
	owners   map[string]string // processes by the token of their claim
	outcomes []string          // as they were recorded
	deaths   int               // workers that were killed with its claim
	silent   int               // attempts whose claim was taken from them
	failed   int               // attempts that failed and were to be made again
	forgiven bool              // Redis has lost writes since: its counts do not count
}

// record is what Redis has of a job.
type record struct {
	status, message, reason string
	progress                int
	token                   string // of the claim, "!" before it when it was taken away
	until                   string // when the claim ends
	failures                int    // attempts that count as failed
	next                    int64  // ms since 1970, before which no attempt may begin; 0 for none
}

func (r record) ended() bool {
	return r.status == "completed" || r.status == "failed" || r.status == "canceled"
}

// plain is the token as its owner knows it.
func (r record) plain() string { return strings.TrimPrefix(strings.Trim(r.token, "-"), "!") }

func (r record) sameDocument(o record) bool {
	r.token, o.token, r.until, o.until = "", "", "", ""
	r.failures, o.failures, r.next, o.next = 0, 0, 0, 0
	return r == o
}

func newLedger(w *world) *ledger {
	return &ledger{w: w, accounts: map[jobs.ID]*account{}, leases: map[string]heldLease{}}
}

// broken writes down that a promise is broken. l.mu is held.
func (l *ledger) broken(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	l.w.note("BROKEN: %s", line)
	l.wrong = append(l.wrong, line)
}

// isBroken reports whether a promise was broken: then nothing more needs to be waited for.
func (l *ledger) isBroken() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.wrong) > 0
}

func (l *ledger) open(j job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accounts[j.id] = &account{job: j, owners: map[string]string{}}
}

// read returns what Redis has of a job.
func read(db *miniredis.Miniredis, id jobs.ID) record {
	var doc struct {
		Status, Message string
		Progress        int
		Error           string `json:"error_msg"`
	}
	text, err := db.Get("job:" + string(id))
	if err == nil {
		_ = json.Unmarshal([]byte(text), &doc)
	}
	claim := "{job:" + string(id) + "}:claim"
	failures, _ := strconv.Atoi(db.HGet(claim, "failures"))
	next, _ := strconv.ParseInt(db.HGet(claim, "next"), 10, 64)
	return record{doc.Status, doc.Message, doc.Error, doc.Progress, db.HGet(claim, "token"), db.HGet(claim, "until"), failures, next}
}

// wrote looks at what a script of a process has changed of a job.
func (l *ledger) wrote(from string, keys []string) {
	if len(keys) == 0 {
		return
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(keys[0], "{"), "}")
	id, ok := strings.CutPrefix(name, "job:")
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[jobs.ID(id)]
	if !ok || a == nil {
		return
	}
	before, now := a.last, read(l.w.redis.db, a.id)
	a.last = now
	if before == now {
		return
	}
	if now.failures > a.failed {
		l.broken("%d failures of job %s are counted, and there were %d", now.failures, a.id, a.failed)
	}
	l.claimed(a, from, before, now)
	if before.sameDocument(now) {
		if before.token == now.token {
			l.fenced(a, from, before, now)
		}
		return
	}
	if before.status != now.status {
		l.w.note("%s: job %s is %s %s (was %q)", from, a.id, now.status, now.reason, before.status)
	}
	switch {
	case before.ended():
		l.broken("the outcome of job %s was %s %q, and %s made it %s %q", a.id, before.status, before.reason, from, now.status, now.reason)
	case now.ended():
		l.ended(a, now)
	case now.status == "processing" && a.deaths >= maxCrashes && !a.forgiven:
		l.broken("job %s was started again after %d workers had died with it", a.id, a.deaths)
	}
	l.fenced(a, from, before, now)
}

// fenced checks that who has changed the document had the claim. l.mu is held.
func (l *ledger) fenced(a *account, from string, before, now record) {
	if from == client || now.status == "canceled" && now.token == "" {
		return
	}
	if a.owners[before.plain()] == from || a.owners[now.plain()] == from {
		return
	}
	if before.token == "" && (before.status == "" || before.status == "queued") && strings.HasPrefix(now.message, "no worker for kind") {
		return // it leaves the job to others
	}
	if before.token == "" && l.w.isLossy() {
		return // an attempt that Redis had forgotten ends
	}
	l.broken("%s wrote %s %d %q of job %s, whose claim is of %q", from, now.status, now.progress, now.message, a.id, a.owners[before.plain()])
}

// claimed follows the claim. l.mu is held.
func (l *ledger) claimed(a *account, from string, before, now record) {
	had, has := before.plain(), now.plain()
	switch {
	case before.token == now.token:
		return
	case had == has: // marked as taken away
		l.taken(a, from, had)
		return
	case has == "":
		return
	}
	if had != "" && !strings.HasPrefix(before.token, "!") {
		l.taken(a, from, had)
	}
	if had != "" {
		a.silent++
	}
	if clock := l.w.redis.clock().UnixMilli(); before.next > clock {
		l.broken("%s began with job %s %d ms before its next attempt", from, a.id, before.next-clock)
	}
	a.owners[has] = from
	l.w.note("%s: claims job %s", from, a.id)
}

// taken checks that a claim was taken from a worker that may have been silent. l.mu is held.
func (l *ledger) taken(a *account, from, token string) {
	owner := a.owners[token]
	l.w.note("%s: takes the claim of job %s from %s", from, a.id, owner)
	if owner != "" && !l.w.excused(owner) {
		l.broken("%s took the claim of job %s from %s, which had no fault", from, a.id, owner)
	}
}

// ended checks an outcome that was just recorded. l.mu is held.
func (l *ledger) ended(a *account, now record) {
	a.outcomes = append(a.outcomes, now.status)
	switch now.status {
	case "completed":
		if why := l.incomplete(a); why != "" {
			l.broken("job %s was recorded as completed, and %s", a.id, why)
		}
		if a.does == fails {
			l.broken("job %s was recorded as completed, and it always fails", a.id)
		}
	case "canceled":
		if !a.asked {
			l.broken("job %s was canceled, and nobody had asked for it", a.id)
		}
	case "failed":
		l.failed(a, now.reason)
	}
}

// failed checks that the failure is the job's own. l.mu is held.
func (l *ledger) failed(a *account, reason string) {
	switch {
	case strings.HasPrefix(reason, "worker crashed"):
		if a.silent < maxCrashes && !a.forgiven {
			l.broken("job %s was given up after %d crashes: %s", a.id, a.silent, reason)
		}
	case a.does == fails && reason == ownFault:
		if a.failed < a.failures {
			l.broken("job %s was recorded as failed after %d failures, and was to be tried %d times more", a.id, a.failed, a.failures-a.failed)
		}
	default:
		l.broken("job %s was recorded as failed, and that was not its fault: %s", a.id, reason)
	}
}

// incomplete returns what is missing of a job's result, or nothing.
func (l *ledger) incomplete(a *account) string {
	var summary struct {
		ID    jobs.ID `json:"job_id"`
		Pages int     `json:"pages"`
	}
	text, ok := l.w.objects.get("results/" + string(a.id) + "/result.json")
	if !ok {
		return "its result.json is not there"
	}
	if err := json.Unmarshal(text, &summary); err != nil || summary.ID != a.id || summary.Pages != a.pages {
		return fmt.Sprintf("its result.json is %q (%v)", text, err)
	}
	pages, _ := l.w.objects.get("results/" + string(a.id) + "/pages.jsonl")
	if n := bytes.Count(pages, []byte("\n")); n != a.pages {
		return fmt.Sprintf("its pages.jsonl has %d pages of %d", n, a.pages)
	}
	return ""
}

// put looks at an object that has become visible.
func (l *ledger) put(from, name string, _, _ []byte) {
	id, _, _ := strings.Cut(strings.TrimPrefix(name, "results/"), "/")
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[jobs.ID(id)]
	if a == nil {
		return
	}
	l.w.note("%s: stores %s", from, name)
	owner := a.owners[a.last.plain()]
	switch {
	case l.w.justLost(): // for a moment two may think that the job is theirs
	case a.last.ended():
		l.broken("%s stored %s, and the job had been %s", from, name, a.last.status)
	case owner != "" && owner != from && !strings.HasPrefix(a.last.token, "!"):
		l.broken("%s stored %s, and the job was %s's", from, name, owner)
	}
}

// acking looks at an ack that a process is about to send.
func (l *ledger) acking(from string, id jobs.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[id]
	if a == nil || l.w.process(from).isDead() {
		return
	}
	l.w.note("%s: acks job %s", from, id)
	if len(a.outcomes) == 0 {
		l.broken("%s acked job %s, and no outcome was on record", from, id)
	}
}

// killed counts the jobs that a process had claimed when it was killed.
func (l *ledger) killed(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.accounts {
		if a.last.token != "" && a.owners[a.last.plain()] == name && !a.last.ended() {
			a.deaths++
		}
	}
}

// moved is told that Redis is another one, which has lost what was last written.
func (l *ledger) moved() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.accounts {
		was := a.last
		a.last, a.forgiven = read(l.w.redis.db, a.id), true
		if was.ended() && !a.last.ended() {
			l.w.note("redis has lost that job %s is %s", a.id, was.status)
		}
	}
}

// canceled is told that somebody asks for a job to be canceled.
func (l *ledger) canceled(id jobs.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accounts[id].asked = true
}

// isDone reports whether nothing more is to happen to a job. Where Redis has lost all that
// it knew of a job that had failed or was canceled, nobody can know that there was one.
func (a *account) isDone() bool {
	forgotten := a.last.status == "" && a.forgiven && len(a.outcomes) > 0 && a.outcomes[len(a.outcomes)-1] != "completed"
	return a.last.ended() || forgotten
}

// unfinished returns the jobs that have no outcome on record.
func (l *ledger) unfinished() (left []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.accounts {
		if !a.isDone() {
			left = append(left, fmt.Sprintf("job %s is %q %q", a.id, a.last.status, a.last.message))
		}
	}
	return left
}
