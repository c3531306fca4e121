package zpe

import (
	"context"
	"crypto/md5" //nolint:gosec // what pw.x prints; it protects nothing
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/batchfleet/batchfleet/command"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/safefile"
)

const (
	// maxLine and maxOutput bound what pw.x prints. A relaxation of 200 atoms in
	// 100 steps prints some 10 MB.
	maxLine   = 64 << 10
	maxOutput = 512 << 20
	// grace is between SIGTERM, on which pw.x ends at once, and SIGKILL.
	grace = 5 * time.Second
	// maxCrash bounds what is kept of the file CRASH.
	maxCrash = 8 << 10
)

// pwRun is a run of pw.x that is to be made.
type pwRun struct {
	input   string
	relax   bool
	atoms   int
	pseudos []pseudo
	version string // that pw.x had when the attempt began
	// progress is called by the goroutine of the run as the SCF cycle goes on.
	progress func(*output)
}

// pwx runs pw.x once in a directory of its own below dir, which is deleted
// afterwards. The error is a cause of ctx, a *[jobs.Failure], or wraps
// [jobs.ErrUnavailable].
func (h *Handler) pwx(ctx context.Context, dir string, r pwRun) (*output, time.Duration, error) {
	own, err := os.MkdirTemp(dir, "run-")
	if err != nil {
		return nil, 0, workTrouble("make a directory for pw.x", err)
	}
	defer func() { _ = safefile.RemoveAll(own) }() // what is left, the owner of WorkDir deletes
	if err := prepare(own, r); err != nil {
		return nil, 0, workTrouble("prepare the directory of pw.x", err)
	}
	out := &output{atoms: r.atoms, relax: r.relax}
	limits := h.Limits
	limits.LineBytes, limits.OutputBytes = maxLine, maxOutput
	c := command.Command{
		Path: h.PwX, Args: []string{"-in", inputFile}, Dir: own, Env: h.env(own), Grace: grace, Limits: limits,
		Line: func(line []byte) error {
			if out.line(line) {
				r.progress(out)
			}
			return nil
		},
	}
	usage, err := c.Run(ctx)
	if ctx.Err() != nil {
		return nil, 0, context.Cause(ctx)
	}
	if err := h.judge(out, own, err); err != nil {
		return nil, 0, err
	}
	if out.version != r.version {
		h.mu.Lock()
		h.known = program{} // PwX may be a script that stays the same while the program it starts does not
		h.mu.Unlock()
		return nil, 0, workTrouble("run pw.x", fmt.Errorf("it is version %s now, and was %s when the attempt began", out.version, r.version))
	}
	if err := samePseudos(out.pseudos, r.pseudos); err != nil {
		return nil, 0, err
	}
	return out, usage.Wall, nil
}

// env is all of pw.x's environment. Without what begins with OMPI, Open MPI
// starts a daemon in a session of its own that survives pw.x, wants a network
// interface, and takes as long as a small run.
func (h *Handler) env(dir string) []string {
	return []string{
		"PATH=/usr/bin:/bin", "TMPDIR=" + dir, fmt.Sprintf("OMP_NUM_THREADS=%d", max(1, h.Threads)),
		"OMPI_MCA_ess_singleton_isolated=1", "OMPI_MCA_btl=self", "OMPI_MCA_pml=ob1",
	}
}

// prepare lays out the files of a run.
func prepare(dir string, r pwRun) error {
	err := os.WriteFile(filepath.Join(dir, inputFile), []byte(r.input), 0o600)
	for _, d := range []string{outDir, pseudoDir} {
		if err == nil {
			err = os.Mkdir(filepath.Join(dir, d), 0o700)
		}
	}
	for _, p := range r.pseudos {
		if err == nil {
			err = os.Symlink(p.path, filepath.Join(dir, pseudoDir, p.name))
		}
	}
	return err
}

// workDir makes a directory for a job, which done deletes.
func (h *Handler) workDir() (dir string, done func(), err error) {
	dir, err = os.MkdirTemp(h.WorkDir, "job-")
	if err != nil {
		return "", nil, workTrouble("make a work directory", err)
	}
	return dir, func() { _ = safefile.RemoveAll(dir) }, nil // what is left, the owner of WorkDir deletes
}

// workTrouble is the error for trouble with the files below WorkDir, or with pw.x
// itself, which is not the job's fault.
func workTrouble(what string, err error) error {
	return fmt.Errorf("%w: %s: %w", jobs.ErrUnavailable, what, err)
}

// judge returns the error for the end of a run; see the table in SPEC.md.
func (h *Handler) judge(out *output, dir string, err error) error {
	exit := (*command.ExitError)(nil)
	switch {
	case out.gaveUp:
		f := final(CodeNotConverged, "the relaxation found no structure at rest: start from a better one, or set relax to false")
		f.Detail = out.last()
		return f
	case err == nil:
		if err := out.missing(); err != nil {
			f := failure(CodeIncomplete, "%w", err)
			f.Detail = out.last()
			return f
		}
		return nil
	case !errors.As(err, &exit):
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
			return failure(CodeMissing, "pw.x cannot be started: %w; install Quantum ESPRESSO on this worker", err)
		}
		return workTrouble("run pw.x", err)
	case strings.Contains(exit.Stderr, "No space left on device"), strings.Contains(exit.Stderr, "Disk quota exceeded"):
		return workTrouble("run pw.x", errors.New("no space left on the device of the work directory"))
	}
	f := h.judgeExit(out, exit)
	if f.Detail == "" {
		f.Detail = detail(out, dir, exit)
	}
	return f
}

func (h *Handler) judgeExit(out *output, exit *command.ExitError) *jobs.Failure {
	switch exit.Reason {
	case command.OverWall, command.OverCPU:
		return failure(CodeTimeout, "pw.x took longer than %s", exit.Limit)
	case command.OverMemory:
		return failure(CodeOutOfMemory, "pw.x needed more memory than its limit of %d MiB", h.Limits.Memory>>20)
	case command.OverOutput:
		return failure(CodeRuntimeError, "pw.x wrote more than %s", exit.Limit)
	case command.Exited, command.Signaled, command.OverProcesses, command.OverDisk: // the last two have no limit here
	}
	switch message := out.errorText(); {
	case exit.Signal != 0 || exit.Code == 128+int(syscall.SIGKILL) || exit.Code == 128+int(syscall.SIGTERM) || exit.Code == 128+int(syscall.SIGHUP):
		// pw.x passes signals on as its exit code.
		signal := exit.Signal
		if signal == 0 {
			signal = syscall.Signal(exit.Code - 128)
		}
		return failure(CodeRuntimeError, "pw.x was ended by signal %d (%s)", int(signal), signal)
	case out.notConverged && exit.Code == 2:
		return final(CodeNotConverged, "the SCF cycle did not converge in %d iterations: try a smaller mixing_beta or a larger electron_maxstep", out.iteration)
	case out.outOfSteps && exit.Code == 3:
		return final(CodeNotConverged, "the relaxation did not converge in %d steps: start from a better structure, or set relax to false", relaxSteps)
	case strings.Contains(exit.Stderr, "Error allocating"): // without a limit of ours
		return failure(CodeOutOfMemory, "pw.x was refused memory")
	case message != "" && exit.Code == 1 && aboutFiles(out.message[0]):
		return failure(CodeRuntimeError, "pw.x could not use its files: %s", message)
	case message != "" && exit.Code == 1:
		return final(CodeInputError, "pw.x refused the input: %s", message)
	}
	return failure(CodeRuntimeError, "pw.x exited with code %d", exit.Code)
}

// aboutFiles reports whether the first line of an error names a routine that
// fails because of the disk, and not because of the input.
func aboutFiles(line string) bool {
	f := strings.Fields(line) // Error in routine NAME (1):
	return len(f) > 3 && slices.Contains([]string{"check_tempdir", "davcio", "diropn", "seqopn"}, f[3])
}

// detail returns what pw.x has written about its end: the file CRASH, or else
// its last lines on stdout and what it wrote to stderr.
func detail(out *output, dir string, exit *command.ExitError) string {
	text := strings.TrimSpace(out.last() + "\n" + exit.Stderr)
	// pw.x may have put anything there.
	f, err := safefile.Open(filepath.Join(dir, "CRASH"))
	if err != nil {
		return text
	}
	defer f.Close()
	crash, err := io.ReadAll(io.LimitReader(f, maxCrash))
	if err != nil || len(crash) == 0 {
		return text
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(crash), "?"))
}

// pseudo is a pseudopotential that was found.
type pseudo struct {
	name, path, md5 string
}

// maxPseudo bounds the size of a file with a pseudopotential.
const maxPseudo = 64 << 20

// pseudos finds the pseudopotentials of a system. It must be done before pw.x
// runs, because pw.x silently takes missing ones from a directory of its own.
func (h *Handler) pseudos(s *System) ([]pseudo, error) {
	var all []pseudo
	seen := map[string]bool{}
	for _, sp := range s.Species {
		if seen[sp.Pseudo] {
			continue
		}
		seen[sp.Pseudo] = true
		path := filepath.Join(h.PseudoDir, sp.Pseudo)
		sum, err := md5File(path)
		if err != nil {
			return nil, failure(CodePseudo, "this worker cannot read the pseudopotential %s in %s: %w", sp.Pseudo, h.PseudoDir, plain(err))
		}
		all = append(all, pseudo{sp.Pseudo, path, sum})
	}
	return all, nil
}

// plain takes the path off an error of a file.
func plain(err error) error {
	if p := (*os.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

func md5File(path string) (string, error) {
	f, err := safefile.OpenLinked(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() > maxPseudo {
		return "", fmt.Errorf("not a file of at most %d bytes", maxPseudo)
	}
	sum := md5.New() //nolint:gosec // what pw.x prints; it protects nothing
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// samePseudos compares the pseudopotentials that pw.x has read with those that
// were found for it.
func samePseudos(read []readPseudo, found []pseudo) error {
	for _, f := range found {
		for _, r := range read {
			if filepath.Base(r.path) == f.name && r.md5 != f.md5 {
				return failure(CodePseudo, "pw.x has read another pseudopotential %s, with MD5 %s instead of %s", f.name, r.md5, f.md5)
			}
		}
	}
	return nil
}
