package schedule

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/journal"
)

// request returns a job of 300 bytes, or thereabouts.
func request(client string) Submission {
	id := wire.NewGUID()
	body := fmt.Appendf(nil, `{"JobId":%q,"ClientId":%q,"ExecName":%q,"Args":["%0190d"],"Files":[]}`, id, client, "calc", 0)
	return Submission{ID: id, Exec: "calc", Body: Body{Bytes: body, Size: len(body)}, Digest: 1}
}

func worker(id PeerID, features ...string) WorkerInfo {
	return WorkerInfo{ID: wire.GUID{15: byte(id), 14: 1}, Pattern: "job.assign.>", Host: fmt.Sprint("host", id), Features: features}
}

// queue returns a leader with n jobs queued of client a.
func queue(n int) *Core {
	c := New(Config{Epoch: time.Now(), NoRecords: true})
	c.ClientHello(1, 1, "a", 64, nil)
	for range n {
		c.Submit(2, 1, request("a"))
		c.Take()
	}
	return c
}

// BenchmarkNullJob is all that happens to a job that takes no time.
func BenchmarkNullJob(b *testing.B) {
	c := queue(0)
	c.WorkerHello(2, 2, worker(2))
	c.Credit(2, 2, 64)
	s := request("a")
	b.ReportAllocs()
	for i := range b.N {
		nullJob(c, s, Moment(i))
	}
}

func nullJob(c *Core, s Submission, now Moment) {
	s.ID = wire.NewGUID()
	c.Submit(now, 1, s)
	c.Take()
	c.Ack(now, 2, s.ID, wire.GUID{}, Ended{OK: true, Body: s.Body})
	c.Credit(now, 2, 1)
	c.Written(now, 1, []wire.GUID{s.ID})
	c.Take()
}

// BenchmarkAssign gives one job of many to a worker and queues another one.
func BenchmarkAssign(b *testing.B) {
	for _, n := range []int{1_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := queue(n)
			c.WorkerHello(2, 2, worker(2))
			c.Credit(2, 2, 1)
			s := request("a")
			running := take(c, Assign)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				now := Moment(i)
				s.ID = wire.NewGUID()
				c.Submit(now, 1, s)
				c.Ack(now, 2, running, wire.GUID{}, Ended{OK: true, Body: s.Body})
				c.Credit(now, 2, 1)
				c.Written(now, 1, []wire.GUID{running})
				running = take(c, Assign)
			}
		})
	}
}

// take returns the job of the last effect of a kind.
func take(c *Core, op Op) (id wire.GUID) {
	effects, _ := c.Take()
	for _, e := range effects {
		if e.Op == op {
			id = e.Job
		}
	}
	return id
}

// A queued job takes 128 bytes, and its place among all jobs the rest.
func TestG73QueuedJobTakesLittleMemory(t *testing.T) {
	testrun.Long(t, "it takes much memory")
	testrun.Once(t, "it runs in one goroutine")
	const n, most = 1_000_000, 200
	bodies := make([]Submission, n)
	for i := range bodies {
		bodies[i] = request("a")
	}
	used := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := used()
	c := New(Config{Epoch: time.Now(), NoRecords: true})
	c.ClientHello(1, 1, "a", 64, nil)
	for i := range bodies {
		c.Submit(2, 1, bodies[i])
		c.Take()
	}
	per := (used() - before) / n
	t.Logf("%d bytes for each of %d queued jobs, beside its request", per, n)
	if per > most {
		t.Errorf("at most %d", most)
	}
	runtime.KeepAlive(c)
	runtime.KeepAlive(bodies)
}

// BenchmarkRecover opens the journal of a leader with a million jobs queued.
func BenchmarkRecover(b *testing.B) {
	const n = 1_000_000
	dir := b.TempDir()
	opts := journal.Options{Log: testLog(b), CheckpointAfter: 1 << 40}
	j, err := journal.Open(dir, opts, func([]byte) error { return nil })
	if err != nil {
		b.Fatal(err)
	}
	c := New(Config{Epoch: time.Now()})
	c.ClientHello(1, 1, "a", 64, nil)
	for range n {
		c.Submit(2, 1, request("a"))
		_, all := c.Take()
		for _, r := range all {
			j.Append(r)
		}
	}
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		c := New(Config{Epoch: time.Now()})
		j, err := journal.Open(dir, opts, c.Replay)
		if err != nil {
			b.Fatal(err)
		}
		c.Recovered(0)
		b.StopTimer()
		if c.Numbers().Queued != n {
			b.Fatalf("%+v", c.Numbers())
		}
		if err := j.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
