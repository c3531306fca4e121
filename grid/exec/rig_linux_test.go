package exec

import (
	"archive/zip"
	"bytes"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/internal/testrun"
)

func TestMain(m *testing.M) {
	testrun.Parallel(8) // they wait for programs
	os.Exit(m.Run())
}

// rig runs programs that are shell scripts.
type rig struct {
	*Runner
	t *testing.T
}

// open opens a runner whose directories are new.
func open(tb testing.TB, limits Limits) *Runner {
	tb.Helper()
	dir := tb.TempDir()
	r := &Runner{
		ExeDir: filepath.Join(dir, "exe"), JobsDir: filepath.Join(dir, "jobs"), CacheDir: filepath.Join(dir, "cache"), Host: "here",
		Path: "/usr/bin:/bin", Limits: limits, Log: slog.New(slog.DiscardHandler),
	}
	for _, d := range []string{r.ExeDir, r.CacheDir} {
		if err := os.Mkdir(d, 0o755); err != nil {
			tb.Fatal(err)
		}
	}
	if err := r.Open(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := r.Close(); err != nil {
			tb.Error(err)
		}
	})
	return r
}

// newRig opens a runner that has one program, calcA.
func newRig(t *testing.T, script string, limits Limits) *rig {
	t.Helper()
	r := &rig{open(t, limits), t}
	r.program(script)
	return r
}

// program gives calcA another program.
func (r *rig) program(script string) {
	r.t.Helper()
	write(r.t, filepath.Join(r.ExeDir, "calcA.exe"), "#!/bin/sh\n"+script, 0o755)
}

func write(tb testing.TB, path, text string, mode fs.FileMode) {
	tb.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		tb.Fatal(err)
	}
}

// request is a request to run calcA.
func request(args ...string) wire.JobRequest {
	return wire.JobRequest{JobID: wire.NewGUID(), ClientID: "clientA", ExecName: "calcA", Args: args}
}

// file is a file whose content is in the request.
func file(name, content string) wire.InputFile {
	return wire.InputFile{Name: name, Content: []byte(content)}
}

// run makes the first attempt at a job, and checks that nothing is left of it.
func (r *rig) run(q wire.JobRequest) wire.JobResult {
	r.t.Helper()
	got, err := r.Run(r.t.Context(), Attempt{Request: q, Number: 1})
	if err != nil {
		r.t.Fatal(err)
	}
	r.clean()
	return got
}

// ok is run for a job that should succeed.
func (r *rig) ok(q wire.JobRequest) wire.JobResult {
	r.t.Helper()
	got := r.run(q)
	if got.Status != wire.OK || got.ExitCode == nil || *got.ExitCode != 0 || got.Reason != "" {
		r.t.Fatalf("the job ended with %s %s %q, stderr %.300q; want OK", got.Status, got.Reason, got.Message, got.Stderr)
	}
	return got
}

// fails is run for a job that should fail for a reason.
func (r *rig) fails(q wire.JobRequest, reason, message string) wire.JobResult {
	r.t.Helper()
	got := r.run(q)
	if got.Status != wire.Failed || got.Reason != reason || !strings.Contains(got.Message, message) {
		r.t.Fatalf("the job ended with %s %s %q, stderr %.300q; want FAILED %s %q", got.Status, got.Reason, got.Message, got.Stderr, reason, message)
	}
	return got
}

// clean checks that nothing is left of attempts.
func (r *rig) clean() {
	r.t.Helper()
	if left := r.left(); len(left) > 0 {
		r.t.Errorf("left in the directory of jobs: %q", left)
	}
}

func (r *rig) left() (names []string) {
	r.t.Helper()
	entries, err := os.ReadDir(r.JobsDir)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), exesPrefix) && !strings.HasPrefix(e.Name(), idlePrefix) && e.Name() != "batchfleet-scratch" {
			names = append(names, e.Name())
		}
	}
	return names
}

// unzip returns the files of an archive, and checks their order and times.
func unzip(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	if archive == nil {
		return nil
	}
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	var names []string
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name] = string(text)
		names = append(names, f.Name)
		if !f.Modified.Equal(epoch) {
			t.Errorf("%s has the time %v, want %v", f.Name, f.Modified, epoch)
		}
	}
	if !slices.IsSorted(names) {
		t.Errorf("the archive has %q, want them sorted", names)
	}
	return files
}

func wantFiles(t *testing.T, archive []byte, want map[string]string) {
	t.Helper()
	got := unzip(t, archive)
	if len(got) != len(want) {
		t.Errorf("the archive has %d files %.500q, want %d", len(got), got, len(want))
	}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("the archive has %q as %.100q, want %.100q", got[name], name, text)
		}
	}
}
