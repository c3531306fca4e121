package zpe

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/batchfleet/batchfleet/command"
	"github.com/batchfleet/batchfleet/safefile"
)

// Found is what this machine has for jobs of this package.
type Found struct {
	PwX       string // path
	Version   string // as pw.x prints it, such as 6.7MaX
	PseudoDir string
	Pseudos   int // files in PseudoDir
}

// program is a file of pw.x whose version is known.
type program struct {
	modified time.Time
	size     int64
	version  string
}

// probeTime bounds a run of pw.x that only prints its version.
const probeTime = 30 * time.Second

// Probe finds out whether jobs can run here: pw.x is there and starts, and the
// directory of pseudopotentials can be read. The error is a *[jobs.Failure] that
// tells what is missing and what to do, wraps [jobs.ErrUnavailable] if the work
// directory is at fault, or is the cause of ctx.
func (h *Handler) Probe(ctx context.Context) (Found, error) {
	files, err := os.ReadDir(h.PseudoDir)
	if err != nil {
		return Found{}, failure(CodePseudo, "cannot read the directory of pseudopotentials %s: %w", h.PseudoDir, plain(err))
	}
	found := Found{PwX: h.PwX, PseudoDir: h.PseudoDir}
	for _, f := range files {
		if pseudoName().MatchString(f.Name()) && !f.IsDir() {
			found.Pseudos++
		}
	}
	if found.Pseudos == 0 {
		return Found{}, failure(CodePseudo, "there is no pseudopotential in %s", h.PseudoDir)
	}
	dir, done, err := h.workDir()
	if err != nil {
		return Found{}, err
	}
	defer done()
	found.Version, err = h.version(ctx, dir)
	return found, err
}

// version runs pw.x for its version, once as long as the file stays the same.
func (h *Handler) version(ctx context.Context, dir string) (string, error) {
	info, err := os.Stat(h.PwX)
	if err != nil {
		return "", failure(CodeMissing, "there is no pw.x at %s: %w; install Quantum ESPRESSO on this worker", h.PwX, plain(err))
	}
	h.mu.Lock()
	known := h.known
	h.mu.Unlock()
	if known.version != "" && known.size == info.Size() && known.modified.Equal(info.ModTime()) {
		return known.version, nil
	}
	version, err := h.readVersion(ctx, dir)
	if err != nil {
		return "", err
	}
	h.mu.Lock()
	h.known = program{info.ModTime(), info.Size(), version}
	h.mu.Unlock()
	return version, nil
}

// readVersion runs pw.x with an empty input: it prints its version and an error, and
// exits with 1.
func (h *Handler) readVersion(ctx context.Context, dir string) (string, error) {
	own, err := os.MkdirTemp(dir, "probe-")
	if err != nil {
		return "", workTrouble("make a directory for pw.x", err)
	}
	defer func() { _ = safefile.RemoveAll(own) }() // what is left, the owner of WorkDir deletes
	if err := os.WriteFile(filepath.Join(own, inputFile), nil, 0o600); err != nil {
		return "", workTrouble("prepare the directory of pw.x", err)
	}
	out := &output{}
	c := command.Command{
		Path: h.PwX, Args: []string{"-in", inputFile}, Dir: own, Env: h.env(own), Grace: grace,
		Limits: command.Limits{Memory: h.Limits.Memory, Wall: probeTime, CPU: probeTime, LineBytes: maxLine, OutputBytes: 1 << 20},
		Line:   func(line []byte) error { out.line(line); return nil },
	}
	_, err = c.Run(ctx)
	exit := (*command.ExitError)(nil)
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case out.version != "":
		return out.version, nil
	case errors.As(err, &exit):
		return "", failure(CodeMissing, "%s does not say that it is PWSCF: %w", h.PwX, err)
	case err == nil:
		return "", failure(CodeMissing, "%s does not say that it is PWSCF", h.PwX)
	}
	return "", h.judge(out, own, err)
}
