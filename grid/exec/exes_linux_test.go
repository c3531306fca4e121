package exec

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/batchfleet/batchfleet/flock"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/scratch"
)

func TestG61ProgramsStartDuringForkStorm(t *testing.T) {
	testrun.Long(t, "thousands of processes")
	r := open(t, Limits{})
	program, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	const execs, runs = 200, 10 // each program is copied once
	for i := range execs {
		write(t, filepath.Join(r.ExeDir, fmt.Sprintf("p%d.exe", i)), string(program), 0o755)
	}
	var storm, running sync.WaitGroup
	end := make(chan struct{})
	for range 4 {
		storm.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
					_ = exec.CommandContext(t.Context(), "/bin/true").Run()
				}
			}
		})
	}
	for range 4 {
		running.Go(func() {
			for i := range execs * runs / 4 {
				q := request()
				q.ExecName = fmt.Sprintf("p%d", i%execs)
				if got, err := r.Run(t.Context(), Attempt{Request: q, Number: 1}); err != nil || got.Status != wire.OK {
					t.Errorf("%s ended with %s %q, %v", q.ExecName, got.Reason, got.Message, err)
					return
				}
			}
		})
	}
	running.Wait()
	close(end)
	storm.Wait()
}

func TestG61DeletedCopiesAreMadeAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", Limits{})
	r.ok(request())
	for range 2 {
		if err := os.RemoveAll(r.exes.dir); err != nil {
			t.Fatal(err)
		}
		r.ok(request())
	}
	if _, err := lockDir(r.exes.dir); !errors.Is(err, flock.ErrLocked) {
		t.Errorf("the new directory can be locked by others: %v", err)
	}
	// A fault of this machine is not the job's.
	if err := errors.Join(os.RemoveAll(r.exes.dir), os.WriteFile(r.exes.dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	r.program("# another one")
	if got, err := r.Run(t.Context(), Attempt{Request: request(), Number: 1}); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("the job ended with %s %q, %v", got.Reason, got.Message, err)
	}
}

func TestG60DeletedDirectoryOfJobsIsMadeAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, "echo x > new", Limits{})
	for range 2 {
		wantFiles(t, r.ok(request()).OutputArchive, map[string]string{"new": "x\n"})
		if err := os.RemoveAll(r.JobsDir); err != nil {
			t.Fatal(err)
		}
	}
	r.ok(request())
	if info, err := os.Stat(r.JobsDir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory is %v, %v", info, err)
	}
	var err error
	if r.scratch, err = scratch.Open(r.JobsDir, r.Log); err != nil { // there is nothing to close of the one that was deleted
		t.Fatal(err)
	}
}

func TestG61NewProgramReplacesOld(t *testing.T) {
	t.Parallel()
	r := newRig(t, "echo old", Limits{})
	if got := r.ok(request()); got.Stdout != "old\n" {
		t.Errorf("it wrote %q", got.Stdout)
	}
	write(t, filepath.Join(r.ExeDir, "new"), "#!/bin/sh\necho new", 0o755)
	if err := os.Rename(filepath.Join(r.ExeDir, "new"), filepath.Join(r.ExeDir, "calcA.exe")); err != nil {
		t.Fatal(err)
	}
	if got := r.ok(request()); got.Stdout != "new\n" {
		t.Errorf("it wrote %q, want that of the new program", got.Stdout)
	}
}

func TestG68ResultHasNoOldProgram(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", Limits{})
	r.ok(request()) // its directory is kept, with its program
	q := request()
	q.ExecName, q.Files = "absent", []wire.InputFile{file("input.txt", "x")}
	if got := r.fails(q, wire.ReasonRejected, "no file absent.exe"); got.OutputArchive != nil {
		t.Errorf("the result of a job that was not started has files %q", unzip(t, got.OutputArchive))
	}
}

func TestG61ScriptOverwritesOnlyItsCopy(t *testing.T) {
	t.Parallel()
	r := newRig(t, `chmod 700 "$0"; echo "echo changed" >> "$0"; echo done; exit`, Limits{})
	for range 3 {
		if got := r.ok(request()); got.Stdout != "done\n" {
			t.Errorf("it wrote %q", got.Stdout)
		}
	}
	text, err := os.ReadFile(filepath.Join(r.ExeDir, "calcA.exe"))
	if err != nil || strings.Contains(string(text), "\necho changed") {
		t.Errorf("the program is %q now, %v", text, err)
	}
}

func TestG60LeftoversOfDeadWorkersAreDeleted(t *testing.T) {
	t.Parallel()
	r := newRig(t, "ls -A", Limits{})
	q := request()
	dir := func(name string) string {
		path := filepath.Join(r.JobsDir, name)
		if err := os.MkdirAll(filepath.Join(path, "in"), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	own := dir(q.JobID.N())
	if got := r.ok(q); got.Stdout != ".grid\ncalcA.exe\n" {
		t.Errorf("the program found %q, want nothing of the attempt before", got.Stdout)
	}
	dead := []string{dir(wire.NewGUID().N()), dir(wire.NewGUID().N() + "-2"), dir(exesPrefix + "x"), dir(idlePrefix + "y")}
	alive, foreign := dir(own[len(r.JobsDir)+1:]), dir("photos")
	lock, err := lockDir(alive)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	r.sweep()
	for _, path := range dead {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is there still", path)
		}
	}
	for _, path := range []string{alive, foreign} {
		if _, err := os.Lstat(filepath.Join(path, "in")); err != nil {
			t.Errorf("what is used, or not ours, was deleted: %v", err)
		}
	}
	if _, err := lockDir(alive); err != flock.ErrLocked { //nolint:errorlint // never wrapped
		t.Errorf("lockDir = %v, want it locked", err)
	}
	// An attempt of the same job has another directory meanwhile.
	r.program("pwd")
	if got, err := r.Run(t.Context(), Attempt{Request: q, Number: 2}); err != nil || got.Stdout != alive+"-2\n" {
		t.Errorf("it ran in %q, %v", got.Stdout, err)
	}
}
