package batchfleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/artifact"
	"github.com/batchfleet/batchfleet/processor/custom"
	"github.com/batchfleet/batchfleet/scratch"
	"github.com/batchfleet/batchfleet/storage"
)

// kindRig runs jobs of one kind as a worker does.
type kindRig struct {
	work    string // WORK_DIR
	t       *testing.T
	handler *custom.Handler
	store   *storage.Local

	mu       sync.Mutex
	lines    []string
	progress []jobs.Progress
}

func newKindRig(t *testing.T, k Kind) *kindRig {
	t.Helper()
	k.Name = "mine"
	store, err := storage.NewLocal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	work := t.TempDir()
	root, err := scratch.Open(work, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	described := k.describe()
	if err := described.Check(); err != nil {
		t.Fatal(err)
	}
	return &kindRig{t: t, work: work, store: store, handler: &custom.Handler{Kind: described, Store: store, Scratch: root, Do: k.do, Log: log}}
}

// run makes an attempt at a job; failures came before it.
func (r *kindRig) run(job jobs.Job, failures int) error {
	_, err := r.handler.RunAttempt(r.t.Context(), jobs.Attempt{
		Job: job, Number: failures + 1, Failures: failures, Slot: jobs.Slot{GPUs: []int{2, 5}},
		Report: func(p jobs.Progress) { r.mu.Lock(); defer r.mu.Unlock(); r.progress = append(r.progress, p) },
		Log:    func(line string) { r.mu.Lock(); defer r.mu.Unlock(); r.lines = append(r.lines, line) },
	})
	return err
}

// fails makes an attempt and returns how it has failed.
func (r *kindRig) fails(job jobs.Job, failures int) *jobs.Failure {
	r.t.Helper()
	err := r.run(job, failures)
	f, ok := errors.AsType[*jobs.Failure](err)
	if !ok {
		r.t.Fatalf("the attempt ended with %v, want a failure", err)
	}
	return f
}

// read returns an artifact.
func (r *kindRig) read(id jobs.ID, name string) string {
	r.t.Helper()
	src, err := r.store.Open(r.t.Context(), artifact.ObjectName(id, name))
	if err != nil {
		r.t.Fatal(err)
	}
	defer src.Close()
	text, err := io.ReadAll(src)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

func TestK15ErrorsSayWhetherAndWhenTheJobRunsAgain(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name     string
		kind     Kind
		err      error
		failures int
		want     string // code, final, again after
	}{
		{"without retries a failure is the last", Kind{}, broken, 0, "JOB_FAILED false"},
		{"with retries the job runs again after 10 s", Kind{Retries: 2}, broken, 0, "JOB_FAILED false 10s"},
		{"the wait doubles", Kind{Retries: 2}, broken, 1, "JOB_FAILED false 20s"},
		{"until the last of them", Kind{Retries: 2}, broken, 2, "JOB_FAILED false"},
		{"the kind has waits of its own", Kind{Retries: 9, Backoff: time.Second, MaxBackoff: 3 * time.Second}, broken, 5, "JOB_FAILED false 3s"},
		{"Final is final in spite of retries", Kind{Retries: 2}, Final(broken), 0, "JOB_FAILED true"},
		{"also when it is wrapped", Kind{Retries: 2}, fmt.Errorf("read: %w", Final(broken)), 0, "JOB_FAILED true"},
		{"RetryAfter needs no retries", Kind{}, RetryAfter(broken, time.Minute), 0, "JOB_FAILED false 1m0s"},
		{"it waits for a second at least", Kind{}, RetryAfter(broken, 0), 0, "JOB_FAILED false 1s"},
		{"the tenth time is the last", Kind{}, RetryAfter(broken, time.Minute), 9, "JOB_FAILED false 1m0s"},
		{"and not one more", Kind{}, RetryAfter(broken, time.Minute), 10, "JOB_FAILED false"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.kind.Run = func(context.Context, *Job) error { return tt.err }
			f := newKindRig(t, tt.kind).fails(jobs.Job{ID: "j", Kind: "mine"}, tt.failures)
			got := fmt.Sprintf("%s %t", f.Code, f.Final)
			if f.Retry {
				got += " " + f.RetryAfter.String()
			}
			if got != tt.want || !errors.Is(f, broken) {
				t.Errorf("got %q of %v, want %q", got, f, tt.want)
			}
		})
	}
	if Final(nil) != nil || RetryAfter(nil, time.Second) != nil {
		t.Error("no error has become one")
	}
}

func TestK15PanicIsAFailureWithItsStack(t *testing.T) {
	r := newKindRig(t, Kind{Retries: 1, Run: func(_ context.Context, job *Job) error {
		if _, err := job.Create("half"); err != nil {
			return err
		}
		panic("no idea")
	}})
	f := r.fails(jobs.Job{ID: "j", Kind: "mine"}, 0)
	if f.Code != "PANIC" || !f.Retry || f.Final || f.Error() != "panic: no idea" || !strings.Contains(f.Detail, "kind_test.go") {
		t.Errorf("got %+v: %v", f, f)
	}
	if lines := strings.Join(r.lines, "\n"); !strings.Contains(lines, "kind_test.go:") {
		t.Errorf("the log has no stack:\n%s", lines)
	}
	if _, err := r.store.Open(t.Context(), artifact.ObjectName("j", "half")); err == nil {
		t.Error("what the function left is stored")
	}
}

func TestK15ParamsRefuseWhatTheStructDoesNotHave(t *testing.T) {
	type params struct {
		Least int `json:"least"`
	}
	for _, tt := range []struct{ name, params, want string }{
		{"a field has its value", `{"least":3}`, ""},
		{"no params leave it as it is", ``, ""},
		{"an unknown name is refused", `{"most":3}`, `params: unknown field "most"`},
		{"and another type", `{"least":"three"}`, "params: cannot unmarshal string"},
		{"a list is no object", `[1]`, "object"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := params{Least: 7}
			r := newKindRig(t, Kind{Retries: 5, Run: func(_ context.Context, job *Job) error { return job.Params(&p) }})
			job := jobs.Job{ID: "j", Kind: "mine", Payload: tt.params}
			if tt.want == "" {
				if err := r.run(job, 0); err != nil || tt.params != "" && p.Least != 3 || tt.params == "" && p.Least != 7 {
					t.Errorf("params %+v, %v", p, err)
				}
				return
			}
			if f := r.fails(job, 0); f.Code != "INVALID_PARAMS" || !f.Final || f.Retry || !strings.Contains(f.Error(), tt.want) {
				t.Errorf("got %+v: %v, want %q", f, f, tt.want)
			}
		})
	}
}

func TestK15CreateTakesNamesThatCanBeStored(t *testing.T) {
	for _, name := range []string{"", ".hidden", "../up", "a/b", "a b", "result.json", "-rf", strings.Repeat("x", 129)} {
		r := newKindRig(t, Kind{Retries: 5, Run: func(_ context.Context, job *Job) error {
			_, err := job.Create(name)
			return err
		}})
		if f := r.fails(jobs.Job{ID: "j", Kind: "mine"}, 0); !f.Final || !strings.Contains(f.Error(), "output") {
			t.Errorf("%q: got %v", name, f)
		}
	}
}

func TestK15FilesThatAreLeftOpenAreClosedAndStored(t *testing.T) {
	var left, closed *os.File
	r := newKindRig(t, Kind{Run: func(_ context.Context, job *Job) error {
		var err error
		if left, err = job.Create("left.txt"); err != nil {
			return err
		}
		if closed, err = job.Create("closed.txt"); err != nil {
			return err
		}
		_, err = fmt.Fprint(left, "left open")
		return errors.Join(err, closed.Close())
	}})
	if err := r.run(jobs.Job{ID: "j", Kind: "mine"}, 0); err != nil {
		t.Fatal(err)
	}
	if got := r.read("j", "left.txt"); got != "left open" {
		t.Errorf("left.txt has %q", got)
	}
	if err := left.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the file is still open: %v", err)
	}
	stored, err := artifact.Stored(t.Context(), r.store, "j")
	if err != nil || len(stored.Artifacts) != 2 {
		t.Errorf("the result is %+v, %v", stored, err)
	}
}

func TestK15JobHasItsWorld(t *testing.T) {
	var work string
	r := newKindRig(t, Kind{GPUs: 2, Run: func(_ context.Context, job *Job) error {
		work = job.Dir()
		text, err := os.ReadFile(job.Input())
		if err != nil {
			return err
		}
		job.Log("%s %s", filepath.Base(job.Input()), text)
		job.Progress(1, 4, "")
		job.Progress(2, 4, "half")
		empty, err := os.ReadDir(job.Dir())
		got := fmt.Sprint(job.ID(), " ", job.Attempt(), " ", len(job.Inputs()), " ", job.GPUs(), " ", len(empty))
		if want := "j 3 2 [2 5] 0"; got != want {
			return fmt.Errorf("the job is %q, want %q", got, want)
		}
		return err
	}})
	for _, name := range []string{"uploads/a.txt", "uploads/b.txt"} {
		if err := r.store.Put(t.Context(), name, strings.NewReader("text of "+name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.run(jobs.Job{ID: "j", Kind: "mine", Inputs: []string{"uploads/a.txt", "uploads/b.txt"}}, 2); err != nil {
		t.Fatal(err)
	}
	if want := []string{"a.txt text of uploads/a.txt"}; !slices.Equal(r.lines, want) {
		t.Errorf("the log is %q, want %q", r.lines, want)
	}
	var told []string
	for _, p := range r.progress {
		if p.Total == 4 {
			told = append(told, fmt.Sprintf("%d/%d %s", p.Done, p.Total, p.Message))
		}
	}
	if want := []string{"1/4 Step 1/4", "2/4 half"}; !slices.Equal(told, want) {
		t.Errorf("progress is %q, want %q", told, want)
	}
	if entries, err := os.ReadDir(work); err == nil && len(entries) > 0 {
		t.Errorf("its directory still has %v", entries)
	}
	alone := newKindRig(t, Kind{Run: func(_ context.Context, job *Job) error {
		if job.Input() != "" || len(job.Inputs()) != 0 {
			return fmt.Errorf("a job without inputs has %q", job.Inputs())
		}
		return nil
	}})
	if err := alone.run(jobs.Job{ID: "j", Kind: "mine"}, 0); err != nil {
		t.Error(err)
	}
}

func TestK15CheckpointIsThereInTheNextAttempt(t *testing.T) {
	count := func(_ context.Context, job *Job) error {
		file := filepath.Join(job.Checkpoint(), "n")
		before, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		if err := os.WriteFile(file, append(before, 'x'), 0o600); err != nil {
			return err
		}
		if len(before) < 2 {
			return errors.New("not yet")
		}
		return nil
	}
	t.Run("on the same machine", func(t *testing.T) {
		r := newKindRig(t, Kind{Retries: 5, Run: count})
		job := jobs.Job{ID: "j", Kind: "mine"}
		_ = r.fails(job, 0)
		_ = r.fails(job, 1)
		if err := r.run(job, 2); err != nil {
			t.Error(err)
		}
	})
	t.Run("and not after a job that has ended, also if that attempt has not asked for it", func(t *testing.T) {
		r := newKindRig(t, Kind{Retries: 5, Run: func(_ context.Context, job *Job) error {
			if job.Attempt() > 1 {
				return nil
			}
			return errors.Join(os.WriteFile(filepath.Join(job.Checkpoint(), "n"), []byte("x"), 0o600), errors.New("not yet"))
		}})
		job := jobs.Job{ID: "j", Kind: "mine"}
		_ = r.fails(job, 0)
		if err := r.run(job, 1); err != nil {
			t.Error(err)
		}
		c, err := r.handler.Scratch.Checkpoint("j")
		if err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(c.Dir); err != nil || len(left) > 0 {
			t.Errorf("it still has %v, %v", left, err)
		}
		if err := c.Delete(); err != nil {
			t.Error(err)
		}
	})
	t.Run("on another one with MaxCheckpoint", func(t *testing.T) {
		r := newKindRig(t, Kind{Retries: 5, MaxCheckpoint: 1 << 20, Run: count})
		other := newKindRig(t, Kind{Retries: 5, MaxCheckpoint: 1 << 20, Run: count})
		other.handler.Store = r.store
		job := jobs.Job{ID: "j", Kind: "mine"}
		_ = r.fails(job, 0)
		_ = r.fails(job, 1)
		if err := other.run(job, 2); err != nil {
			t.Errorf("the checkpoint has not travelled: %v", err)
		}
	})
}

func TestK15KindIsDescribedAsInAFile(t *testing.T) {
	k := Kind{
		Name: "mine", Description: "text", Timeout: time.Minute, Slots: 2, GPUs: 3, Retries: 4,
		Backoff: time.Second, MaxBackoff: time.Hour, MaxInput: 5, MaxCheckpoint: 6,
	}
	d := k.describe()
	if d.Name != "mine" || d.Description != "text" || d.Timeout != time.Minute || d.Slots != 2 || d.GPUs != 3 || d.Retries != 4 ||
		d.Backoff != time.Second || d.BackoffMax != time.Hour || d.MaxInput != 5 || d.Checkpoints != 6 {
		t.Errorf("got %+v", d)
	}
	d = Kind{Name: "mine"}.describe()
	if d.Backoff != 10*time.Second || d.BackoffMax != 10*time.Minute || d.MaxInput != 1<<30 || d.Checkpoints != 0 || d.Retries != 0 {
		t.Errorf("without more it is %+v", d)
	}
}

// asMain makes the test binary a program of somebody's own.
const asMain = "BATCHFLEET_TEST_OWN_MAIN"

func TestMain(m *testing.M) {
	nothing := func(context.Context, *Job) error { return nil }
	switch os.Getenv(asMain) {
	case "good":
		Main(Kind{Name: "mine", Description: "a kind of one's own", Run: nothing})
	case "bad":
		Main(Kind{Name: "pdf", Run: nothing}, Kind{Name: "No Name"}, Kind{Name: "mine", Retries: 101, Run: nothing})
	}
	os.Exit(m.Run())
}

func TestK15MainHasOurCommandsAndItsKinds(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run := func(as string, args ...string) (code int, out string) {
		c := exec.CommandContext(t.Context(), self, args...)
		c.Env, c.Dir = []string{asMain + "=" + as, "PATH=" + os.Getenv("PATH")}, t.TempDir()
		text, err := c.CombinedOutput()
		if err != nil && !errors.As(err, new(*exec.ExitError)) {
			t.Fatal(err)
		}
		return c.ProcessState.ExitCode(), string(text)
	}
	code, out := run("good", "kinds")
	for _, want := range []string{"mine", "a kind of one's own", "pdf"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, and %q is not in\n%s", code, want, out)
		}
	}
	code, out = run("bad", "kinds")
	for _, want := range []string{`kind "pdf": the name is`, `kind "No Name": the name must match`, `kind "mine": Retries is 101`} {
		if code != 2 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, want 2, and %q is not in\n%s", code, want, out)
		}
	}
	if code, out = run("good", "nonsense"); code != 2 {
		t.Errorf("an unknown command: exit code %d, want 2\n%s", code, out)
	}
}

func TestK15DirectoriesAreMadeWhenAFunctionAsksForThem(t *testing.T) {
	var r *kindRig
	entries := func(pattern string) int {
		found, err := filepath.Glob(filepath.Join(r.work, "batchfleet-scratch", pattern))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	for _, tt := range []struct {
		name                 string
		ask                  func(*Job)
		attempts, checkpoint int
	}{
		{"for none", func(*Job) {}, 0, 0},
		{"for a directory", func(j *Job) { _ = j.Dir() }, 1, 0},
		{"for a file", func(j *Job) { _, _ = j.Create("a") }, 1, 0},
		{"for a checkpoint", func(j *Job) { _ = j.Checkpoint() }, 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r = newKindRig(t, Kind{Run: func(_ context.Context, job *Job) error {
				tt.ask(job)
				if attempts, checkpoints := entries("workers/*/j-1"), entries("checkpoints/j"); attempts != tt.attempts || checkpoints != tt.checkpoint {
					return fmt.Errorf("there are %d directories of attempts and %d checkpoints", attempts, checkpoints)
				}
				return nil
			}})
			if err := r.run(jobs.Job{ID: "j", Kind: "mine"}, 0); err != nil {
				t.Error(err)
			}
			if attempts, checkpoints := entries("workers/*/j-1"), entries("checkpoints/j"); attempts+checkpoints > 0 {
				t.Errorf("after the job there are %d directories of attempts and %d checkpoints", attempts, checkpoints)
			}
		})
	}
}

func TestK15JobWhoseDirectoriesCannotBeMadeIsHandedBack(t *testing.T) {
	for name, path := range map[string]func(*Job) string{"directory": (*Job).Dir, "checkpoint": (*Job).Checkpoint} {
		t.Run(name, func(t *testing.T) {
			var r *kindRig
			r = newKindRig(t, Kind{Run: func(ctx context.Context, job *Job) error {
				if err := os.RemoveAll(filepath.Join(r.work, "batchfleet-scratch")); err != nil {
					return err
				}
				if err := os.WriteFile(filepath.Join(r.work, "batchfleet-scratch"), nil, 0o600); err != nil {
					return err
				}
				if err := os.WriteFile(filepath.Join(path(job), "file"), nil, 0o600); err == nil {
					return Final(errors.New("a file could be written"))
				}
				<-ctx.Done()
				return Final(errors.New("the job had no directory"))
			}})
			if err := r.run(jobs.Job{ID: "j", Kind: "mine"}, 0); !errors.Is(err, jobs.ErrUnavailable) {
				t.Errorf("the attempt ended with %v, want that the worker is at fault", err)
			}
		})
	}
}
