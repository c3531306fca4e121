package jobapi_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/batchfleet/batchfleet/internal/testnet"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/access"
	"github.com/batchfleet/batchfleet/jobs"
)

// event is a server-sent event; comments have only a name, ":".
type event struct{ id, name, data string }

// feed reads the events of an answer.
type feed struct {
	resp *http.Response
	in   *bufio.Scanner
}

func (g *rig) follow(t *testing.T, path string, header ...string) *feed {
	t.Helper()
	resp := g.open(t, "GET "+path, "", header...) //nolint:bodyclose // by close
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("GET %s: %s %v", path, resp.Status, resp.Header)
	}
	f := &feed{resp, bufio.NewScanner(resp.Body)}
	f.in.Buffer(nil, 1<<20)
	return f
}

// next returns the next event, whose name is "closed" at the end of the stream.
func (f *feed) next(t *testing.T) (e event) {
	t.Helper()
	for f.in.Scan() {
		field, value, _ := strings.Cut(f.in.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data = value
		case "":
			if f.in.Text() != "" {
				e.name = ":"
				continue
			}
			return e
		default:
			t.Errorf("strange line %q", f.in.Text())
		}
	}
	return event{name: "closed"}
}

// says returns the next event in short: "job running", "log a b", "end", ":".
func (f *feed) says(t *testing.T) (string, string) {
	t.Helper()
	e := f.next(t)
	switch e.name {
	case "job":
		var j jobapi.Job
		if err := json.Unmarshal([]byte(e.data), &j); err != nil {
			t.Fatalf("job %s: %v", e.data, err)
		}
		return "job " + j.Status.String(), e.id
	case "log":
		var l struct {
			Lines []struct {
				Time jobapi.Time
				Text string
			}
		}
		if err := json.Unmarshal([]byte(e.data), &l); err != nil {
			t.Fatalf("log %s: %v", e.data, err)
		}
		said := "log"
		for _, line := range l.Lines {
			said += " " + line.Text
		}
		return said, e.id
	}
	return e.name, e.id
}

// want reads events and returns the id of the last that has one.
func (f *feed) want(t *testing.T, want ...string) (id string) {
	t.Helper()
	for _, w := range want {
		got, its := f.says(t)
		if got != w {
			t.Fatalf("the next event is %q, want %q", got, w)
		}
		id = cmp.Or(its, id)
	}
	return id
}

func (f *feed) close() { f.resp.Body.Close() }

// polled is a server of scope fleet whose jobs do not say when they change.
func polled() (*jobapi.Server, *fakeJobs) {
	s := newFakeJobs()
	s.put("j", "fleet.pdf", jobs.Running)
	return &jobapi.Server{Scopes: []jobapi.Scope{{Name: "fleet", Jobs: s, Cancel: access.Operate}}}, s
}

const (
	fleetJob    = "/api/v1/fleet/jobs/j"
	fleetEvents = fleetJob + "/events"
)

func TestEventsFollowAJobToItsEnd(t *testing.T) {
	for name, notifies := range map[string]bool{"polled": false, "told": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, fake := polled()
				if notifies {
					s.Scopes[0].Jobs = notifying{fake}
				}
				g := serve(t, s)
				fake.say("j", "a", "b")
				plain, logs := g.follow(t, fleetEvents), g.follow(t, fleetEvents+"?logs=true")
				plain.want(t, "job running")
				logs.want(t, "job running", "log a b")
				fake.say("j", "c")
				logs.want(t, "log c")
				began := time.Now()
				fake.put("j", "fleet.pdf", jobs.Running)
				plain.want(t, "job running")
				logs.want(t, "job running")
				if took := time.Since(began); took > 350*time.Millisecond {
					t.Errorf("it took %s to hear of a change", took)
				}
				fake.say("j", "d")
				fake.put("j", "fleet.pdf", jobs.Succeeded)
				plain.want(t, "job succeeded", "end", "closed")
				logs.want(t, "job succeeded", "log d", "end", "closed")
				g.stop()
			})
		})
	}
}

func TestEventsBeginWithTheLast200LinesAndSpeakOfNoJobThatIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, fake := polled()
		g := serve(t, s)
		want := "log"
		for i := range 300 {
			fake.say("j", fmt.Sprint(i))
			if i >= 100 {
				want += fmt.Sprint(" ", i)
			}
		}
		first := g.follow(t, fleetEvents+"?logs=true")
		first.want(t, "job running", want)
		second := g.follow(t, fleetEvents+"?logs=true")
		second.want(t, "job running", want)
		for _, text := range []string{"300", "301"} {
			fake.say("j", text)
			first.want(t, "log "+text)
			second.want(t, "log "+text)
		}
		third := g.follow(t, fleetEvents+"?logs=true") // when more are remembered
		third.want(t, "job running", strings.Replace(want, " 100 101", "", 1)+" 300 301")
		fake.remove("j")
		for _, f := range []*feed{first, second, third} {
			f.want(t, "end", "closed")
		}
		if a := g.ask(t, "GET "+fleetEvents, ""); a.status != 404 {
			t.Errorf("a job that no longer exists: %d %s", a.status, a.body)
		}
		g.stop()
	})
}

func TestEventsGoOnAfterTheLastThatWasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, fake := polled()
		g := serve(t, s)
		fake.say("j", "a", "b")
		f := g.follow(t, fleetEvents+"?logs=true")
		id := f.want(t, "job running", "log a b")
		f.close()
		back := func(id, query string, want ...string) {
			t.Helper()
			f := g.follow(t, fleetEvents+query, "Last-Event-ID", id)
			f.want(t, want...)
			f.close()
			synctest.Wait() // until the job has no listeners: the next begins with a new read of the hub
		}
		fake.say("j", "c")
		back(id, "?logs=true", "log c")
		fake.put("j", "fleet.pdf", jobs.Running)
		back(id, "?logs=true", "job running", "log c")
		back(id, "", "job running")
		for _, strange := range []string{"", "7", "-", "nine-99-x", "é-1", strings.Repeat("9", 33) + "-1", "1_1"} {
			back(strange, "?logs=true", "job running", "log a b c")
		}
		back("1-77777", "?logs=true", "job running", "log a b c") // of a log that is not this one

		// More than the hub remembers for one that begins: it is asked for again.
		want := " c"
		for i := range 500 {
			fake.say("j", fmt.Sprint(i))
			want += fmt.Sprint(" ", i)
		}
		f = g.follow(t, fleetEvents+"?logs=true", "Last-Event-ID", id)
		said := ""
		for strings.Count(said, " ") < 501 {
			more, _ := f.says(t)
			if lines, ok := strings.CutPrefix(more, "log"); ok {
				said += lines
			}
		}
		if said != want {
			t.Errorf("after b came%s", said)
		}
		fake.put("j", "fleet.pdf", jobs.Failed)
		id = f.want(t, "job failed", "end", "closed")
		if a := g.ask(t, "GET "+fleetEvents+"?logs=true", "", "Last-Event-ID", id); a.status != 204 || a.body != "" {
			t.Errorf("an ended job with nothing new: %d %q", a.status, a.body)
		}
		if a := g.ask(t, "GET "+fleetEvents, "", "Last-Event-ID", id); a.status != 204 {
			t.Errorf("an ended job with nothing new: %d %q", a.status, a.body)
		}
		fake.say("j", "late")
		back(id, "?logs=true", "log late", "end", "closed")
		g.stop()
	})
}

func TestNoLineIsLostOfALogThatWasEmptyAtFirst(t *testing.T) {
	const total = 12_000
	numbers := make([]string, total)
	for i := range numbers {
		numbers[i] = fmt.Sprint(i)
	}
	all := func(t *testing.T, f *feed) {
		t.Helper()
		for next := 0; next < total; {
			said, _ := f.says(t)
			words := strings.Fields(said)
			if len(words) < 2 || words[0] != "log" || words[1] != fmt.Sprint(next) {
				t.Fatalf("%.40q where line %d should be", said, next)
			}
			next += len(words) - 1
		}
		f.close()
	}
	synctest.Test(t, func(t *testing.T) {
		s, fake := polled()
		g := serve(t, s)
		f := g.follow(t, fleetEvents+"?logs=true")
		id := f.want(t, "job running")
		fake.say("j", numbers...)
		all(t, f)
		all(t, g.follow(t, fleetEvents+"?logs=true", "Last-Event-ID", id)) // it had left before the first line
		g.stop()
	})
}

// forgetful is a fakeJobs that does not know the position of line 5001.
type forgetful struct{ *fakeJobs }

func (f forgetful) Log(ctx context.Context, id string, q jobapi.LogQuery) (jobapi.Log, error) {
	if q.After == "5001" {
		return jobapi.Log{}, &jobapi.FieldError{Field: "after", Problem: "no such place"}
	}
	return f.fakeJobs.Log(ctx, id, q)
}

func TestALogThatIsLostWhileItIsSentIsNotGoneOnWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, fake := polled()
		s.Scopes[0].Jobs = forgetful{fake}
		g := serve(t, s)
		for i := range 6000 {
			fake.say("j", fmt.Sprint(i+1))
		}
		f := g.follow(t, fleetEvents+"?logs=true", "Last-Event-ID", "1-1")
		last := ""
		for said := ""; said != "closed" && said != ":"; said, _ = f.says(t) {
			last = cmp.Or(said, last)
		}
		if !strings.HasSuffix(last, " 5001") {
			t.Errorf("the last event ends with %q, want line 5001", last[max(0, len(last)-20):])
		}
		g.stop()
	})
}

func TestNoLineIsLostOrRepeatedAcrossConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, fake := polled()
		g := serve(t, s)
		const total = 3000
		go func() {
			for i := range total {
				fake.say("j", fmt.Sprint(i))
				time.Sleep(7 * time.Millisecond)
			}
			fake.put("j", "fleet.pdf", jobs.Succeeded)
		}()
		next, id, connections := 0, "", 0
		for done := false; !done; connections++ {
			var header []string
			if id != "" {
				header = []string{"Last-Event-ID", id}
			}
			resp := g.open(t, "GET "+fleetEvents+"?logs=true", "", header...) //nolint:bodyclose // by close
			f := &feed{resp, bufio.NewScanner(resp.Body)}
			f.in.Buffer(nil, 1<<20)
			done = resp.StatusCode == 204 // all was sent, but for the word that it was
			for events := 0; events < 5 && !done; events++ {
				e := f.next(t)
				done = e.name == "end"
				if e.id != "" {
					id = e.id
				}
				if e.name != "log" {
					continue
				}
				var l struct{ Lines []struct{ Text string } }
				if err := json.Unmarshal([]byte(e.data), &l); err != nil {
					t.Fatal(err)
				}
				for _, line := range l.Lines {
					if line.Text != fmt.Sprint(next) {
						t.Fatalf("line %s where %d should be, on connection %d", line.Text, next, connections)
					}
					next++
				}
			}
			f.close()
			time.Sleep(time.Duration(connections%4) * time.Second) // away for a while
		}
		if next != total || connections < 5 {
			t.Errorf("%d lines over %d connections, want %d", next, connections, total)
		}
		g.stop()
	})
}

func TestTheNewestStateCountsAtMostTenTimesASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, fake := polled()
		s.Scopes[0].Jobs = notifying{fake}
		g := serve(t, s)
		f := g.follow(t, fleetEvents)
		f.want(t, "job running")
		go func() {
			for range 1000 {
				fake.put("j", "fleet.pdf", jobs.Running)
				time.Sleep(time.Millisecond)
			}
			fake.put("j", "fleet.pdf", jobs.Succeeded)
		}()
		n := 0
		for said := ""; said != "job succeeded"; n++ {
			said, _ = f.says(t)
		}
		if n < 9 || n > 13 {
			t.Errorf("%d events in a second of 1000 changes", n)
		}
		f.want(t, "end", "closed")
		g.stop()
	})
}

func TestAQuietConnectionIsKeptOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, fake := polled()
		g := serve(t, s)
		f := g.follow(t, fleetEvents)
		f.want(t, "job running")
		began := time.Now()
		for range 40 { // longer than any timeout of the server
			f.want(t, ":")
		}
		if took := time.Since(began); took < 590*time.Second || took > 610*time.Second {
			t.Errorf("40 comments in %s, want one every 15 s", took)
		}
		fake.put("j", "fleet.pdf", jobs.Succeeded)
		f.want(t, "job succeeded", "end", "closed")
		g.stop()
	})
}

// serveHTTP2 runs a server for HTTP/2 alone until the test ends.
func serveHTTP2(t *testing.T, s *jobapi.Server) *rig {
	t.Helper()
	g := &rig{Server: s, registry: prometheus.NewRegistry()}
	s.Log, s.Metrics, s.Guard = slog.New(slog.DiscardHandler), jobapi.NewMetrics(g.registry), jobapi.Loopback
	ctx, stop := context.WithCancel(t.Context())
	l := testnet.NewPipes()
	only := &http.Protocols{}
	only.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: s.Handler(), Protocols: only}
	transport := &http.Transport{DialContext: l.Dial, Protocols: only}
	g.client = &http.Client{Transport: transport}
	var all sync.WaitGroup
	all.Go(func() { s.Run(ctx) })
	all.Go(func() { _ = server.Serve(l) })
	g.stop = sync.OnceFunc(func() {
		stop()
		transport.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		all.Wait()
	})
	t.Cleanup(g.stop)
	return g
}

func TestAQuietStreamOfHTTP2IsKeptOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, fake := polled()
		g := serveHTTP2(t, s)
		f := g.follow(t, fleetEvents)
		if f.resp.ProtoMajor != 2 {
			t.Errorf("it is %s", f.resp.Proto)
		}
		f.want(t, "job running", ":", ":", ":")
		fake.put("j", "fleet.pdf", jobs.Succeeded)
		f.want(t, "job succeeded", "end", "closed")
		g.stop()
	})
}

func TestListenersOutlastAnOutageOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, notifies := range []bool{false, true} {
			s, fake := polled()
			if notifies {
				s.Scopes[0].Jobs = notifying{fake}
			}
			g := serve(t, s)
			f := g.follow(t, fleetEvents+"?logs=true")
			f.want(t, "job running")
			fake.fail(jobs.ErrUnavailable)
			fake.put("j", "fleet.pdf", jobs.Succeeded)
			fake.say("j", "last words")
			f.want(t, ":", ":", ":", ":")
			if a := g.ask(t, "GET "+fleetEvents, ""); a.status != 503 || a.header.Get("Retry-After") == "" {
				t.Errorf("a new listener: %d %s", a.status, a.body)
			}
			time.Sleep(time.Second)
			fake.fail(nil)
			f.want(t, "job succeeded", "log last words", "end", "closed")
			if n := strings.Count(g.logged.String(), "cannot look at jobs"); n != 1 {
				t.Errorf("%d warnings of one outage", n)
			}
			g.stop()
		}
	})
}

func TestALogThatGrowsByMoreThanARoundReadsIsReadOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, notifies := range []bool{false, true} {
			s, fake := polled()
			if notifies {
				s.Scopes[0].Jobs = notifying{fake}
			}
			g := serve(t, s)
			fake.say("j", "0")
			f := g.follow(t, fleetEvents+"?logs=true")
			f.want(t, "job running", "log 0")
			const total = 50_000
			lines := make([]string, total)
			for i := range lines {
				lines[i] = fmt.Sprint(i + 1)
			}
			fake.say("j", lines...)
			for next := 1; next <= total; {
				said, _ := f.says(t)
				words := strings.Fields(said)
				if len(words) == 0 || words[0] != "log" || words[1] != fmt.Sprint(next) {
					t.Fatalf("%.40q where line %d should be; notifies: %t", said, next, notifies)
				}
				next += len(words) - 1
			}
			f.close()
			g.stop()
		}
	})
}

func TestTroubleWithALogIsOnlyOfThoseWhoFollowIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, fake := polled()
		g := serve(t, s)
		f := g.follow(t, fleetEvents+"?logs=true")
		f.want(t, "job running")
		for _, tt := range []struct {
			err    error
			status int // of who wants the log
		}{
			{jobs.ErrUnavailable, 503},
			{io.ErrUnexpectedEOF, 500},
			{fmt.Errorf("log of j: %w", fs.ErrNotExist), 404}, // it went away just now
		} {
			fake.failLog(tt.err)
			time.Sleep(time.Second)
			if a := g.ask(t, "GET "+fleetJob+"?wait=1", ""); a.status != 200 {
				t.Errorf("%v: a wait: %d %s", tt.err, a.status, a.body)
			}
			g.follow(t, fleetEvents).close()
			if a := g.ask(t, "GET "+fleetEvents+"?logs=true", ""); a.status != tt.status {
				t.Errorf("%v: with its log: %d, want %d: %s", tt.err, a.status, tt.status, a.body)
			}
		}
		f.close()
		g.stop()
	})
}

func TestStoreCallsDoNotGrowWithListeners(t *testing.T) {
	calls := func(listeners int) (n int) {
		synctest.Test(t, func(t *testing.T) {
			s, fake := polled()
			g := serve(t, s)
			var all []*feed
			for range listeners {
				all = append(all, g.follow(t, fleetEvents+"?logs=true"))
			}
			for _, f := range all {
				f.want(t, "job running")
			}
			before := fake.called("Get") + fake.called("Log")
			for range 20 {
				fake.put("j", "fleet.pdf", jobs.Running)
				fake.say("j", "x")
				for _, f := range all {
					f.want(t, "job running", "log x")
				}
			}
			n = fake.called("Get") + fake.called("Log") - before
			for _, f := range all {
				f.close()
			}
			g.stop()
		})
		return n
	}
	if one, many := calls(1), calls(50); many > one+2 || one < 20 {
		t.Errorf("%d calls for one listener, %d for 50", one, many)
	}
}

func TestNobodyListensNobodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, fake := polled()
		g := serve(t, s)
		f := g.follow(t, fleetEvents)
		f.want(t, "job running")
		f.close()
		time.Sleep(16 * time.Second) // a pipe's other end is seen to be closed at the next write
		before := fake.called("Get")
		time.Sleep(time.Hour)
		if n := fake.called("Get") - before; n > 1 {
			t.Errorf("%d calls in an hour without listeners", n)
		}
		g.stop()
	})
}

func TestMoreListenersThanMayAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := polled()
		s.MaxListeners = 2
		g := serve(t, s)
		first, second := g.follow(t, fleetEvents), g.follow(t, fleetEvents)
		for _, path := range []string{fleetEvents, fleetJob + "?wait=1"} {
			if a := g.ask(t, "GET "+path, ""); a.status != 503 || a.code() != "UNAVAILABLE" || a.header.Get("Retry-After") != "5" {
				t.Errorf("%s: %d %s", path, a.status, a.body)
			}
		}
		if a := g.ask(t, "GET "+fleetJob, ""); a.status != 200 {
			t.Errorf("without waiting: %d", a.status)
		}
		first.close()
		synctest.Wait()
		g.follow(t, fleetEvents).close()
		second.close()
		g.stop()
	})
}

func TestTenThousandMayListen(t *testing.T) {
	s, fake := polled()
	fake.put("j", "fleet.pdf", jobs.Succeeded) // no request has to wait
	g := serve(t, s)
	if err := jobapi.Listen(s, "j", 9_999); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{200, 503} {
		if a := g.ask(t, "GET "+fleetJob+"?wait=60", ""); a.status != want {
			t.Errorf("beside %d others: %d %s, want %d", 9_999+i, a.status, a.body, want)
		}
		if err := jobapi.Listen(s, "j", 1-i); err != nil {
			t.Fatal(err)
		}
	}
}

func TestListenersEndWithTheServerAndLeaveNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	synctest.Test(t, func(t *testing.T) {
		s, _ := polled()
		g := serve(t, s)
		var all []*feed
		for i := range 20 {
			all = append(all, g.follow(t, fleetEvents+[]string{"", "?logs=true"}[i%2]))
		}
		for _, f := range all {
			f.want(t, "job running")
		}
		for _, f := range all[:10] {
			f.close()
		}
		var readers sync.WaitGroup
		for _, f := range all[10:] {
			readers.Go(func() { f.want(t, "closed") })
		}
		began := time.Now()
		g.stop()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the server took %s to stop", took)
		}
		readers.Wait()
	})
}

func TestATokenThatIsNoGoodAnyMoreEndsItsStreams(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, file string){
		"it has expired": func(*testing.T, string) {},
		"it was revoked": func(t *testing.T, file string) {
			t.Helper()
			if err := access.RevokeToken(file, "a"); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				file := t.TempDir() + "/tokens"
				expires := time.Time{}
				if name == "it has expired" {
					expires = time.Now().Add(time.Minute)
				}
				token := addToken(t, file, "a", access.Read, expires)
				other := addToken(t, file, "b", access.Read, time.Time{})
				s, _ := polled()
				var err error
				if s.Guard, err = jobapi.OpenTokens(file, "", slog.New(slog.DiscardHandler)); err != nil {
					t.Fatal(err)
				}
				g := serve(t, s)
				f := g.follow(t, fleetEvents, "Authorization", "Bearer "+token)
				f.want(t, "job running", ":", ":", ":")
				time.Sleep(14500 * time.Millisecond)
				// Somebody else has made the server look at the file just now.
				g.ask(t, "GET "+fleetJob, "", "Authorization", "Bearer "+other)
				time.Sleep(500 * time.Millisecond)
				end(t, file)
				ended := time.Now()
				for said := ""; said != "closed"; {
					said, _ = f.says(t)
				}
				if took := time.Since(ended); took > 5*time.Second {
					t.Errorf("its stream ended after %s, want 5 s at most", took)
				}
				g.stop()
			})
		})
	}
}

func TestAListenerThatTakesNothingInIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, fake := polled()
		g := serve(t, s)
		stuck := g.follow(t, fleetEvents+"?logs=true")
		stuck.want(t, "job running")
		other := g.follow(t, fleetEvents+"?logs=true")
		other.want(t, "job running")
		go func() { // reads all the time
			for {
				if e := other.next(t); e.name == "closed" {
					return
				}
			}
		}()
		for range 300 {
			fake.say("j", strings.Repeat("x", 32<<10))
			time.Sleep(100 * time.Millisecond)
		}
		// It is let go of after its 10 s, long before it would see the end.
		if _, err := io.Copy(io.Discard, stuck.resp.Body); err == nil {
			t.Error("the stream of a listener that took nothing in ended well")
		}
		fake.put("j", "fleet.pdf", jobs.Succeeded)
		g.stop()
		if n := dropped(t, g.registry); n != 1 {
			t.Errorf("%v listeners were counted as cut off, want 1", n)
		}
	})
}

func TestAListenerThatTakesNothingInByHTTP2IsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, fake := polled()
		g := serveHTTP2(t, s)
		stuck := g.follow(t, fleetEvents+"?logs=true")
		stuck.want(t, "job running")
		left := g.follow(t, fleetEvents+"?logs=true")
		left.want(t, "job running")
		for i := range 400 { // the client's own buffers take in some 4 MiB
			fake.say("j", strings.Repeat("x", 32<<10))
			time.Sleep(100 * time.Millisecond)
			if i == 200 { // in the midst of a write, before its 10 s are over
				left.close()
			}
		}
		if _, err := io.Copy(io.Discard, stuck.resp.Body); err == nil {
			t.Error("the stream of a listener that took nothing in ended well")
		}
		g.stop()
		if n := dropped(t, g.registry); n != 1 {
			t.Errorf("%v listeners were counted as cut off, want 1", n)
		}
	})
}

// dropped returns how many listeners were counted as cut off.
func dropped(t *testing.T, r *prometheus.Registry) (n float64) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "batchfleet_jobapi_listeners_dropped_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			n += m.GetCounter().GetValue()
		}
	}
	return n
}

func TestAListenerTooSlowForTheLogIsCutAndComesBackForTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, fake := polled()
		g := serve(t, s)
		slow := g.follow(t, fleetEvents+"?logs=true")
		id := slow.want(t, "job running")
		const total = 400
		go func() { // 4 MiB a second
			for i := range total {
				fake.say("j", fmt.Sprint(i, " ", strings.Repeat("x", 40<<10)))
				time.Sleep(10 * time.Millisecond)
			}
		}()
		time.Sleep(5 * time.Second) // not so long that a write fails
		next := 0
		read := func(f *feed) {
			for next < total {
				e := f.next(t)
				if e.name == "closed" {
					return
				}
				id = cmp.Or(e.id, id)
				for line := range strings.SplitSeq(e.data, `"text":"`) {
					number, _, ok := strings.Cut(line, " x")
					if !ok {
						continue
					}
					if number != fmt.Sprint(next) {
						t.Fatalf("line %s where %d should be", number, next)
					}
					next++
				}
			}
		}
		read(slow)
		if next == total {
			t.Fatal("nothing was too much")
		}
		f := g.follow(t, fleetEvents+"?logs=true", "Last-Event-ID", id)
		read(f)
		f.close()
		if next != total {
			t.Errorf("%d lines of %d", next, total)
		}
		families, err := g.registry.Gather()
		if err != nil || !strings.Contains(fmt.Sprint(families), "listeners_dropped_total") {
			t.Errorf("metrics: %v, %v", families, err)
		}
		g.stop()
	})
}

func TestWhatCameInTwoRoundsIsRememberedWhateverItsSize(t *testing.T) {
	add := jobapi.NewWindow()
	for i, tt := range []struct{ lines, size, want int }{
		{300, 64 << 10, 300},
		{300, 64 << 10, 600},
		{300, 64 << 10, 600}, // the first 300 go
		{1, 1, 301},
		{1, 1, 200}, // and those, down to what a new listener begins with
		{300, 64 << 10, 301},
	} {
		if got := add(tt.lines, tt.size); got != tt.want {
			t.Errorf("round %d, of %d lines of %d bytes: %d remembered, want %d", i, tt.lines, tt.size, got, tt.want)
		}
	}
}

func TestListenersAreCountedWhileTheyAreThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := polled()
		g := serve(t, s)
		count := func(want string) {
			t.Helper()
			want = "# HELP batchfleet_jobapi_listeners Requests that follow a job or wait for one.\n# TYPE batchfleet_jobapi_listeners gauge\n" +
				`batchfleet_jobapi_listeners{scope="fleet"} ` + want + "\n"
			if err := testutil.GatherAndCompare(g.registry, strings.NewReader(want), "batchfleet_jobapi_listeners"); err != nil {
				t.Error(err)
			}
		}
		first, second := g.follow(t, fleetEvents), g.follow(t, fleetEvents+"?logs=true")
		count("2")
		first.close()
		synctest.Wait()
		count("1")
		g.ask(t, "GET "+fleetJob+"?wait=1", "")
		second.close()
		synctest.Wait()
		count("0")
		g.stop()
	})
}

func FuzzLastEventID(f *testing.F) {
	for _, id := range []string{"", "1-1", "1-", "-", "a-1-2", strings.Repeat("9", 32) + "-" + strings.Repeat("-", 40)} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		version, pos, ok := jobapi.ParseEventID([]string{id})
		if ok != (version+"-"+pos == id && version != "") || len(version) > 32 || len(pos) > 40 || strings.ContainsAny(version+pos, "\r\n: ") {
			t.Errorf("%q: %q, %q, %t", id, version, pos, ok)
		}
	})
}
