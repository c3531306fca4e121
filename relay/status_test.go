package relay

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
	"github.com/batchfleet/batchfleet/worker/memory"
	"github.com/batchfleet/batchfleet/worker/workertest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// store is the relay's status as the suite of workers wants one: jobs need not be submitted before they are claimed.
type suiteStore struct {
	*Status
	r *rig
}

func (s suiteStore) Submit(_ context.Context, job jobs.Job) (bool, error) {
	if s.tasks.find(job.ID) != nil {
		return false, nil
	}
	t := &Task{SchemaVersion: schemaVersion, ID: job.ID, JobID: "job", Kind: "music", State: Queued, CreatedAt: time.Now()}
	if err := s.tasks.dir.create(t, []byte("{}"), nil); err != nil {
		return false, err
	}
	s.tasks.put(t)
	return true, nil
}

func (s suiteStore) Claim(ctx context.Context, job jobs.Job, hold time.Duration, again jobs.Claim) (jobs.Claim, error) {
	if _, err := s.Submit(ctx, job); err != nil {
		return jobs.Claim{}, err
	}
	return s.Status.Claim(ctx, job, hold, again)
}

func (s suiteStore) Finish(ctx context.Context, c jobs.Claim, o jobs.Outcome) (jobs.State, error) {
	if o.State == jobs.Succeeded {
		o.Result.Text = `{"artifacts":[{"name":"a","sha256":"` + strings.Repeat("0", 64) + `"}]}`
	}
	return s.Status.Finish(ctx, c, o)
}

func (s suiteStore) Cancel(_ context.Context, id jobs.ID) (jobs.State, error) {
	t, err := s.Status.Cancel(id)
	if errors.Is(err, errEnded) {
		err = nil
	}
	if t == nil {
		return 0, err
	}
	return t.State.job(), err
}

func TestStatusKeepsThePromisesOfEveryStatus(t *testing.T) {
	workertest.Status(t, func(t *testing.T) workertest.Store {
		r := newRig(t)
		r.status.crashes = 3
		return suiteStore{r.status, r}
	})
}

func TestQueueKeepsThePromisesOfEverySource(t *testing.T) {
	workertest.Source(t, func(t *testing.T) workertest.Queue {
		r := newRig(t)
		r.queue.paused = func(jobs.Kind) bool { return false }
		return workertest.Queue{Source: r.queue, Submit: func(_ *testing.T, job jobs.Job) {
			r.queue.Add(memory.Message{Job: job, Attributes: map[string]string{priorityKey: "0"}})
		}}
	})
}

func TestR20OnlyTheEdgesOfTheContractExist(t *testing.T) {
	want := map[State]string{
		Queued: "running canceled", Running: "uploading failed canceled queued", Uploading: "succeeded failed canceled", Failed: "uploading",
	}
	for from := Queued; from <= Canceled; from++ {
		for to := Queued; to <= Canceled; to++ {
			task := &Task{ID: "task", State: from, Error: &Error{}}
			err := task.become(to, time.Now())
			allowed := strings.Contains(" "+want[from]+" ", " "+to.String()+" ")
			if (err == nil) != allowed {
				t.Errorf("%s to %s: %v, allowed %t", from, to, err, allowed)
			}
			if err != nil && (task.State != from || task.Sequence != 0) {
				t.Errorf("%s to %s was refused and has changed the task: %+v", from, to, task)
			}
		}
	}
}

// Random orders of events leave a task that has ended once, and sequences that only grow.
func TestR20RandomEventsKeepToTheEdges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := setup(t, t.TempDir())
		r.alone()
		store := suiteStore{r.status, r}
		if _, err := store.Submit(t.Context(), jobs.Job{ID: "a"}); err != nil {
			t.Fatal(err)
		}
		var claims []jobs.Claim
		before := r.task("a")
		step := func(error) {
			after := r.task("a")
			if after.State != before.State && !before.State.mayBecome(after.State) {
				// A claim that is taken over and ended by one call takes two edges.
				rt.Fatalf("from %s to %s", before.State, after.State)
			}
			if after.Sequence < before.Sequence || after.Progress < before.Progress {
				rt.Fatalf("went back from %+v to %+v", before, after)
			}
			if before.State.Terminal() && after.State != before.State {
				rt.Fatalf("%s became %s", before.State, after.State)
			}
			before = after
		}
		pick := func() jobs.Claim {
			if len(claims) == 0 {
				return jobs.Claim{Job: "a"}
			}
			return claims[rapid.IntRange(0, len(claims)-1).Draw(rt, "claim")]
		}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "event") {
			case 0:
				c, err := store.Claim(t.Context(), jobs.Job{ID: "a"}, time.Nanosecond, jobs.Claim{})
				if c.Verdict == jobs.Granted || c.Verdict == jobs.CrashLoop {
					claims = append(claims, c)
				}
				step(err)
			case 1:
				step(r.status.Report(t.Context(), pick(), time.Hour, &jobs.Progress{Done: rapid.IntRange(-1, 9).Draw(rt, "done"), Total: 5}, jobs.Lines{}))
			case 2:
				state := []jobs.State{jobs.Succeeded, jobs.Failed, jobs.Canceled}[rapid.IntRange(0, 2).Draw(rt, "outcome")]
				_, err := store.Finish(t.Context(), pick(), jobs.Outcome{State: state, Reason: "x"})
				if t := r.task("a"); t.State == Succeeded {
					before = &Task{State: Uploading, Sequence: before.Sequence, Progress: before.Progress} // it has passed through
				}
				step(err)
			case 3:
				_, err := r.status.Retry(t.Context(), pick(), jobs.Outcome{State: jobs.Failed, Retry: true})
				step(err)
			case 4:
				step(r.status.Release(t.Context(), pick(), "stopped"))
			case 5:
				_, err := r.status.Cancel("a")
				step(err)
			}
		}
	})
}

func TestR25RunningTaskRunsOnceMoreAndThenFails(t *testing.T) {
	r := newRig(t)
	id := r.create("")
	for crash := 1; ; crash++ {
		c, err := r.status.Claim(t.Context(), jobs.Job{ID: id}, time.Hour, jobs.Claim{})
		if err != nil || c.Verdict != jobs.Granted || c.Attempt != crash {
			t.Fatalf("claim: %+v, %v", c, err)
		}
		if err := errors.Join(r.tasks.dir.prepare(id), os.WriteFile(filepath.Join(r.Place(id), "left"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		r = r.again(nil)
		if entries, err := os.ReadDir(r.Place(id)); err != nil || len(entries) > 0 {
			t.Errorf("work has %v, %v", entries, err)
		}
		task := r.task(id)
		if crash == 2 {
			if task.State != Failed || task.Error.Code != codeInterrupted {
				t.Errorf("after two crashes: %+v", task)
			}
			break
		}
		if task.State != Queued || task.Crashes != 1 {
			t.Errorf("after a crash: %+v", task)
		}
	}
	if waiting, _ := r.queue.Len(); waiting != 0 {
		t.Errorf("%d tasks are queued", waiting)
	}
}

func TestR25CanceledTaskDoesNotRunAgain(t *testing.T) {
	r := newRig(t)
	id := r.create("")
	if _, err := r.status.Claim(t.Context(), jobs.Job{ID: id}, time.Hour, jobs.Claim{}); err != nil {
		t.Fatal(err)
	}
	if resp := r.call(http.MethodPost, "/v1/tasks/"+string(id)+"/cancel", ""); resp.Status != http.StatusAccepted {
		t.Errorf("cancel: %+v", resp)
	}
	if r = r.again(nil); r.task(id).State != Canceled {
		t.Errorf("after a crash: %+v", r.task(id))
	}
}

func TestR24QueuedTasksKeepTheirOrderOverARestart(t *testing.T) {
	r := newRig(t)
	var want []jobs.ID
	for _, priority := range []string{"0", "5", "-100", "5", "0", "100"} {
		want = append(want, r.create(`{"job_id":"j","kind":"music","options":{"priority":`+priority+`}}`))
	}
	want = []jobs.ID{want[5], want[1], want[3], want[0], want[4], want[2]}
	r = r.again(nil)
	for i, id := range want {
		lease, err := r.queue.Lease(t.Context())
		if err != nil || lease.Job.ID != id {
			t.Errorf("lease %d: %s, %v; want %s", i, lease.Job.ID, err, id)
		}
	}
	if waiting, _ := r.queue.Len(); waiting != 0 {
		t.Errorf("%d are left", waiting)
	}
}

func TestR21FullKindDoesNotBlockAnother(t *testing.T) {
	r := newRig(t)
	release := make(chan struct{})
	r.run(func(ctx context.Context, job jobs.Job, _ func(jobs.Progress)) (map[string]string, error) {
		if job.Kind == "scene" {
			select {
			case <-release:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return map[string]string{"a": "b"}, nil
	}, worker.Pool{Slots: 1}, worker.Pool{Name: "scene", Kinds: []jobs.Kind{"scene"}, Slots: 1})
	first, second := r.create(`{"job_id":"j","kind":"scene"}`), r.create(`{"job_id":"j","kind":"scene"}`)
	other := r.create(`{"job_id":"j","kind":"music"}`)
	r.untilState(other, Succeeded)
	if r.untilState(first, Running); r.task(second).State != Queued {
		t.Errorf("the second task of a kind with one slot is %s", r.task(second).State)
	}
	close(release)
	r.untilState(second, Succeeded)
}

func TestUnknownTaskIsNotClaimed(t *testing.T) {
	r := newRig(t)
	if c, err := r.status.Claim(t.Context(), jobs.Job{ID: "x"}, time.Hour, jobs.Claim{}); err != nil || c.Verdict != jobs.Ended {
		t.Errorf("claim: %+v, %v", c, err)
	}
	if _, err := r.status.Cancel("x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("cancel: %v", err)
	}
}

// An attempt that was given back while the disk took nothing is no crash.
func TestR29ReleaseThatCannotBeWrittenIsNoCrash(t *testing.T) {
	r := newRig(t)
	id := r.create("")
	first, err := r.status.Claim(t.Context(), jobs.Job{ID: id}, time.Hour, jobs.Claim{})
	if err != nil {
		t.Fatal(err)
	}
	tmp := filepath.Join(r.Dir, tmpDir)
	if err := os.Rename(tmp, tmp+"-away"); err != nil {
		t.Fatal(err)
	}
	if err := r.status.Release(t.Context(), first, "handed back"); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("release: %v", err)
	}
	if err := os.Rename(tmp+"-away", tmp); err != nil {
		t.Fatal(err)
	}
	if again, err := r.status.Claim(t.Context(), jobs.Job{ID: id}, time.Hour, jobs.Claim{}); err != nil || again.Verdict != jobs.Granted || again.Attempt != 2 || again.Crashes != 0 {
		t.Errorf("claim: %+v, %v", again, err)
	}
}
