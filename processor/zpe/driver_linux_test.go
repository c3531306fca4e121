package zpe_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/command"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/zpe"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/storage/storagetest"
)

// The stretch of the fake's H2 as it follows from its potential, in cm-1: the
// curvature at the bottom of Morse's is 2 D a².
func fakeStretch() float64 {
	k := 2 * morseDepth * morseWidth * morseWidth * 2.1798723611e-18 / (5.29177210903e-11 * 5.29177210903e-11)
	return math.Sqrt(k/(1.00794/2*1.66053906660e-27)) / (2 * math.Pi * 2.99792458e10)
}

func TestZ77FakeH2(t *testing.T) {
	t.Parallel()
	h := fakeHandler(t, orders{})
	var seen []jobs.Progress
	result, err := h.Run(t.Context(), jobs.Job{ID: "job", Payload: h2}, func(p jobs.Progress) {
		seen = append(seen, p)
		if dirs, _ := filepath.Glob(filepath.Join(h.WorkDir, "*", "run-*")); len(dirs) > 1 {
			t.Errorf("earlier runs have left %v", dirs)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if result.Object != "results/job/result.json" || result.Pages != 13 || calls(t, h) != 13 {
		t.Errorf("got %+v after %d runs, want 13 pages and runs", result, calls(t, h))
	}
	d := document(t, h, result)
	r := d.Result
	want := fakeStretch()
	if len(r.Freqs) != 1 || math.Abs(r.Freqs[0]/want-1) > 1e-3 {
		t.Fatalf("frequencies are %v, want %.1f", r.Freqs, want)
	}
	if got := r.Freqs[0] * 1.239841984e-4 / 2; math.Abs(got-r.ZPE) > 1e-6 || r.ZPE < 0.26 || r.ZPE > 0.28 {
		t.Errorf("ZPE is %v eV, want %v", r.ZPE, got)
	}
	if r.Project != zpe.ProjectMolecule || r.Projected != 5 || len(r.UnprojectedFreqs) != 6 {
		t.Errorf("projection is %s, %d of %d", r.Project, r.Projected, len(r.UnprojectedFreqs))
	}
	if d.Meta.QEVersion != "6.7MaX" || r.Pseudos[0] != (zpe.ResultPseudo{File: "H.pbe-kjpaw.UPF", MD5: fakePseudoMD5}) {
		t.Errorf("made with %q, %v", d.Meta.QEVersion, r.Pseudos)
	}
	if _, err := time.Parse(time.RFC3339, d.Meta.Timestamp); err != nil {
		t.Error(err)
	}
	if !strings.HasPrefix(d.FreqsCSV, "mode,frequency_cm,zpe_ev,kind\n1,") || !strings.Contains(d.SummaryText, "Zero-point energy: 0.26") {
		t.Errorf("texts are %q and %q", d.FreqsCSV, d.SummaryText)
	}
	checkProgress(t, seen)
	wantEmpty(t, h.WorkDir)
}

// Progress counts runs up to all of them, and moves within a run too.
func checkProgress(t *testing.T, seen []jobs.Progress) {
	t.Helper()
	inside := false
	for i, p := range seen {
		if p.Total != 13 || i > 0 && p.Done < seen[i-1].Done {
			t.Fatalf("progress %d is %+v after %+v", i, p, seen[max(0, i-1)])
		}
		inside = inside || strings.Contains(p.Message, "Run 5/13, atom 0 -y: SCF iteration 2, accuracy 1.0e-04 Ry")
	}
	if last := seen[len(seen)-1]; last.Done != 13 || last.Step != "store" || !inside {
		t.Errorf("last progress is %+v; SCF iterations were shown: %v", last, inside)
	}
}

func TestZpeResumesAtCheckpoints(t *testing.T) {
	t.Parallel()
	h := fakeHandler(t, orders{At: 8, Do: "kill"})
	mustFail(t, h, h2, zpe.CodeRuntimeError, false, "signal 9")
	if n := calls(t, h); n != 8 {
		t.Fatalf("%d runs before the failure, want 8", n)
	}
	order(t, h, orders{})
	first := mustRun(t, h, h2)
	if n := calls(t, h); n != 8+6 {
		t.Errorf("%d runs after the second attempt, want 14: seven were kept", n)
	}
	again := mustRun(t, h, h2)
	if n := calls(t, h); n != 14 {
		t.Errorf("%d runs after a third attempt, want no more", n)
	}
	if again, first := lasting(again), lasting(first); again != first {
		t.Errorf("a resumed job has the result\n%s\nwant\n%s", again, first)
	}
	whole := mustRun(t, fakeHandler(t, orders{}), h2)
	again.Result.Elapsed = whole.Result.Elapsed // other runs, of other lengths
	if again, whole := lasting(again), lasting(whole); again != whole {
		t.Errorf("a resumed job has the result\n%s\nwant that of one attempt\n%s", again, whole)
	}
}

// lasting returns all of a document that does not depend on the attempt that has
// stored it.
func lasting(d zpe.Document) string {
	energy := *d.Result.Energy
	d.Result.Energy = nil
	return fmt.Sprintf("%+v %v\n%s\n%s", d.Result, energy, d.SummaryText, d.FreqsCSV)
}

func TestZpeChangedInputIsComputedAnew(t *testing.T) {
	t.Parallel()
	h := fakeHandler(t, orders{})
	mustRun(t, h, h2)
	tests := []struct {
		name, payload string
		more          int
	}{
		{"same", h2, 0},
		{"delta spares the relaxation", strings.TrimSuffix(h2, "}") + `,"delta":0.02}`, 12},
		{"back again, its checkpoints were replaced", h2, 12},
		{"temperature needs no run", strings.TrimSuffix(h2, "}") + `,"temperature":10}`, 0},
		{"cutoff", strings.Replace(h2, `"cell`, `"ecutwfc":45,"ecutrho":240,"cell`, 1), 13},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := calls(t, h)
			mustRun(t, h, tt.payload)
			if n := calls(t, h) - before; n != tt.more {
				t.Errorf("%d more runs, want %d", n, tt.more)
			}
		})
	}
	if err := os.WriteFile(filepath.Join(h.PseudoDir, "H.pbe-kjpaw.UPF"), []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	mustFail(t, h, tests[4].payload, zpe.CodePseudo, false, "another pseudopotential") // so it ran: the fake knows the old one only
}

// A pw.x that is replaced during an attempt does not have its forces mixed with
// those of the one before.
func TestZpeUpgradedProgramComputesAnew(t *testing.T) {
	t.Parallel()
	h := fakeHandler(t, orders{At: 8, Do: "upgraded"})
	_, err := run(t.Context(), h, h2)
	if !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), "it is version 7.2 now, and was 6.7MaX when the attempt began") {
		t.Errorf("got %v, want to be told of both versions", err)
	}
	if n := calls(t, h); n != 8 {
		t.Fatalf("%d runs, want none after the 8th", n)
	}
	order(t, h, orders{Do: "upgraded"})
	if d := mustRun(t, h, h2); d.Meta.QEVersion != "7.2" {
		t.Errorf("the result is of version %q, want 7.2", d.Meta.QEVersion)
	}
	if n := calls(t, h); n != 8+13 {
		t.Errorf("%d runs after the second attempt, want 21: none was of the new version", n)
	}
}

func TestZpeDamagedCheckpointIsComputedAnew(t *testing.T) {
	t.Parallel()
	h := fakeHandler(t, orders{})
	mustRun(t, h, h2)
	for name, text := range map[string]string{
		"results/job/zpe/0003.json": "{",
		"results/job/zpe/0004.json": `{"digest":"00"}`,
	} {
		storagetest.PutString(t, h.Store, name, text)
	}
	mustRun(t, h, h2)
	if n := calls(t, h); n != 15 {
		t.Errorf("%d runs, want two more than 13", n)
	}
}

func TestZpeParallelRuns(t *testing.T) {
	t.Parallel()
	h := fakeHandler(t, orders{})
	want := mustRun(t, h, h2).Result.Freqs
	h = fakeHandler(t, orders{})
	h.Parallel = 4
	most := 0
	result, err := h.Run(t.Context(), jobs.Job{ID: "job", Payload: h2}, func(jobs.Progress) {
		dirs, _ := filepath.Glob(filepath.Join(h.WorkDir, "*", "run-*"))
		most = max(most, len(dirs))
	})
	if err != nil {
		t.Fatal(err)
	}
	if most < 2 || most > 4 {
		t.Errorf("at most %d runs were under way at once, want 2 to 4", most)
	}
	if got := document(t, h, result).Result.Freqs; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("frequencies are %v, want %v", got, want)
	}
	h = fakeHandler(t, orders{At: 5, Do: "kill"})
	h.Parallel = 4
	mustFail(t, h, h2, zpe.CodeRuntimeError, false, "pw.x was ended by signal 9 (killed)")
	wantEmpty(t, h.WorkDir)
}

// The end of a context is returned as its cause, and leaves no process.
func TestZpeStopIsNoFailure(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{jobs.ErrCanceled, jobs.ErrLeaseLost, jobs.ErrDrained} {
		t.Run(cause.Error(), func(t *testing.T) {
			h := fakeHandler(t, orders{At: 3, Do: "hang"})
			ctx, stop := context.WithCancelCause(t.Context())
			_, err := h.Run(ctx, jobs.Job{ID: "job", Payload: h2}, func(p jobs.Progress) {
				if strings.Contains(p.Message, "Run 3/13, atom 0 -x: SCF iteration 2") {
					stop(fmt.Errorf("%w: test", cause))
				}
			})
			if f := (*jobs.Failure)(nil); !errors.Is(err, cause) || errors.As(err, &f) {
				t.Errorf("got %v, want the cause", err)
			}
			wantGone(t, h, 3)
			wantEmpty(t, h.WorkDir)
		})
	}
}

// wantGone checks that the runs of the fake pw.x, up to number n, have ended.
func wantGone(t *testing.T, h *zpe.Handler, n int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(h.PseudoDir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	pids := strings.Fields(string(text))
	if len(pids) != n {
		t.Fatalf("%d runs, want %d", len(pids), n)
	}
	for _, pid := range pids {
		if stat, err := os.ReadFile("/proc/" + pid + "/stat"); err == nil && strings.Contains(string(stat), "(pw.x)") && !strings.Contains(string(stat), ") Z ") {
			t.Errorf("pw.x %s still runs: %s", pid, stat)
		}
	}
}

func TestZpeTimeouts(t *testing.T) {
	t.Parallel()
	t.Run("of a run", func(t *testing.T) {
		h := fakeHandler(t, orders{Do: "hang"})
		h.Limits.Wall = 300 * time.Millisecond
		mustFail(t, h, h2, zpe.CodeTimeout, false, "pw.x took longer than 300ms")
	})
	t.Run("of the job", func(t *testing.T) {
		h := fakeHandler(t, orders{At: 3, Do: "hang"})
		mustFail(t, h, strings.TrimSuffix(h2, "}")+`,"timeout_s":1}`, zpe.CodeTimeout, false, "timeout_s of 1 s")
	})
}

func TestZpeTroubleOfTheMachineIsNotTheJobs(t *testing.T) {
	t.Parallel()
	t.Run("store", func(t *testing.T) {
		h := fakeHandler(t, orders{})
		h.Store = brokenStore{h.Store}
		if _, err := run(t.Context(), h, h2); !errors.Is(err, jobs.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("work directory", func(t *testing.T) {
		h := fakeHandler(t, orders{})
		h.WorkDir = filepath.Join(h.WorkDir, "absent")
		if _, err := run(t.Context(), h, h2); !errors.Is(err, jobs.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("full disk", func(t *testing.T) {
		h := fakeHandler(t, orders{Do: "full-disk"})
		if _, err := run(t.Context(), h, h2); !errors.Is(err, jobs.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
	})
}

// brokenStore can be read only.
type brokenStore struct{ storage.Store }

func (brokenStore) Put(_ context.Context, name string, _ io.Reader) error {
	return fmt.Errorf("put %s: %w: no space left on device", name, jobs.ErrUnavailable)
}

func TestZpeMissingPrograms(t *testing.T) {
	t.Parallel()
	h := fakeHandler(t, orders{})
	if err := os.Remove(filepath.Join(h.PseudoDir, "H.pbe-kjpaw.UPF")); err != nil {
		t.Fatal(err)
	}
	mustFail(t, h, h2, zpe.CodePseudo, false, "H.pbe-kjpaw.UPF in "+h.PseudoDir)
	if calls(t, h) != 0 {
		t.Error("pw.x was started without a pseudopotential")
	}

	h = fakeHandler(t, orders{})
	h.PwX = "/nonexistent/pw.x"
	mustFail(t, h, h2, zpe.CodeMissing, false, "no pw.x at /nonexistent/pw.x")

	h = fakeHandler(t, orders{})
	mustFail(t, h, `{"structure":{}}`, zpe.CodeInvalidInput, true, "structure.cell_angstrom is missing")
}

func TestZpeProbe(t *testing.T) {
	t.Parallel()
	h := fakeHandler(t, orders{})
	found, err := h.Probe(t.Context())
	if err != nil || found.Version != "6.7MaX" || found.PwX != h.PwX || found.Pseudos == 0 {
		t.Errorf("found %+v, %v", found, err)
	}
	wantEmpty(t, h.WorkDir)
	h = fakeHandler(t, orders{Do: "not-pwscf"})
	_, err = h.Probe(t.Context())
	wantFailure(t, err, zpe.CodeMissing, false, "does not say that it is PWSCF")
	h.PwX = "/bin/true"
	_, err = h.Probe(t.Context())
	wantFailure(t, err, zpe.CodeMissing, false, "does not say that it is PWSCF")
	h.PwX = "/etc/passwd"
	_, err = h.Probe(t.Context())
	wantFailure(t, err, zpe.CodeMissing, false, "cannot be started")
	h.PseudoDir = "/nonexistent"
	_, err = h.Probe(t.Context())
	wantFailure(t, err, zpe.CodePseudo, false, "cannot read the directory")
	h.PseudoDir = t.TempDir()
	_, err = h.Probe(t.Context())
	wantFailure(t, err, zpe.CodePseudo, false, "no pseudopotential in")
}

func TestZpeEarlierAndForget(t *testing.T) {
	t.Parallel()
	h := fakeHandler(t, orders{})
	job := jobs.Job{ID: "job", Payload: h2}
	if _, found, err := h.Earlier(t.Context(), job); found || err != nil {
		t.Fatalf("a result was found before there was one: %v", err)
	}
	mustRun(t, h, h2)
	result, found, err := h.Earlier(t.Context(), job)
	if err != nil || !found || result != (jobs.Result{Object: "results/job/result.json", Pages: 13}) {
		t.Errorf("got %+v %v %v", result, found, err)
	}
	other := job
	other.Payload += " "
	if _, found, err := h.Earlier(t.Context(), other); found || err != nil {
		t.Errorf("the result of another payload was taken: %v", err)
	}
	for range 2 {
		if err := h.Forget(t.Context(), job.ID); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"result.json", "zpe/0000.json", "zpe/0012.json"} {
		if _, err := h.Store.Stat(t.Context(), "results/job/"+name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
}

func TestZpeEnvironmentIsExactly(t *testing.T) {
	t.Setenv("SECRET_TOKEN", "must not leak")
	h := fakeHandler(t, orders{})
	h.Threads = 2
	mustRun(t, h, h2)
	text, err := os.ReadFile(filepath.Join(h.PseudoDir, "environ"))
	if err != nil {
		t.Fatal(err)
	}
	dir, env, _ := strings.Cut(string(text), "\n")
	env, _, _ = strings.Cut(env, "\n"+command.Marker+"=") // the last
	want := strings.Join([]string{
		"PATH=/usr/bin:/bin", "TMPDIR=" + dir, "OMP_NUM_THREADS=2",
		"OMPI_MCA_ess_singleton_isolated=1", "OMPI_MCA_btl=self", "OMPI_MCA_pml=ob1",
	}, "\n")
	if env != want || !strings.HasPrefix(dir, h.WorkDir) {
		t.Errorf("pw.x ran in %s with\n%s\nwant\n%s", dir, env, want)
	}
}

func TestZpeFixedAtoms(t *testing.T) {
	t.Parallel()
	h := fakeHandler(t, orders{})
	r := mustRun(t, h, strings.Replace(h2, `2.875]`, `2.875],"fixed":true`, 1)).Result
	if r.Project != zpe.ProjectNone || r.Projected != 0 || !r.LowCutApplied || len(r.Freqs) != 3 || r.Runs != 7 {
		t.Fatalf("got %+v", r)
	}
	// One atom against a wall: its mass instead of half of it.
	if got, want := r.Freqs[2], fakeStretch()/math.Sqrt2; math.Abs(got/want-1) > 1e-3 || r.Counted != 1 {
		t.Errorf("stretch is %.1f, want %.1f; %d counted", got, want, r.Counted)
	}
	if fmt.Sprint(r.Mobile, r.Fixed) != "[1] [0]" || r.PositionsAngstrom[0] != [3]float64{3.25, 3.25, 2.875} {
		t.Errorf("mobile %v, fixed %v, at %v", r.Mobile, r.Fixed, r.PositionsAngstrom)
	}
}

func TestZpeImaginaryModesAreNotCounted(t *testing.T) {
	t.Parallel()
	h := fakeHandler(t, orders{Do: "saddle"})
	d := mustRun(t, h, strings.TrimSuffix(h2, "}")+`,"relax":false}`)
	r := d.Result
	if len(r.Imaginary) != 1 || r.Imaginary[0] > -4000 || r.ZPE != 0 || r.Counted != 0 || r.Entropy != 0 {
		t.Errorf("got %+v", r)
	}
	if len(r.Warnings) == 0 || !strings.Contains(d.SummaryText, "imaginary") || !strings.Contains(d.FreqsCSV, ",0.0000000,imaginary\n") {
		t.Errorf("nothing is said of it: %q %q %q", r.Warnings, d.SummaryText, d.FreqsCSV)
	}
	if r.Energy != nil || r.Relaxed || r.Runs != 12 {
		t.Errorf("without relaxation there are 12 runs and no energy: %+v", r)
	}
}

// A worker that is killed leaves no pw.x, and its runs are kept.
func TestZpeSurvivesKill(t *testing.T) {
	t.Parallel()
	h := fakeHandler(t, orders{At: 6, Do: "hang"})
	storeDir := t.TempDir()
	store, err := storage.NewLocal(storeDir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	h.Store = store
	worker := exec.CommandContext(t.Context(), os.Args[0])
	worker.Env = append(os.Environ(), workerEnv+"="+strings.Join([]string{storeDir, h.PseudoDir, h.WorkDir}, ":"))
	out, err := worker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("hanging\n"))); err != nil {
		t.Fatal(err)
	}
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	_ = worker.Wait()
	command.Sweep() // as an agent that starts
	order(t, h, orders{})
	h.WorkDir = t.TempDir() // there is no one to tidy up the other
	mustRun(t, h, h2)
	wantGone(t, h, 6+8)
}

// testWorker runs the job in the directories given and says when pw.x hangs.
func testWorker(dirs string) {
	d := strings.Split(dirs, ":")
	store, err := storage.NewLocal(d[0])
	if err != nil {
		panic(err)
	}
	h := &zpe.Handler{Store: store, PwX: filepath.Join(d[1], "pw.x"), PseudoDir: d[1], WorkDir: d[2], Log: slog.New(slog.DiscardHandler)}
	var once sync.Once
	_, err = h.Run(context.Background(), jobs.Job{ID: "job", Payload: h2}, func(p jobs.Progress) {
		if strings.Contains(p.Message, "Run 6/13, atom 0 +z: SCF iteration 2") {
			once.Do(func() { fmt.Println("hanging") })
		}
	})
	fmt.Println("ended:", err)
	syscall.Exit(1)
}

// Jobs that begin and end beside one another leave the others' directories alone.
func TestZpeJobsShareAWorkDirectory(t *testing.T) {
	t.Parallel()
	h := fakeHandler(t, orders{})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			job := jobs.Job{ID: jobs.ID(fmt.Sprint("job-", i)), Payload: strings.Replace(h2, `3.625]`, `3.625],"fixed":true`, 1)}
			if _, err := h.Run(t.Context(), job, func(jobs.Progress) {}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	wantEmpty(t, h.WorkDir)
}
