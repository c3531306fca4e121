package schedules_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/internal/pipenet"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/operations/schedules"
)

// fleet takes jobs as a real one does: the same key is the same job.
type fleet struct {
	jobapi.Jobs
	mu     sync.Mutex
	made   map[string]time.Time // by key
	asked  int
	refuse error
	after  error // said once the job is made: its answer is lost
}

func (f *fleet) Submit(_ context.Context, s jobapi.Submission) (jobapi.Job, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if f.refuse != nil {
		return jobapi.Job{}, false, f.refuse
	}
	_, repeated := f.made[s.Key]
	if !repeated {
		f.made[s.Key] = time.Now()
	}
	return jobapi.Job{ID: "job-" + s.Key, Scope: "fleet", Type: "fleet." + s.Kind, Status: jobs.Queued}, repeated, f.after
}

func (f *fleet) set(refuse, after error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse, f.after = refuse, after
}

// count returns how many jobs there are.
func (f *fleet) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.made)
}

// calls returns how often it was asked for a job.
func (f *fleet) calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

// bySchedule counts the jobs of each schedule.
func (f *fleet) bySchedule() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	by := map[string]int{}
	for key := range f.made {
		by[strings.Split(key, "/")[1]]++
	}
	return by
}

// rig is a server with schedules, in virtual time.
type rig struct {
	*testing.T
	fleet *fleet
	rdb   *redis.Client
	redis *miniredis.Miniredis
	api   http.Handler
}

func bubble(t *testing.T, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := miniredis.NewMiniRedis()
		m.ClockTTL(true)
		defer m.Close()
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", DisableIdentity: true, Dialer: func(context.Context, string, string) (net.Conn, error) {
			c, err := m.Dial()
			if err != nil {
				return nil, err
			}
			return pipenet.Roomy(c), nil
		}})
		defer rdb.Close()
		r := &rig{T: t, fleet: &fleet{made: map[string]time.Time{}}, rdb: rdb, redis: m}
		s := &jobapi.Server{
			Log: slog.New(slog.DiscardHandler), Metrics: jobapi.NewMetrics(prometheus.NewRegistry()), Guard: jobapi.Loopback,
			Own: r.runner().Routes(),
		}
		r.api = s.Handler()
		test(r)
	})
}

func (r *rig) runner() *schedules.Runner {
	return &schedules.Runner{Store: &schedules.Store{Redis: r.rdb}, Scopes: map[string]jobapi.Submitter{"fleet": r.fleet}, Log: slog.New(slog.DiscardHandler)}
}

// start starts a server that makes jobs.
func (r *rig) start() (stop func()) {
	ctx, cancel := context.WithCancel(r.Context())
	var running sync.WaitGroup
	runner := r.runner()
	running.Go(func() { runner.Run(ctx) })
	return func() { cancel(); running.Wait() }
}

// ask makes a request and returns the answer, whose status must be as wanted.
func (r *rig) ask(status int, method, path, body string) string {
	r.Helper()
	req := httptest.NewRequestWithContext(r.Context(), method, "http://127.0.0.1"+path, strings.NewReader(body))
	req.RemoteAddr = "127.0.0.1:4711"
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	r.api.ServeHTTP(w, req)
	if w.Code != status {
		r.Errorf("%s %s: %d %s, want %d", method, path, w.Code, w.Body, status)
	}
	return w.Body.String()
}

// report returns the schedule of that name.
func (r *rig) report() (s jobapi.Schedule) {
	r.Helper()
	if err := json.Unmarshal([]byte(r.ask(200, "GET", "/api/v1/schedules/report", "")), &s); err != nil {
		r.Fatal(err)
	}
	return s
}

func TestD35ScheduleMakesEachJobOnceWithSeveralServers(t *testing.T) {
	t.Parallel()
	bubble(t, func(r *rig) {
		r.ask(200, "PUT", "/api/v1/schedules/report", `{"cron":"*/5 * * * *","kind":"report","params":{"n":1}}`)
		stop := r.start()
		defer r.start()()
		time.Sleep(30*time.Minute + 10*time.Second)
		if n := r.fleet.count(); n != 6 {
			r.Errorf("%d jobs within 30 minutes, want 6: %v", n, r.fleet.bySchedule())
		}
		stop() // the other one goes on
		time.Sleep(10 * time.Minute)
		if n := r.fleet.count(); n != 8 {
			r.Errorf("%d jobs within 40 minutes, want 8", n)
		}
		s := r.report()
		if s.Last == nil || s.Last.JobID == "" || s.Next.Sub(s.Last.Due.Time) != 5*time.Minute {
			r.Errorf("the last run is %+v, the next is due at %v", s.Last, s.Next)
		}
	})
}

func TestD35RunThatWasCutOffIsMadeOnce(t *testing.T) {
	t.Parallel()
	bubble(t, func(r *rig) {
		r.ask(200, "PUT", "/api/v1/schedules/report", `{"cron":"0 * * * *","kind":"report"}`)
		defer r.start()()
		// Its job is made, and the server does not come to know that.
		r.fleet.set(nil, fmt.Errorf("cut off: %w", jobs.ErrUnavailable))
		time.Sleep(61 * time.Minute)
		if n := r.fleet.calls(); n < 2 {
			r.Fatalf("asked %d times, want again and again", n)
		}
		r.fleet.set(nil, nil)
		time.Sleep(time.Minute)
		if n := r.fleet.count(); n != 1 {
			r.Errorf("%d jobs, want 1: %v", n, r.fleet.bySchedule())
		}
		if s := r.report(); s.Last == nil || s.Last.JobID == "" {
			r.Errorf("the last run is %+v", s.Last)
		}
	})
}

func TestD35ClockThatLeaps(t *testing.T) {
	t.Parallel()
	bubble(t, func(r *rig) {
		r.ask(200, "PUT", "/api/v1/schedules/newest", `{"cron":"0 * * * *","kind":"report"}`)
		r.ask(200, "PUT", "/api/v1/schedules/all", `{"cron":"0 * * * *","kind":"report","catchUp":"all"}`)
		r.ask(200, "PUT", "/api/v1/schedules/none", `{"cron":"0 * * * *","kind":"report","catchUp":"none"}`)
		defer r.start()()
		time.Sleep(time.Minute)
		r.redis.SetTime(time.Now().Add(5*time.Hour + 30*time.Minute))
		time.Sleep(time.Minute)
		if by := r.fleet.bySchedule(); by["newest"] != 1 || by["all"] != 5 || by["none"] != 0 {
			r.Errorf("after a leap of five hours there are jobs of %v, want newest:1 all:5", by)
		}
		before := r.fleet.count()
		r.redis.SetTime(time.Now()) // back again: no run is made twice
		time.Sleep(2 * time.Minute)
		if n := r.fleet.count(); n != before {
			r.Errorf("%d jobs after the clock has leapt back, want %d", n, before)
		}
	})
}

func TestD35PausedScheduleMakesNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(r *rig) {
		r.ask(200, "PUT", "/api/v1/schedules/report", `{"cron":"*/5 * * * *","kind":"report"}`)
		r.ask(200, "POST", "/api/v1/schedules/report/pause", "")
		defer r.start()()
		time.Sleep(time.Hour)
		if n := r.fleet.count(); n != 0 || !r.report().Next.IsZero() {
			r.Errorf("a paused schedule has made %d jobs, and comes next at %v", n, r.report().Next)
		}
		r.ask(201, "POST", "/api/v1/schedules/report/run", "")
		r.ask(200, "POST", "/api/v1/schedules/report/resume", "")
		time.Sleep(6 * time.Minute)
		if n := r.fleet.count(); n != 2 { // one by hand, one that was due
			r.Errorf("%d jobs after it was resumed, want 2: what was missed is not made up for", n)
		}
		r.ask(200, "DELETE", "/api/v1/schedules/report", "")
		r.ask(404, "DELETE", "/api/v1/schedules/report", "")
		r.ask(404, "POST", "/api/v1/schedules/report/pause", "")
		time.Sleep(time.Hour)
		if n := r.fleet.count(); n != 2 {
			r.Errorf("%d jobs after it was deleted", n)
		}
	})
}

func TestD35RefusedRunIsToldAndTheNextIsTried(t *testing.T) {
	t.Parallel()
	bubble(t, func(r *rig) {
		r.ask(200, "PUT", "/api/v1/schedules/report", `{"cron":"*/5 * * * *","kind":"report"}`)
		r.fleet.set(&jobapi.FieldError{Field: "params.n", Problem: "want a number"}, nil)
		defer r.start()()
		time.Sleep(6 * time.Minute)
		if s := r.report(); s.Last == nil || !strings.Contains(s.Last.Error, "want a number") {
			r.Errorf("the last run is %+v", s.Last)
		}
		r.fleet.set(errors.New("bad"), nil)
		time.Sleep(5 * time.Minute)
		r.fleet.set(nil, nil)
		time.Sleep(5 * time.Minute)
		if n := r.fleet.count(); n != 1 {
			r.Errorf("%d jobs, want 1", n)
		}
	})
}

func TestD35ScheduleIsCheckedBeforeItIsSaved(t *testing.T) {
	t.Parallel()
	bubble(t, func(r *rig) {
		for field, body := range map[string]string{
			"cron":    `{"cron":"61 * * * *","kind":"report"}`,
			"zone":    `{"cron":"* * * * *","kind":"report","zone":"Mars/Base"}`,
			"catchUp": `{"cron":"* * * * *","kind":"report","catchUp":"some"}`,
			"scope":   `{"cron":"* * * * *","kind":"report","scope":"relay"}`,
			"kind":    `{"cron":"* * * * *","kind":"No Kind"}`,
			"name":    `{"cron":"* * * * *","kind":"report","name":"other"}`,
		} {
			if got := r.ask(400, "PUT", "/api/v1/schedules/report", body); !strings.Contains(got, `"field":"`+field+`"`) {
				r.Errorf("%s: %s", field, got)
			}
		}
		for _, zone := range []string{"../../etc/passwd", "Local", "/etc/localtime", "Europe/Berlin\\u0000"} {
			r.ask(400, "PUT", "/api/v1/schedules/report", `{"cron":"* * * * *","kind":"report","zone":"`+zone+`"}`)
		}
		r.ask(400, "PUT", "/api/v1/schedules/No%20name", `{"cron":"* * * * *","kind":"report"}`)
		r.ask(404, "GET", "/api/v1/schedules/report", "")
		if all := r.ask(200, "GET", "/api/v1/schedules", ""); !strings.Contains(all, `"items":[]`) {
			r.Errorf("saved all the same: %s", all)
		}
	})
}

func TestD21ManySchedulesComeInPages(t *testing.T) {
	t.Parallel()
	bubble(t, func(r *rig) {
		for i := range schedules.MaxSchedules {
			r.ask(200, "PUT", fmt.Sprintf("/api/v1/schedules/s%04d", i), `{"cron":"0 0 1 1 *","kind":"report"}`)
		}
		r.ask(409, "PUT", "/api/v1/schedules/more", `{"cron":"0 0 1 1 *","kind":"report"}`)
		seen, after := map[string]bool{}, ""
		for {
			var page struct {
				Items []jobapi.Schedule `json:"items"`
				Next  string            `json:"nextAfter"`
			}
			if err := json.Unmarshal([]byte(r.ask(200, "GET", "/api/v1/schedules"+after, "")), &page); err != nil || len(page.Items) > 200 {
				r.Fatal(len(page.Items), err)
			}
			for _, s := range page.Items {
				seen[s.Name] = true
			}
			if page.Next == "" {
				break
			}
			after = "?after=" + page.Next
		}
		if len(seen) != schedules.MaxSchedules {
			r.Errorf("listed %d", len(seen))
		}
	})
}
