package repair_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/operations/repair"
	"github.com/batchfleet/batchfleet/redisdb"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/worker"
)

// rig is a fleet without workers, in virtual time.
type rig struct {
	*testing.T
	repair.Repair
	rdb       *redis.Client
	walk      func(ctx context.Context, name string) error // before each result is shown
	walks     int                                          // through all results
	published []jobs.ID
	last      jobs.Job // that was published
	refuse    error    // what publishing says
	found     []redisdb.Finding
}

// store is a directory in which what is denied cannot be read.
type store struct {
	storage.Store
	*rig
}

func (s store) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if strings.Contains(name, "denied") {
		return nil, fmt.Errorf("open %s: %w: %w", name, jobs.ErrUnavailable, fs.ErrPermission)
	}
	return s.Store.Open(ctx, name)
}

func (s store) Walk(ctx context.Context, prefix string, visit storage.Visit) error {
	if prefix == "results/" {
		s.walks++
	}
	return s.Store.Walk(ctx, prefix, func(name string, info storage.Info, err error) error {
		if s.walk != nil && prefix == "results/" {
			if err := s.walk(ctx, name); err != nil {
				return err
			}
		}
		return visit(name, info, err)
	})
}

// conn is a connection with room for answers: a pipe has none, and a long pipeline would
// wait for its reader for good.
type conn struct {
	net.Conn
	answers chan []byte
	rest    []byte
}

func dial(m *miniredis.Miniredis) (net.Conn, error) {
	pipe, err := m.Dial()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: pipe, answers: make(chan []byte, 10_000)}
	go func() { // ends with the connection
		defer close(c.answers)
		for {
			b := make([]byte, 4096)
			n, err := pipe.Read(b)
			c.answers <- b[:n]
			if err != nil {
				return
			}
		}
	}()
	return c, nil
}

func (c *conn) Read(b []byte) (int, error) {
	for len(c.rest) == 0 {
		var ok bool
		if c.rest, ok = <-c.answers; !ok {
			return 0, io.EOF
		}
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *conn) SetReadDeadline(time.Time) error { return nil }

func bubble(t *testing.T, test func(r *rig)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := miniredis.NewMiniRedis()
		m.ClockTTL(true)
		defer m.Close()
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", DisableIdentity: true, Dialer: func(context.Context, string, string) (net.Conn, error) { return dial(m) }})
		defer rdb.Close()
		local, err := storage.NewLocal(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer local.Close()
		r := &rig{T: t, rdb: rdb}
		st := status.New(rdb)
		st.Worker = "repair"
		r.Repair = repair.Repair{
			Status: st, Store: store{local, r}, Log: slog.New(slog.DiscardHandler), Dir: dir,
			Found: func(f redisdb.Finding) { r.found = append(r.found, f) },
			Publish: func(_ context.Context, job jobs.Job) (string, error) {
				r.published, r.last = append(r.published, job.ID), job
				return "m", r.refuse
			},
		}
		test(r)
	})
}

func (r *rig) submit(ids ...jobs.ID) {
	r.Helper()
	for _, id := range ids {
		if _, err := r.Status.Submit(r.Context(), jobs.Job{ID: id, Kind: "mock", Submitted: time.Now()}); err != nil {
			r.Fatal(err)
		}
		time.Sleep(2 * time.Second) // they are shown in this order
	}
}

// result stores what a worker does at the end.
func (r *rig) result(ids ...jobs.ID) {
	r.Helper()
	for _, id := range ids {
		text := fmt.Sprintf(`{"job_id":%q,"kind":"mock","pages":1,"processed_at":%q}`, id, time.Now().UTC().Format(time.RFC3339))
		if err := r.Store.Put(r.Context(), "results/"+string(id)+"/result.json", strings.NewReader(text)); err != nil {
			r.Fatal(err)
		}
	}
}

// round makes a round after a loss.
func (r *rig) round() (repair.Seen, error) {
	return r.Round(r.Context(), repair.Options{Lost: time.Now(), Age: time.Hour})
}

func (r *rig) want(id jobs.ID, word, message string) {
	r.Helper()
	if e, err := r.Status.Get(r.Context(), id); err != nil || e.Status != word || message != "" && e.Message != message {
		r.Errorf("job %s is %q (%s), %v; want %s", id, e.Status, e.Message, err, word)
	}
}

func TestF25RoundThatWorksTakesAsLongAsItNeeds(t *testing.T) {
	bubble(t, func(r *rig) {
		var ids []jobs.ID
		for i := range 60 {
			ids = append(ids, jobs.ID(fmt.Sprintf("job-%d", i)))
		}
		r.result(ids...)
		other := status.New(r.rdb)
		r.walk = func(ctx context.Context, _ string) error {
			time.Sleep(time.Minute)
			if mine, _, err := other.Look(ctx, time.Minute, 0); mine || err != nil {
				t.Errorf("another worker may begin a round: %v, %v", mine, err)
			}
			return nil
		}
		ctx, stop := context.WithTimeout(r.Context(), 65*time.Minute)
		defer stop()
		r.Repair.Run(ctx, 10*time.Minute)
		for _, id := range ids {
			r.want(id, "completed", "")
		}
		if lost := r.rdb.HGet(r.Context(), "fleet:repair", "lost").Val(); lost != "0" || r.walks != 1 {
			t.Errorf("after %d walks the loss on record is %q, want none after 1", r.walks, lost)
		}
	})
}

func TestF25RoundThatHangsIsLeftToAnother(t *testing.T) {
	bubble(t, func(r *rig) {
		r.result("a")
		r.walk = func(ctx context.Context, _ string) error {
			if r.walks > 1 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}
		ctx, stop := context.WithTimeout(r.Context(), 10*time.Minute)
		defer stop()
		r.Repair.Run(ctx, 10*time.Minute)
		if r.walks != 2 {
			t.Errorf("%d rounds in 10 minutes, with a first one that hangs; want 2", r.walks)
		}
		r.want("a", "completed", "")
	})
}

// lost fails the first pipeline with a command, after it was done.
type lost struct {
	redis.Hook
	command string
	done    bool
}

func (l *lost) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (l *lost) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (l *lost) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, c := range cmds {
			if c.Name() == l.command && !l.done {
				l.done = true
				err = errors.New("the answer is lost")
				for _, c := range cmds {
					c.SetErr(err)
				}
				return err
			}
		}
		return err
	}
}

func TestF23ClaimOfARepairWhoseAnswerIsLostIsNoCrash(t *testing.T) {
	bubble(t, func(r *rig) {
		r.submit("a")
		r.result("a")
		answer := &lost{command: "zadd"}
		r.rdb.AddHook(answer)
		seen, err := r.round()
		if err != nil || seen.Failed != 1 || !answer.done {
			t.Errorf("%+v, %v, want the job to have failed", seen, err)
		}
		r.want("a", "queued", "Waiting for a worker...")
		time.Sleep(time.Hour) // its hold would be over
		c, err := r.Status.Claim(r.Context(), jobs.Job{ID: "a", Kind: "mock"}, time.Minute, jobs.Claim{})
		if err != nil || c.Verdict != jobs.Granted || c.Crashes != 0 {
			t.Errorf("%+v, %v, want a claim after no crash", c, err)
		}
	})
}

func TestF25JobsThatCannotBeRepairedKeepNoOtherFromIt(t *testing.T) {
	bubble(t, func(r *rig) {
		r.submit("first", "denied-1", "wrong", "last")
		r.result("first", "denied-1", "wrong", "last", "denied-2", "unknown")
		r.rdb.Set(r.Context(), "{job:wrong}:detail", "not ours", 0)
		seen, err := r.round()
		if err != nil || seen.Recorded != 3 || seen.Failed != 3 {
			t.Errorf("%+v, %v, want 3 recorded and 3 failed", seen, err)
		}
		for _, id := range []jobs.ID{"first", "last", "unknown"} {
			r.want(id, "completed", "")
		}
		for i := range 20 {
			r.result(jobs.ID(fmt.Sprintf("denied-more-%d", i)))
		}
		if _, err := r.round(); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("where nothing can be read the round ends with %v", err)
		}
	})
}

func TestF25ResultThatCannotBeReadMakesNoRoundsOfItsOwn(t *testing.T) {
	bubble(t, func(r *rig) {
		r.result("a", "denied")
		ctx, stop := context.WithTimeout(r.Context(), 65*time.Minute)
		defer stop()
		r.Repair.Run(ctx, 10*time.Minute)
		r.want("a", "completed", "")
		if lost := r.rdb.HGet(r.Context(), "fleet:repair", "lost").Val(); lost == "0" || r.walks < 5 || r.walks > 7 {
			t.Errorf("%d walks in an hour, loss on record %q: want it tried again every 10 minutes", r.walks, lost)
		}
	})
}

func TestF25JobThatCouldNotBePublishedKeepsItsTurn(t *testing.T) {
	bubble(t, func(r *rig) {
		r.submit("a")
		time.Sleep(time.Minute)
		r.refuse = fmt.Errorf("publish: %w", jobs.ErrUnavailable)
		for range 3 {
			if seen, err := r.Round(r.Context(), repair.Options{Age: time.Minute}); err != nil || seen.Failed != 1 {
				t.Errorf("%+v, %v, want the job to have failed", seen, err)
			}
		}
		r.refuse = nil
		if seen, err := r.Round(r.Context(), repair.Options{Age: time.Minute}); err != nil || seen.Published != 1 {
			t.Errorf("%+v, %v, want the job to be published", seen, err)
		}
		if n := r.rdb.HGet(r.Context(), "{job:a}:detail", "sent_times").Val(); n != "1" || len(r.published) != 4 {
			t.Errorf("published %v, sent %s times on record", r.published, n)
		}
	})
}

func TestF25RefusedMessageIsAFindingOfItsOwn(t *testing.T) {
	bubble(t, func(r *rig) {
		var ids []jobs.ID
		for i := range 12 {
			ids = append(ids, jobs.ID(fmt.Sprintf("job-%d", i)))
		}
		r.submit(ids...)
		r.result("unknown")
		time.Sleep(time.Hour)
		r.refuse = fmt.Errorf("no permission on the topic: %w", worker.ErrRefused)
		report, err := r.Fsck(r.Context(), true)
		if err != nil || report.Counts[status.Unrepaired] != 12 || report.Left != 12 || report.Harmless != 0 {
			t.Errorf("%+v, %v", report, err)
		}
		if f := report.Findings[0]; f.Harmless || !strings.Contains(f.Detail, "no permission on the topic") {
			t.Errorf("%+v does not say why", f)
		}
		r.want("unknown", "completed", "")
		r.refuse = nil
		if report, err = r.Fsck(r.Context(), false); err != nil || report.Left != 0 || report.Harmless != 0 {
			t.Errorf("those refused are not due: %+v, %v", report, err)
		}
		time.Sleep(time.Hour)
		if report, err = r.Fsck(r.Context(), true); err != nil || report.Left != 0 || report.Harmless != 0 || report.Counts[status.Waiting] != 12 {
			t.Errorf("what was published is repaired: %+v, %v", report, err)
		}
	})
}

func TestF46RepairWithoutATopicRecordsResults(t *testing.T) {
	bubble(t, func(r *rig) {
		r.Publish = nil
		r.submit("waits", "done")
		r.result("done", "unknown")
		seen, err := r.round()
		if err != nil || seen != (repair.Seen{Recorded: 2}) {
			t.Errorf("%+v, %v, want 2 recorded", seen, err)
		}
		r.want("waits", "queued", "")
	})
}

// A job that waits for its next attempt has a message, which Pub/Sub keeps back.
func TestK10JobThatWaitsForItsNextAttemptIsNotLost(t *testing.T) {
	bubble(t, func(r *rig) {
		r.submit("a")
		c, err := r.Status.Claim(r.Context(), jobs.Job{ID: "a", Kind: "mock"}, time.Minute, jobs.Claim{})
		if err != nil {
			r.Fatal(err)
		}
		if _, err := r.Status.Retry(r.Context(), c, jobs.Outcome{State: jobs.Failed, Retry: true, RetryAfter: 2 * time.Hour}); err != nil {
			r.Fatal(err)
		}
		look := func(want int) {
			r.Helper()
			if _, err := r.Fsck(r.Context(), true); err != nil { // as a person does
				r.Fatal(err)
			}
			if _, err := r.Round(r.Context(), repair.Options{Age: 10 * time.Minute}); err != nil { // as a worker does
				r.Fatal(err)
			}
			if len(r.published) != want {
				r.Errorf("%s later %d messages were published, want %d", time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)), len(r.published), want)
			}
		}
		for range 11 {
			time.Sleep(10 * time.Minute)
			look(0)
		}
		time.Sleep(20 * time.Minute) // it should have run
		look(1)
	})
}

func TestK14JobIsPublishedAgainWithItsParameters(t *testing.T) {
	bubble(t, func(r *rig) {
		whole := jobs.Job{ID: "a", Kind: "thumbnail", Inputs: []string{"x", "y"}, Payload: `{"dpi": 60}`, Submitted: time.Now().UTC()}
		bare := jobs.Job{ID: "b", Kind: "thumbnail", Submitted: time.Now().UTC()} // of a kind that needs nothing
		for _, job := range []jobs.Job{whole, bare} {
			if _, err := r.Status.Submit(r.Context(), job); err != nil {
				r.Fatal(err)
			}
			time.Sleep(2 * time.Minute)
			if _, err := r.Fsck(r.Context(), true); err != nil {
				r.Fatal(err)
			}
			if d := cmp.Diff(job, r.last); d != "" {
				r.Errorf("published another job (-want +got):\n%s", d)
			}
		}
		r.rdb.Del(r.Context(), "{job:a}:params")
		r.published = nil
		time.Sleep(time.Hour)
		audit, err := r.Fsck(r.Context(), true)
		if err != nil {
			r.Fatal(err)
		}
		if fmt.Sprint(r.published) != "[b]" || !slices.ContainsFunc(audit.Findings, func(f redisdb.Finding) bool {
			return f.Job == "a" && f.Kind == status.Unrepaired && strings.Contains(f.Detail, "Redis has lost them")
		}) {
			r.Errorf("published %v, found %+v; want b published, and a, which has lost its parameters, to be named and left alone", r.published, audit.Findings)
		}
	})
}
