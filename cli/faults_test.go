package cli

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
)

// The promise under real faults: real worker processes, a real redis-server,
// and a ledger at the end. No job is lost and none is recorded twice.

func TestPromiseWorkersKilledAtRandom(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	const n, workers, kills = 200, 5, 15
	ids := make([]jobs.ID, n)
	for i := range ids {
		ids[i] = jobs.ID(fmt.Sprintf("job-%03d", i))
		f.submit(ids[i], 0)
	}
	// A job may be in the hands of several workers that are killed: that is
	// the test's doing, not the job's.
	start := func() *process { return f.start("MAX_CRASHES=100", "CHECKPOINT_INTERVAL=0.1") }
	fleet := make([]*process, workers)
	for i := range fleet {
		fleet[i] = start()
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range kills {
		<-time.After(time.Duration(random.IntN(600)) * time.Millisecond)
		i := random.IntN(workers)
		fleet[i].kill()
		fleet[i] = start()
	}
	f.untilEnded(4*time.Minute, ids)
	f.account("completed", ids...)
}

func TestF17PromiseWorkerStoppedWithAJobInHand(t *testing.T) {
	t.Parallel()
	for range 5 {
		f := newTestFleet(t)
		f.submit("long", 400) // 400 pages of 0.2 s
		first := f.start("MOCK_PAGE_SECONDS=0.2", "DRAIN_TIMEOUT=1s", "CHECKPOINT_INTERVAL=0.5", "LEASE_TTL=600s", "LEASE_EXTEND_EVERY=200s")
		until(f.t, time.Minute, "some pages", func() bool { e, err := f.status.Get(t.Context(), "long"); return err == nil && e.Progress >= 2 })
		code, took := first.terminate()
		// The worker's final call has 1.5 s. If the machine stands still for longer, the
		// run proves nothing. The log then shows the failed call.
		if log := first.log.String(); !strings.Contains(log, "cannot give the claim back") && !strings.Contains(log, "cannot hand the lease back") {
			f.takenOver(code, took)
			return
		}
	}
	t.Error("no worker in five could hand its job back")
}

// takenOver checks that a job is queued again after its worker has ended, and
// that another one finishes it.
func (f *testFleet) takenOver(code int, took time.Duration) {
	t := f.t
	t.Helper()
	if code != 0 || took > 30*time.Second {
		t.Errorf("worker ended with code %d after %s, want 0 after its drain time of 1 s and not at the end of the job", code, took)
	}
	e, err := f.status.Get(t.Context(), "long")
	if err != nil || e.Status != "queued" || e.Message != "Worker stopped; waiting for another worker" {
		t.Errorf("job is %s %q, %v; want it queued again", e.Status, e.Message, err)
	}
	if got, err := f.command("get", "long").Output(); err != nil || !strings.Contains(string(got), "Worker stopped; waiting for another worker") {
		t.Errorf("get does not say why it waits: %v\n%s", err, got)
	}
	second := f.start("MOCK_PAGE_SECONDS=0.01")
	f.untilState(2*time.Minute, "long", "completed") // at once, not after the lease of 600 s
	f.account("completed", "long")
	if !strings.Contains(second.log.String(), "resuming at checkpoint") {
		t.Errorf("the second worker started over:\n%s", second.log)
	}
	if e, _ := f.status.Get(t.Context(), "long"); e.Detail.Crashes != 0 || e.Detail.Attempt != 2 {
		t.Errorf("%d crashes in %d attempts, want none in 2", e.Detail.Crashes, e.Detail.Attempt)
	}
}

func TestF16PromiseRedisStoppedFor20Seconds(t *testing.T) {
	t.Parallel()
	faults := map[string]func(f *testFleet){
		"frozen":               func(f *testFleet) { f.redis.Freeze(); <-time.After(20 * time.Second); f.redis.Resume() },
		"killed and restarted": func(f *testFleet) { f.redis.Kill(); <-time.After(20 * time.Second); f.redis.Start() },
	}
	for name, fault := range faults {
		t.Run(name+" in mid-job", func(t *testing.T) {
			t.Parallel()
			f := newTestFleet(t)
			f.submit("a", 300) // 30 s
			w := f.start("MOCK_PAGE_SECONDS=0.1")
			until(f.t, time.Minute, "some pages", func() bool { e, err := f.status.Get(t.Context(), "a"); return err == nil && e.Progress > 5 })
			fault(f)
			f.untilState(time.Minute, "a", "completed")
			f.account("completed", "a")
			if strings.Contains(w.log.String(), "handed back") {
				t.Errorf("the job was not left to run on:\n%s", w.log)
			}
		})
		t.Run(name+" at the final write", func(t *testing.T) {
			t.Parallel()
			f := newTestFleet(t)
			f.submit("a", 30) // 3 s
			f.start("MOCK_PAGE_SECONDS=0.1")
			until(f.t, time.Minute, "some pages", func() bool { e, err := f.status.Get(t.Context(), "a"); return err == nil && e.Progress > 5 })
			fault(f) // the job ends while Redis is away
			f.untilState(time.Minute, "a", "completed")
			f.account("completed", "a")
			if e, _ := f.status.Get(t.Context(), "a"); e.Detail.Attempt != 1 {
				t.Errorf("%d attempts, want the outcome recorded by the first", e.Detail.Attempt)
			}
		})
	}
}

func TestF07PromiseExtenderBlackHoled(t *testing.T) {
	t.Parallel()
	testrun.Once(t, kills)
	f := newTestFleet(t)
	hole := newBlackHole(t, f.addr)
	f.submit("a", 600) // a minute: more than a lease of 10 s
	cut := f.start("MOCK_PAGE_SECONDS=0.1", "PUBSUB_EMULATOR_HOST="+hole.addr, "WORKER_NAME=cut")
	until(f.t, time.Minute, "it runs", func() bool { return f.state("a") == "processing" })
	hole.swallow.Store(true)
	until(f.t, 30*time.Second, "the cut worker has stopped the job", func() bool { return strings.Contains(cut.log.String(), "lease lost") })
	f.start("MOCK_PAGE_SECONDS=0.01", "WORKER_NAME=whole")
	f.untilState(2*time.Minute, "a", "completed")
	f.account("completed", "a")
	if e, _ := f.status.Get(t.Context(), "a"); e.Detail.Worker != "whole" {
		t.Errorf("recorded by %q, want the worker with a network", e.Detail.Worker)
	}
}

func TestF11PromiseSameMessageTwiceAtOnce(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	job := jobs.Job{ID: "twin", Kind: "mock", Pages: 20}
	workers := []*process{f.start(), f.start(), f.start()}
	for range 3 {
		f.send(job)
	}
	f.untilState(time.Minute, "twin", "completed")
	f.account("completed", "twin")
	e, err := f.status.Get(t.Context(), "twin")
	if err != nil || e.Detail.Attempt != 1 {
		t.Errorf("%d attempts, %v; want one run for three messages", e.Detail.Attempt, err)
	}
	runs := 0
	for _, w := range workers {
		runs += strings.Count(w.log.String(), "PDF has 20 pages")
	}
	if runs != 1 {
		t.Errorf("%d workers ran the job, want one", runs)
	}
}

func TestF12PromiseJobThatKillsItsWorker(t *testing.T) {
	t.Parallel()
	testrun.Once(t, kills)
	f := newTestFleet(t)
	f.submit("killer", 10_000)
	f.submit("innocent", 3)
	for crash := range 3 {
		w := f.start("WORKER_SLOTS=2", fmt.Sprintf("WORKER_NAME=victim-%d", crash))
		until(f.t, time.Minute, "the job runs", func() bool {
			e, err := f.status.Get(t.Context(), "killer")
			return err == nil && e.Status == "processing" && e.Detail.Worker == fmt.Sprintf("victim-%d", crash)
		})
		if crash == 0 {
			f.untilState(time.Minute, "innocent", "completed")
		}
		w.kill()
	}
	f.start()
	f.untilState(time.Minute, "killer", "failed")
	f.account("failed", "killer")
	f.account("completed", "innocent")
	if e, _ := f.status.Get(t.Context(), "killer"); e.ErrorMsg != "worker crashed 3 times" {
		t.Errorf("error_msg is %q", e.ErrorMsg)
	}
}

func TestF19PromiseCancelReachesARunningWorker(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	f.submit("a", 10_000)
	f.start("MOCK_PAGE_SECONDS=300") // nothing is reported while a page lasts
	f.untilState(time.Minute, "a", "processing")
	if _, err := f.status.Cancel(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	f.untilState(time.Minute, "a", "canceled")
	f.account("canceled", "a")
}

// blackHole forwards connections until told to swallow what passes, without
// closing anything: a network that has gone silent.
type blackHole struct {
	addr    string
	swallow atomic.Bool
}

func newBlackHole(t *testing.T, target string) *blackHole {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &blackHole{addr: l.Addr().String()}
	var all sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	keep := func(c net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		conns = append(conns, c)
	}
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			keep(in)
			if h.swallow.Load() {
				continue
			}
			out, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", target)
			if err != nil {
				_ = in.Close()
				continue
			}
			keep(out)
			all.Go(func() { h.forward(out, in) })
			all.Go(func() { h.forward(in, out) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return h
}

func (h *blackHole) forward(dst io.Writer, src io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if err != nil {
			return
		}
		if h.swallow.Load() {
			continue
		}
		if _, err := dst.Write(buf[:n]); err != nil {
			return
		}
	}
}
