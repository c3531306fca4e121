package schedule

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// counted is what is counted twice: by the Core as it goes on, and here by looking at all there is.
type counted struct {
	open, attempts, recovering, busyExecs, dead, acked int
	bytes, ackedBytes                                  int64
}

// audit looks at the whole state for what must hold after each Take.
func audit(tb testing.TB, c *Core) {
	tb.Helper()
	fail := func(format string, args ...any) { tb.Helper(); tb.Fatalf(format, args...) }
	want := counted{busyExecs: 0}
	queuedIn := map[*line]int{}
	jobsOf := map[*line]int{}
	runningOf := map[*client]int{}
	resultsOf := map[*client]int64{}
	runningAt := map[*peer]int{}
	blobs := map[[32]byte]int{}
	if len(c.jobs) != len(c.order.jobs)-c.order.missing {
		fail("%d jobs, and %d of them in order", len(c.jobs), len(c.order.jobs)-c.order.missing)
	}
	for id, j := range c.jobs {
		if j.id != id || j.state == 0 {
			fail("job %s is %s in state %d", id, j.id, j.state)
		}
		want.bytes += j.theBody().memory()
		for digest := range slices.Chunk(j.theBody().Blobs, 32) {
			blobs[[32]byte(digest)]++
		}
		if j.rare != nil && j.rare.log != nil {
			want.bytes += int64(j.rare.log.bytes)
		}
		jobsOf[j.line]++
		if c.clients[j.line.client.name].lines[c.execs[j.line.exec.key]] != j.line {
			fail("job %s is in a line that was dropped", id)
		}
		if j.isOpen() {
			want.open++
		}
		switch j.state {
		case queued:
			queuedIn[j.line]++
			if !slices.ContainsFunc(j.line.lanes, func(l *lane) bool { return j.list == &l.list && l.priority == j.options().priority }) {
				fail("job %s is queued, and not in its lane", id)
			}
		case delayed:
			n := int(j.attempts)
			most := min(c.cfg.MaxTimeout, c.cfg.AcceptTimeout<<max(0, n-1))
			if d := j.rare.timer.at - j.since; j.rare.timer.index == 0 || d < most*8/10-1 || d > most*12/10+1 {
				fail("P6: attempt %d is %s after the one before it, want %s", n+1, d, most)
			}
		case running:
			runningOf[j.line.client]++
			if j.run == nil {
				want.recovering++
				if j.list != &c.recovering {
					fail("job %s is with no worker", id)
				}
				break
			}
			want.attempts++
			w := j.run.worker
			runningAt[w]++
			if j.list != nil || c.peers[w.id] != w || w.running[j.run.place] != j.run || j.run.timer.index == 0 {
				fail("job %s runs, and its worker does not know", id)
			}
		case parent:
			a := j.rare.array
			if j.list != nil || int64(len(a.open)) != a.next-a.first-a.ended || len(a.open) == 0 {
				fail("array %s waits for %d jobs: %+v", id, len(a.open), *a)
			}
		case dead:
			want.dead++
			want.bytes += int64(len(j.rare.dead.result))
			if !slices.Contains(c.dead, j) {
				fail("dead letter %s is not among them", id)
			}
		case ended:
			if j.list == &c.acked {
				want.acked++
				want.ackedBytes += int64(j.result().Size)
			} else if j.list == nil {
				fail("the result of %s is nowhere", id)
			}
		}
		if c.owed(j) {
			resultsOf[j.line.client] += int64(j.result().Size)
			where := &j.line.client.waiting
			if p := c.peers[j.owner]; j.list != where && (p == nil || p.client != j.line.client || j.list != &p.unsent && j.list != &p.sent) {
				fail("the result of %s is with no connection of its client", id)
			}
		}
		if int(j.attempts) > c.maxAttempts(j) || j.isOpen() && int(j.attempts) >= c.maxAttempts(j) {
			fail("P6: job %s has had %d attempts, at most %d", id, j.attempts, c.maxAttempts(j))
		}
		if (j.rare != nil && j.rare.tied != nil) && (!j.isOpen() || !j.rare.tied.tied[j]) {
			fail("job %s is tied, and its connection does not know", id)
		}
	}
	for _, e := range c.execs {
		if e.queued > 0 {
			want.busyExecs++
		}
	}
	got := counted{
		open: c.open, attempts: c.attempts, recovering: c.recovering.n, busyExecs: c.busyExecs, dead: len(c.dead), acked: c.acked.n, bytes: c.bytes, ackedBytes: c.acked.bytes,
	}
	if !maps.Equal(c.blobs, blobs) {
		fail("blobs are needed by %v, counted %v", c.blobs, blobs)
	}
	if got != want {
		fail("counters %+v, counted %+v", got, want)
	}
	auditClients(tb, c, jobsOf, queuedIn, runningOf, resultsOf)
	auditWorkers(tb, c, runningAt)
}

func auditClients(tb testing.TB, c *Core, jobsOf, queuedIn map[*line]int, runningOf map[*client]int, resultsOf map[*client]int64) {
	tb.Helper()
	queuedFor, linesOf := map[*exec]int{}, map[*exec]int{}
	for name, cl := range c.clients {
		if len(cl.lines) == 0 && len(cl.sessions) == 0 {
			tb.Fatalf("client %s has nothing", name)
		}
		if cl.running != runningOf[cl] || cl.results != resultsOf[cl] {
			tb.Fatalf("client %s: %d running and %d bytes of results, counted %d and %d", name, cl.running, cl.results, runningOf[cl], resultsOf[cl])
		}
		if slices.ContainsFunc(cl.sessions, func(s *peer) bool { return !s.features.own }) && cl.waiting.n > 0 {
			tb.Fatalf("client %s is here, and %d results wait", name, cl.waiting.n)
		}
		for _, s := range cl.sessions {
			if s.unsent.n > 0 && s.sent.bytes < int64(c.cfg.ResultWindow) {
				tb.Fatalf("results of client %s are not sent", name)
			}
			for j := range s.tied {
				if j.rare.tied != s {
					tb.Fatalf("job %s is tied elsewhere", j.id)
				}
			}
		}
		for e, l := range cl.lines {
			linesOf[e]++
			queuedFor[e] += l.n
			if c.execs[e.key] != e || l.n != queuedIn[l] || l.jobs != jobsOf[l] || l.jobs == 0 {
				tb.Fatalf("line of %s for %v: %d queued of %d, counted %d of %d", name, e.key, l.n, l.jobs, queuedIn[l], jobsOf[l])
			}
			if (l.n > 0) != (l.turn.in == &e.ring || l.turn.in == &cl.held) {
				tb.Fatalf("line of %s for %v has %d jobs queued, and waits: %t", name, e.key, l.n, l.turn.in != nil)
			}
			if l.turn.in == &cl.held && cl.hasRoom(c) {
				tb.Fatalf("P2: client %s has room, and its line for %v is held", name, e.key)
			}
			if l.turn.in == &e.ring && cl.hasRoom(c) && e.hasWorker() {
				tb.Fatalf("P2: a job of %s for %v could be given to a worker", name, e.key)
			}
		}
	}
	for key, e := range c.execs {
		if e.key != key || e.lines != linesOf[e] || e.lines == 0 || e.queued != queuedFor[e] {
			tb.Fatalf("exec %v: %d lines, %d queued, counted %d and %d", key, e.lines, e.queued, linesOf[e], queuedFor[e])
		}
		if (e.ring.n > 0) != e.starving || e.turn.in != nil {
			tb.Fatalf("exec %v has %d lines to serve, starving: %t, ready: %t", key, e.ring.n, e.starving, e.turn.in != nil)
		}
	}
}

func auditWorkers(tb testing.TB, c *Core, runningAt map[*peer]int) {
	tb.Helper()
	workers := map[*group]int{}
	for id, p := range c.peers {
		if p.id != id {
			tb.Fatalf("peer %d is %d", id, p.id)
		}
		if p.group == nil {
			continue
		}
		workers[p.group]++
		if p.credit < 0 || p.credit+len(p.running) > p.limit && p.credit > 0 {
			tb.Fatalf("P2: worker %d has credit %d and %d jobs, at most %d", id, p.credit, len(p.running), p.limit)
		}
		if len(p.running) != runningAt[p] {
			tb.Fatalf("worker %d runs %d, counted %d", id, len(p.running), runningAt[p])
		}
		if (p.index > 0) != (p.credit > 0 && !p.draining && !p.withheld) || p.index > 0 && p.group.free[p.index-1] != p {
			tb.Fatalf("worker %d has credit %d, draining: %t, and the place %d", id, p.credit, p.draining, p.index)
		}
	}
	for key, g := range c.groups {
		if g.key != key || g.workers != workers[g] || g.workers == 0 {
			tb.Fatalf("group %v: %d workers, counted %d", key, g.workers, workers[g])
		}
		n := 0
		for _, e := range c.execs {
			i := slices.IndexFunc(e.members, func(m *member) bool { return m.group == g })
			if (i >= 0) != (g.takes(e.key) && c.paused[e.key.name] == 0) {
				tb.Fatalf("group %v takes %v: %t", key, e.key, i < 0)
			}
			if i >= 0 && e.starving {
				n++
			}
		}
		if g.starving.n != n {
			tb.Fatalf("group %v: %d execs wait, counted %d", key, g.starving.n, n)
		}
	}
}

// dump has what must be the same after a replay, a text for each job.
func dump(c *Core) map[wire.GUID]string {
	all := map[wire.GUID]string{}
	at := func(m Moment) int64 { return c.cfg.Epoch.Add(m).UnixNano() }
	for id, j := range c.jobs {
		where := map[state]string{queued: "queued", delayed: "queued", running: "running", parent: "array", ended: "ended", dead: "dead"}[j.state]
		if j.isOpen() && j.isArray() {
			where = "array"
		}
		opts, tried := *j.options(), fmt.Sprintf("attempts %d crashes %d", j.attempts, j.crashes)
		if j.state == ended { // only what matters from now on is kept
			opts, tried = options{}, ""
		}
		text := fmt.Sprintf("%s %s %v %s %s outcome %d body %q %q digest %d born %d", j.line.client.name, j.line.exec.key.name, opts, where,
			tried, j.outcome, j.theBody().Bytes, j.theBody().Blobs, j.digest, at(j.born))
		if r := j.rare; r != nil {
			if j.state != ended {
				text += fmt.Sprintf(" cancel %t history %d", r.cancel && j.isOpen(), len(r.history))
			}
			if r.notAfter > 0 && j.isOpen() {
				text += fmt.Sprintf(" before %d", at(max(r.notAfter, c.now))/1000)
			}
			if r.index >= 0 {
				text += fmt.Sprintf(" %s[%d] %t", r.arrayID, r.index, r.array != nil)
			}
			if r.array != nil && r.index < 0 && j.isOpen() {
				text += fmt.Sprintf(" next %d ended %d failed %d of %d-%d", r.array.next, r.array.ended, r.array.failed, r.array.first, r.array.last)
			}
			if r.dead != nil {
				text += fmt.Sprintf(" dead %s %q", r.dead.reason, r.dead.result)
			}
			if j.state == running && j.run == nil {
				text += " attempt " + r.attempt.String()
			}
		} else if j.state != ended {
			text += " cancel false history 0"
		}
		if j.run != nil {
			text += " attempt " + j.run.id.String()
		}
		if j.state == ended && j.outcome == jobs.Failed && j.rare != nil && j.rare.last != "" {
			text += " last " + j.rare.last
		}
		all[id] = text
	}
	return all
}
