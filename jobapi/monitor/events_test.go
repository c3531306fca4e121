package monitor_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/access"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestD09ChangesOfAllScopesAreSentAsTheyHappen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, n, p := newFleet(), notifying{newPlain(), &jobapi.Changes{}}, newPlain()
		n.plain.put("job_u", "utils.purge", jobs.Running)
		g := serve(t, of("fleet", f, "utils", n, "grid", p))
		all := g.follow(t, "")
		all.want(t, "reset")
		time.Sleep(time.Second)
		f.put("a", "fleet.pdf", jobs.Queued)
		all.want(t, "reset", "a queued")
		time.Sleep(time.Second)
		f.put("a", "fleet.pdf", jobs.Running)
		all.want(t, "a running")
		n.put("job_u", "utils.purge", jobs.Succeeded)
		all.want(t, "job_u succeeded")
		p.put("g", "grid.go", jobs.Queued) // which tells nothing
		all.want(t, "g queued")
		g.stop()
	})
}

func TestD09StreamsHaveWhatTheyAskForAndWhatLeavesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, other := newFleet(), newFleet()
		f.put("old", "fleet.pdf", jobs.Running)
		g := serve(t, of("fleet", f, "zpe", other))
		streams := map[string]*events{}
		for _, query := range []string{"", "?scope=zpe", "?kind=pdf", "?status=running", "?status=failed&scope=fleet"} {
			streams[query] = g.follow(t, query)
		}
		time.Sleep(time.Second)
		step := func(id, jobType string, state jobs.State) {
			into := f
			if strings.HasPrefix(jobType, "zpe") {
				into = other
			}
			into.put(id, jobType, state)
			time.Sleep(time.Second)
		}
		step("old", "fleet.pdf", jobs.Succeeded) // it was running before anybody looked
		step("a", "fleet.pdf", jobs.Queued)
		step("a", "fleet.pdf", jobs.Running)
		step("b", "fleet.ocr", jobs.Queued)
		step("z", "zpe.calc", jobs.Running)
		step("a", "fleet.pdf", jobs.Failed)
		step("a", "fleet.pdf", jobs.Queued)
		step("end", "fleet.pdf", jobs.Failed)
		step("end", "zpe.pdf", jobs.Failed)
		for query, want := range map[string]string{
			"":                           "old succeeded,a queued,a running,b queued,z running,a failed,a queued,end failed,end failed",
			"?scope=zpe":                 "z running,end failed",
			"?kind=pdf":                  "old succeeded,a queued,a running,a failed,a queued,end failed,end failed",
			"?status=running":            "old succeeded,a running,z running,a failed,end failed,end failed",
			"?status=failed&scope=fleet": "a failed,a queued,end failed",
		} {
			t.Logf("stream %q", query)
			streams[query].want(t, append([]string{"reset"}, strings.Split(want, ",")...)...)
		}
		g.stop()
	})
}

func TestD09AStreamGoesOnWhereItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		g := serve(t, of("fleet", f))
		first := g.follow(t, "")
		first.want(t, "reset")
		time.Sleep(time.Second)
		f.put("a", "fleet.pdf", jobs.Queued)
		firstID := first.want(t, "reset", "a queued")
		first.close()
		time.Sleep(time.Second)
		f.put("b", "fleet.pdf", jobs.Queued)
		time.Sleep(20 * time.Second)
		f.put("c", "fleet.pdf", jobs.Queued)
		f.put("c", "fleet.pdf", jobs.Running)
		time.Sleep(5 * time.Second)
		again := g.follow(t, "", "Last-Event-ID", firstID)
		againID := again.want(t, "b queued", "c running")
		again.close()
		for _, id := range []string{"", "x", "-1", "nonsense-1", firstID + "9", strings.Repeat("x", 1000) + "-1", "<b>-1"} {
			lost := g.follow(t, "", "Last-Event-ID", id)
			lost.want(t, "reset")
			lost.close()
		}
		// After a while without a stream nothing is read, and what was missed is not known.
		time.Sleep(time.Minute)
		f.put("d", "fleet.pdf", jobs.Queued)
		late := g.follow(t, "", "Last-Event-ID", againID)
		late.want(t, "reset")
		time.Sleep(time.Second)
		f.put("e", "fleet.pdf", jobs.Queued)
		late.want(t, "reset", "e queued")
		g.stop()
	})
}

func TestD09AStreamThatMissesTooMuchReadsAllAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		g := serve(t, of("fleet", f))
		keep := g.follow(t, "?kind=none")
		keep.want(t, "reset")
		time.Sleep(time.Second)
		first := g.follow(t, "?kind=pdf")
		first.want(t, "reset")
		f.put("a", "fleet.pdf", jobs.Queued)
		firstID := first.want(t, "a queued")
		first.close()
		for i := range 10_001 {
			f.put(fmt.Sprintf("job_%d", i), "fleet.pdf", jobs.Queued)
			if i%100 == 0 {
				time.Sleep(time.Second)
			}
		}
		time.Sleep(10 * time.Second)
		again := g.follow(t, "?kind=pdf", "Last-Event-ID", firstID)
		again.want(t, "reset")
		f.put("b", "fleet.pdf", jobs.Queued)
		again.want(t, "b queued")
		g.stop()
	})
}

func TestD09AFewWritesASecondHaveTheNewestOfEachJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		g := serve(t, of("fleet", f))
		s := g.follow(t, "")
		s.want(t, "reset")
		time.Sleep(time.Second)
		f.took("Get")
		for i := range 200 { // in 2 s
			f.put("a", "fleet.pdf", []jobs.State{jobs.Queued, jobs.Running}[i%2])
			time.Sleep(10 * time.Millisecond)
		}
		f.put("a", "fleet.pdf", jobs.Succeeded)
		time.Sleep(time.Second)
		if n := f.took("Get"); n > 13 {
			t.Errorf("%d rounds in 2 s", n)
		}
		n := 0
		for e := s.next(); e.word != "a succeeded"; e = s.next() {
			n++
		}
		if n > 14 {
			t.Errorf("%d events before the last", n)
		}
		g.stop()
	})
}

func TestD21TheStoreIsReadOnceForAllStreamsAndOnlyWhileThereAreSome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		g := serve(t, of("fleet", f))
		time.Sleep(100 * time.Second)
		if n := f.took("Count", "List", "Get", "Workers", "Paused", "Kinds"); n > 11 {
			t.Errorf("there were %d calls in 100 s without a request", n)
		}
		var streams []*events
		for i := range 500 {
			s := g.follow(t, "")
			s.want(t, "reset")
			if i == 0 {
				s.want(t, "reset") // reading has begun
			}
			streams = append(streams, s)
		}
		for range 100 { // and the overview is asked for all the time
			g.overview(t)
			time.Sleep(time.Second)
		}
		if n := f.took("Count", "List", "Get", "Workers", "Paused", "Kinds"); n > 100 {
			t.Errorf("nothing changes, and there were %d calls in 100 s", n)
		}
		f.put("a", "fleet.pdf", jobs.Queued)
		time.Sleep(time.Second)
		if n := f.took("Get"); n != 1 {
			t.Errorf("%d calls for one change and 500 streams", n)
		}
		for _, s := range streams {
			s.want(t, "a queued")
			s.close()
		}
		g.stop()
	})
}

func TestD09TenThousandStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("10 000 connections take some seconds")
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		g := serve(t, of("fleet", f))
		streams := make([]*events, 10_000)
		for i := range streams {
			streams[i] = g.follow(t, "")
		}
		if status, body := g.ask(t, http.MethodGet, "events"); status != 503 || !strings.Contains(body, "UNAVAILABLE") {
			t.Errorf("one more: %d %s", status, body)
		}
		time.Sleep(time.Second)
		f.put("a", "fleet.pdf", jobs.Queued)
		var all sync.WaitGroup
		for _, s := range streams {
			all.Go(func() {
				s.want(t, "reset", "a queued")
				s.close()
			})
		}
		all.Wait()
		time.Sleep(time.Second)
		want := "# HELP batchfleet_jobapi_listeners Requests that follow a job or wait for one.\n# TYPE batchfleet_jobapi_listeners gauge\nbatchfleet_jobapi_listeners{scope=\"all\"} 0\n"
		if err := testutil.GatherAndCompare(g.registry, strings.NewReader(want), "batchfleet_jobapi_listeners"); err != nil {
			t.Error(err)
		}
		g.stop()
	})
}

func TestD09AQuietStreamIsKeptOpenAndEndsWithItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "tokens")
		token, err := access.AddToken(file, "short", access.Read, time.Now().Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		s := of("fleet", newFleet())
		if s.Guard, err = jobapi.OpenTokens(file, "", slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		g := serve(t, s)
		begun := time.Now()
		e := g.follow(t, "", "Authorization", "Bearer "+token)
		beats := 0
		for one := e.next(); one.word != "closed"; one = e.next() {
			if one.word == ":" {
				beats++
			}
		}
		if took := time.Since(begun); beats < 3 || took < time.Minute || took > 70*time.Second {
			t.Errorf("%d heartbeats in %v", beats, took)
		}
		g.stop()
	})
}

func TestD09AStreamThatTakesNothingInIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		g := serve(t, of("fleet", f))
		stuck := g.open(t, http.MethodGet, "events")
		for i := range 300 {
			f.put(fmt.Sprintf("job_%d_%s", i, strings.Repeat("x", 80)), "fleet."+strings.Repeat("k", 60), jobs.Queued)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(15 * time.Second)
		if _, err := io.Copy(io.Discard, stuck.Body); err == nil {
			t.Error("the stream of a listener that took nothing in ended well")
		}
		_ = stuck.Body.Close()
		want := "# HELP batchfleet_jobapi_listeners_dropped_total Listeners cut off because they were too slow for a log or took in nothing.\n# TYPE batchfleet_jobapi_listeners_dropped_total counter\nbatchfleet_jobapi_listeners_dropped_total{scope=\"all\"} 1\n"
		if err := testutil.GatherAndCompare(g.registry, strings.NewReader(want), "batchfleet_jobapi_listeners_dropped_total"); err != nil {
			t.Error(err)
		}
		g.stop()
	})
}

func TestD09AnOutageOfOneScopeEndsNoStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, other := newFleet(), newFleet()
		g := serve(t, of("fleet", f, "zpe", other))
		s := g.follow(t, "")
		s.want(t, "reset")
		time.Sleep(time.Second)
		f.set(jobs.ErrUnavailable, false)
		f.put("a", "fleet.pdf", jobs.Queued)
		other.put("z", "zpe.calc", jobs.Queued)
		s.want(t, "reset", "z queued")
		time.Sleep(10 * time.Second)
		f.set(nil, false)
		s.want(t, "a queued")
		if n := strings.Count(g.logged.String(), "cannot read what has changed"); n != 1 {
			t.Errorf("it was logged %d times", n)
		}
		g.stop()
	})
}

func TestD09QueriesThatCannotBeAreRefusedByName(t *testing.T) {
	g := serve(t, of("fleet", newFleet()))
	for query, field := range map[string]string{
		"?scope=none": "scope", "?scope=%3Cb%3E": "scope", "?status=done": "status", "?kind=a/b": "kind", "?kind=" + strings.Repeat("k", 200): "kind",
		"?kind=": "kind", "?x=1": "x", "?kind=a&kind=b": "kind", "?kind=" + strings.Repeat("k", 10_000): "kind",
	} {
		status, body := g.ask(t, http.MethodGet, "events"+query)
		if status != 400 || !strings.Contains(body, `"field":"`+field+`"`) || strings.Contains(body, "<b>") {
			t.Errorf("%.30s: %d %s", query, status, body)
		}
	}
}
