package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/client"
	"github.com/batchfleet/batchfleet/jobs"
)

const canary = "bft_canary-0123456789-0123456789-0123456789-abc"

// clientOf returns a client of a server that answers with h.
func clientOf(t *testing.T, h http.HandlerFunc, change func(*client.Config)) *client.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	cfg := client.Config{URL: s.URL, Token: canary, RetryFor: time.Nanosecond}
	if change != nil {
		change(&cfg)
	}
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// says answers with this status, media type and text.
func says(status int, media, text string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

func jobText(id, status string) string {
	b, err := json.Marshal(jobapi.Job{
		ID: id, Scope: "utils", Type: "utils.purge", Status: map[string]jobs.State{"running": jobs.Running, "succeeded": jobs.Succeeded}[status],
		Request: json.RawMessage("{}"), Result: json.RawMessage("null"),
	})
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestClientSendsItsTokenNowhereElse(t *testing.T) {
	for _, tt := range []struct{ name, url, want string }{
		{"plain http", "http://jobs.example.com", "must begin with https://"},
		{"another scheme", "ftp://jobs.example.com", "must begin with https://"},
		{"a password", "https://me:hunter2@jobs.example.com", "must not hold a user or password"},
		{"a query", "https://jobs.example.com?token=hunter2", "must not have a query"},
		{"nothing", "", "must begin with https://"},
		{"this machine's address without a scheme", "127.0.0.1:8080", "write http://127.0.0.1:8080"},
		{"its name", "localhost:8080", "write http://localhost:8080"},
		{"another machine's address without a scheme", "jobs.example.com:8080", "must begin with https://"},
		{"the path of the API", "http://[::1]:8080/api/v1", "leave out /api/v1 and what follows, and write http://[::1]:8080"},
		{"a route", "https://jobs.example.com/x/api/v1/fleet/jobs/", "and write https://jobs.example.com/x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := client.New(client.Config{URL: tt.url, Token: canary})
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	var stolen atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen.Add(1) }))
	defer elsewhere.Close()
	c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+"/?secret=hunter2", http.StatusTemporaryRedirect)
	}, nil)
	_, err := c.Get(t.Context(), "utils", "a")
	if !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), "redirects to "+elsewhere.URL) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
	follow := c.Follow(t.Context(), "utils", "a", false, func(client.Event) error { return nil })
	if !errors.Is(follow, jobs.ErrUnavailable) || stolen.Load() != 0 {
		t.Errorf("got %v, and %d requests elsewhere", follow, stolen.Load())
	}
}

func TestClientUnderstandsAnswers(t *testing.T) {
	envelope := `{"error":{"code":"CONFLICT","message":"it runs","details":{"jobId":"job_1"}}}`
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		code   string // of the refusal
		away   bool
		says   string
	}{
		{"a job", says(200, "application/json", jobText("a", "running")), "", false, ""},
		{"another job", says(200, "application/json", jobText("b", "running")), "", true, "another job"},
		{"no JSON", says(200, "text/html", "<html>hello"), "", true, `content type "text/html", beginning "<html>hello"`},
		{"half of it", says(200, "application/json", `{"jobId":`), "", true, "unexpected EOF"},
		{"two values", says(200, "application/json", jobText("a", "running")+"1"), "", true, "more than one JSON value"},
		{"an unknown status", says(200, "application/json", `{"jobId":"a","status":"lost"}`), "", true, "not a job state"},
		{"a refusal", says(409, "application/json", envelope), "CONFLICT", false, "it runs"},
		{"a refusal for now", says(503, "application/json", strings.Replace(envelope, "CONFLICT", "UNAVAILABLE", 1), "Retry-After", "7"), "UNAVAILABLE", true, "it runs"},
		{"a gateway without an admin token", says(503, "application/json", strings.Replace(envelope, "CONFLICT", "ADMIN_DISABLED", 1)), "ADMIN_DISABLED", false, "it runs"},
		{"a proxy's refusal", says(403, "text/html", "<h1>no</h1>"), "", true, "status 403"},
		{"a refusal without a code", says(400, "application/json", `{"error":"bad"}`), "", true, "status 400"},
		{"a token that comes back", says(403, "application/json", `{"error":{"code":"FORBIDDEN","message":"not `+canary+`","details":{}}}`), "FORBIDDEN", false, "[redacted]"},
		{"a token in a page", says(200, "text/plain", canary), "", true, "[redacted]"},
		{"a password in a page", says(502, "text/plain", "dial redis://:hunter2@host"), "", true, "redis://[redacted]@host"},
		{"too long", says(200, "application/json", strings.Repeat(" ", 16<<20+1)), "", true, "longer than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j, err := clientOf(t, tt.answer, nil).Get(t.Context(), "utils", "a")
			refused, _ := errors.AsType[*jobapi.Refusal](err)
			switch {
			case tt.says == "":
				if err != nil || j.ID != "a" || j.Status != jobs.Running {
					t.Errorf("got %+v, %v", j, err)
				}
				return
			case err == nil || !strings.Contains(err.Error(), tt.says):
				t.Errorf("got %v, want %q", err, tt.says)
			case errors.Is(err, jobs.ErrUnavailable) != tt.away:
				t.Errorf("%v: away is %v, want %v", err, !tt.away, tt.away)
			case (refused == nil) != (tt.code == "") || refused != nil && refused.Code != tt.code:
				t.Errorf("refusal %+v, want %q", refused, tt.code)
			case len(err.Error()) > 1500, strings.Contains(err.Error(), canary), strings.Contains(err.Error(), "hunter2"):
				t.Errorf("it shows too much: %v", err)
			}
			if tt.code == "CONFLICT" && refused.Details["jobId"] != "job_1" {
				t.Errorf("details %v", refused.Details)
			}
			if tt.code == "UNAVAILABLE" && refused.RetryAfter != 7*time.Second {
				t.Errorf("retry after %s", refused.RetryAfter)
			}
		})
	}
}

func TestClientTriesAgainOnlyWhatChangesNothing(t *testing.T) {
	var asked atomic.Int64
	flaky := func(good http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			switch asked.Add(1) {
			case 1:
				panic(http.ErrAbortHandler) // the connection is cut
			case 2:
				says(503, "application/json", `{"error":{"code":"UNAVAILABLE","message":"m","details":{}}}`)(w, r)
			default:
				good(w, r)
			}
		}
	}
	patient := func(c *client.Config) { c.RetryFor = time.Minute }
	c := clientOf(t, flaky(says(200, "application/json", jobText("a", "running"))), patient)
	if _, err := c.Get(t.Context(), "utils", "a"); err != nil || asked.Load() != 3 {
		t.Errorf("get: %v after %d requests, want 3", err, asked.Load())
	}
	asked.Store(0)
	if _, err := c.Create(t.Context(), "utils", "purge", nil); !errors.Is(err, jobs.ErrUnavailable) || asked.Load() != 1 {
		t.Errorf("create: %v after %d requests, want 1", err, asked.Load())
	}
	asked.Store(0)
	if _, err := c.Cancel(t.Context(), "utils", "a"); !errors.Is(err, jobs.ErrUnavailable) || asked.Load() != 1 {
		t.Errorf("cancel: %v after %d requests, want 1", err, asked.Load())
	}
}

func TestClientGivesUpInTime(t *testing.T) {
	c := clientOf(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, func(c *client.Config) { c.Timeout = 50 * time.Millisecond })
	_, err := c.Get(t.Context(), "utils", "a")
	if !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), "no answer within 50ms") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if _, err := c.Get(ctx, "utils", "a"); err == nil || !strings.Contains(err.Error(), "enough") || errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestClientAsksAsTheContractSays(t *testing.T) {
	var got string
	c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = fmt.Sprintf("%s %s %s %s", r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), body)
		if r.Header.Get("Authorization") != "Bearer "+canary {
			t.Errorf("Authorization %q", r.Header.Get("Authorization"))
		}
		says(404, "application/json", `{"error":{"code":"NOT_FOUND","message":"m","details":{}}}`)(w, r)
	}, nil)
	ctx := t.Context()
	for _, tt := range []struct {
		ask  func() error
		want string
	}{
		{func() error {
			_, err := c.List(ctx, "fleet", jobapi.Query{Status: jobs.Failed, Type: "fleet.pdf", Limit: 3, Cursor: "a b"})
			return err
		}, "GET /api/v1/fleet/jobs?cursor=a+b&limit=3&status=failed&type=fleet.pdf  "},
		{func() error { _, err := c.Get(ctx, "fleet", "a/../b"); return err }, "GET /api/v1/fleet/jobs/a%2F..%2Fb  "},
		{func() error {
			_, err := c.Log(ctx, "fleet", "a", client.LogQuery{Tail: 7, Since: time.Minute, Times: true})
			return err
		}, "GET /api/v1/fleet/jobs/a/logs?sinceSeconds=60&tailLines=7&times=true  "},
		{func() error { _, err := c.Cancel(ctx, "zpe", "a"); return err }, "POST /api/v1/zpe/jobs/a/cancel  "},
		{func() error { _, err := c.Create(ctx, "utils", "purge", json.RawMessage(`{"x":1}`)); return err }, `POST /api/v1/utils/purge application/json {"x":1}`},
		{func() error { _, err := c.Plan(ctx, "system", "start", nil); return err }, "POST /api/v1/system/start?dryRun=true  "},
	} {
		if err := tt.ask(); err == nil || got != tt.want {
			t.Errorf("%v: asked\n%s, want\n%s", err, got, tt.want)
		}
	}
	got = ""
	if _, err := c.Get(ctx, "fleet", ".."); err == nil || got != "" {
		t.Errorf("%v: asked %s", err, got)
	}
}

// TestClientTakesUpEventsWhereTheyBroke cuts the stream after each event.
func TestClientTakesUpEventsWhereTheyBroke(t *testing.T) {
	steps := []string{
		"id: 1-0\nevent: job\ndata: " + jobText("a", "running") + "\n\n",
		": heartbeat\n\nid: 1-1\r\nevent: log\r\ndata: {\"lines\":[{\"time\":\"2026-01-23T09:00:00.000Z\",\r\ndata: \"text\":\"one\"}]}\r\n\r\n",
		"event: news\ndata: x\nid: 1-2\n\n",
		"id: 2-2\nevent: job\ndata: " + jobText("a", "succeeded") + "\n\nevent: en",
		"id: 2-2\nevent: end\ndata:\n\n",
	}
	var last []string
	c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		last = append(last, r.Header.Get("Last-Event-ID"))
		says(200, "text/event-stream", steps[len(last)-1])(w, r)
	}, func(c *client.Config) { c.RetryFor = time.Minute })
	var seen []string
	err := c.Follow(t.Context(), "utils", "a", true, func(e client.Event) error {
		if e.Job != nil {
			seen = append(seen, e.Job.Status.String())
		}
		for _, l := range e.Lines {
			seen = append(seen, l.Time.Format(time.TimeOnly)+" "+l.Text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"running", "09:00:00 one", "succeeded"}, seen); d != "" {
		t.Errorf("seen: %s", d)
	}
	if d := cmp.Diff([]string{"", "1-0", "1-1", "1-2", "2-2"}, last); d != "" {
		t.Errorf("Last-Event-ID: %s", d)
	}
}

func TestClientEndsFollowing(t *testing.T) {
	stop := errors.New("seen enough")
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		seen   error
		want   string
	}{
		{"when nothing is new", says(204, "", ""), nil, ""},
		{"when there is no job", says(404, "application/json", `{"error":{"code":"NOT_FOUND","message":"no such job","details":{}}}`), nil, "follow job a: NOT_FOUND: no such job"},
		{"when the caller has seen enough", says(200, "text/event-stream", "event: job\ndata: "+jobText("a", "running")+"\n\n"), stop, "seen enough"},
		{"when it is another job", says(200, "text/event-stream", "event: job\ndata: "+jobText("b", "running")+"\n\n"), nil, "an event that is no job"},
		{"when it is no stream", says(200, "text/html", "<p>"), nil, `beginning "<p>"`},
		{"when the server is unavailable", says(503, "application/json", `{"error":{"code":"UNAVAILABLE","message":"away","details":{}}}`, "Retry-After", "1"), nil, "UNAVAILABLE: away"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := clientOf(t, tt.answer, nil).Follow(t.Context(), "utils", "a", false, func(client.Event) error { return tt.seen })
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestClientLeavesASilentStream is about a connection that a NAT has forgotten.
func TestClientLeavesASilentStream(t *testing.T) {
	c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		says(200, "text/event-stream", ":\n\n")(w, r)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}, func(c *client.Config) { c.Silence = 100 * time.Millisecond })
	err := c.Follow(t.Context(), "utils", "a", false, func(client.Event) error { return nil })
	if !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), "nothing was heard for 100ms") {
		t.Errorf("got %v", err)
	}
}

// TestClientRetriesWhileAServerRestarts waits as long as it should, and not
// longer; nothing listens at the address.
func TestClientRetriesWhileAServerRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		c, err := client.New(client.Config{
			URL:      "http://127.0.0.1:1",
			Proxy:    func(*http.Request) (u *url.URL, err error) { return nil, errors.New("no way out") },
			Retrying: func(err error) { told++ },
		})
		if err != nil {
			t.Fatal(err)
		}
		for name, ask := range map[string]func() error{
			"get":    func() error { _, err := c.Get(t.Context(), "utils", "a"); return err },
			"follow": func() error { return c.Follow(t.Context(), "utils", "a", false, nil) },
		} {
			began := time.Now()
			told = 0
			err := ask()
			if told < 3 {
				t.Errorf("%s: told %d times that it tries again", name, told)
			}
			if took := time.Since(began); !errors.Is(err, jobs.ErrUnavailable) || took < 20*time.Second || took > 30*time.Second {
				t.Errorf("%s: %v after %s, want within 20 to 30 s", name, err, took)
			}
		}
	})
}

// TestClientSoonLeavesAnAddressWhereNothingListens: it is probably mistyped, and a
// person waits for the error.
func TestClientSoonLeavesAnAddressWhereNothingListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, told := 0, 0
		c, err := client.New(client.Config{
			URL: "http://127.0.0.1:1",
			Proxy: func(*http.Request) (u *url.URL, err error) {
				asked++
				return nil, fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
			},
			Retrying: func(error) { told++ },
		})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = c.Find(t.Context(), "watch", "a")
		if took := time.Since(began); !errors.Is(err, jobs.ErrUnavailable) || !strings.HasPrefix(err.Error(), "watch job a: ") || took != time.Second || asked != 2 || told != 1 {
			t.Errorf("%v after %s, %d calls and %d words, want 1 s, 2 and 1", err, took, asked, told)
		}
	})
}

// TestClientEndsAtOnceWhereTryingAgainIsInVain until somebody changes a setting.
func TestClientEndsAtOnceWhereTryingAgainIsInVain(t *testing.T) {
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	plain := httptest.NewServer(says(403, "text/html", "<h1>no</h1>"))
	t.Cleanup(plain.Close)
	for _, tt := range []struct{ name, url, want string }{
		{"a certificate of nobody we know", secure.URL, "certificate"},
		{"http to a port of https", strings.Replace(secure.URL, "https", "http", 1), "the server speaks TLS: write https://"},
		{"https to a port of http", strings.Replace(plain.URL, "http", "https", 1), "HTTP response to HTTPS client"},
		{"a proxy that refuses", plain.URL, "status 403"},
		{"a host that nobody knows", "https://batchfleet.invalid", "batchfleet.invalid"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			told := 0
			c, err := client.New(client.Config{URL: tt.url, Retrying: func(error) { told++ }, Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			_, err = c.Get(t.Context(), "utils", "a")
			follow := c.Follow(t.Context(), "utils", "a", false, func(client.Event) error { return nil })
			for _, err := range []error{err, follow} {
				if !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %q", err, tt.want)
				}
			}
			if told != 0 && tt.name != "a host that nobody knows" { // where there is no resolver, that is all that is known
				t.Errorf("tried again %d times", told)
			}
		})
	}
}

// TestClientReadsArtifacts and tells when one is not whole.
func TestClientReadsArtifacts(t *testing.T) {
	c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/fleet/jobs/a/artifacts":
			says(200, "application/json", `{"items":[{"name":"result.json","mediaType":"application/json","bytes":2}]}`)(w, r)
		case "/api/v1/fleet/jobs/odd/artifacts":
			says(200, "application/json", `{"items":[{"name":"../../etc/passwd","mediaType":"text/plain","bytes":2}]}`)(w, r)
		case "/api/v1/fleet/jobs/a/artifacts/result.json":
			says(200, "application/json", `{}`)(w, r)
		case "/api/v1/fleet/jobs/a/artifacts/half":
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "half")
		default:
			says(404, "application/json", `{"error":{"code":"NOT_FOUND","message":"m","details":{}}}`)(w, r)
		}
	}, nil)
	ctx := t.Context()
	if list, err := c.Artifacts(ctx, "fleet", "a"); err != nil || len(list) != 1 || list[0].Name != "result.json" {
		t.Errorf("list: %+v, %v", list, err)
	}
	if _, err := c.Artifacts(ctx, "fleet", "odd"); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("a name that leads elsewhere: %v", err)
	}
	var b strings.Builder
	if err := c.Artifact(ctx, "fleet", "a", "result.json", &b); err != nil || b.String() != "{}" {
		t.Errorf("content %q, %v", b.String(), err)
	}
	if err := c.Artifact(ctx, "fleet", "a", "half", io.Discard); !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), "broke off") {
		t.Errorf("a half: %v", err)
	}
	if err := c.Artifact(ctx, "fleet", "a", "none", io.Discard); err == nil || errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("none: %v", err)
	}
	full := errors.New("disk full")
	if err := c.Artifact(ctx, "fleet", "a", "result.json", writerFunc(func([]byte) (int, error) { return 0, full })); !errors.Is(err, full) {
		t.Errorf("where nothing can be written: %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
