package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/grid/archive"
	"github.com/batchfleet/batchfleet/grid/client"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// gridSubmission is a run of batchfleet grid submit.
type gridSubmission struct {
	*gridSubmitFlags
	*client.Multi
	out, stderr io.Writer

	several bool   // their output is not printed
	exec    string // EXEC, if it is given
	jobs    []*client.Job
	lasting []*client.Job // those that do not end with the connection

	mu     sync.Mutex
	own    map[wire.GUID]bool // that were submitted here; true for an array
	failed int
	errs   []error
}

// submit submits the jobs, and waits for them if that is asked for.
func (f *gridSubmitFlags) submit(cmd *cobra.Command, args []string) error {
	ctx := cmd.Context()
	cfg, err := f.config()
	if err != nil {
		return program.Exit(program.Usage, err)
	}
	cfg.Log = program.NewLog(os.Stderr, slog.LevelWarn)
	s := &gridSubmission{gridSubmitFlags: f, out: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr(), own: map[wire.GUID]bool{}}
	if f.wait {
		cfg.OnResult, cfg.Own = s.take, true
	}
	if err := connectAs(ctx, &f.peer, &cfg); err != nil {
		return err
	}
	if s.Multi, err = client.New(cfg); err != nil {
		return program.Exit(program.Usage, err)
	}
	err = s.RunWith(ctx, func(ctx context.Context) error { return s.all(ctx, args) })
	if f.wait && len(s.lasting) > 0 && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return program.Exit(program.Interrupted, errors.New("interrupted; "+s.goingOn()))
	}
	return ofLeaders(ctx, err)
}

// goingOn says that jobs which are no longer waited for go on, how to look at them, to stop them and to take their results.
func (s *gridSubmission) goingOn() string {
	results := "batchfleet grid results --client " + s.client
	api, where := "", ""
	if s.leaders != defaultLeader {
		results += " --leader " + program.ShellWord(s.leaders)
		api, where = " --api URL", "; URL is the Job API of the leader, its --http"
	}
	if len(s.lasting) == 1 {
		id := s.lasting[0].ID
		return fmt.Sprintf("the job goes on if a leader has queued it: `batchfleet grid show %s%s` shows it, `batchfleet grid cancel %s%s` stops it, `%s` takes its result%s", id, api, id, api, results, where)
	}
	return fmt.Sprintf("the jobs that a leader has queued go on: `batchfleet grid list%s` shows them, `batchfleet grid cancel JOB…%s` stops them, `%s` takes their results%s", api, api, results, where)
}

// all submits all jobs, and follows them.
func (s *gridSubmission) all(ctx context.Context, args []string) error {
	if len(args) > 0 {
		s.exec = args[0]
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	late := time.AfterFunc(s.queueTimeout.D(), func() {
		if err := s.noAnswer(s.Multi); err != nil {
			stop(err)
		}
	})
	defer late.Stop()
	err := s.requests(ctx, args, func(q wire.JobRequest) error {
		s.mu.Lock()
		s.own[q.JobID] = q.Array != ""
		s.mu.Unlock()
		j, err := s.Submit(ctx, q)
		if err != nil {
			return program.Exit(program.Usage, err)
		}
		s.jobs = append(s.jobs, j)
		if q.OnDisconnect == "" {
			s.lasting = append(s.lasting, j)
		}
		return nil
	})
	if err != nil && len(s.jobs) == 0 {
		return err
	}
	if !s.wait {
		return errors.Join(s.queued(ctx), err)
	}
	return errors.Join(s.ended(ctx), err)
}

// noAnswer is the error for leaders that do not answer within the time for that; nil if one has answered.
func (f *gridSubmitFlags) noAnswer(m *client.Multi) error {
	why := m.Unreached()
	if why == nil {
		return nil
	}
	return program.Exit(program.Unavailable, fmt.Errorf("no leader answers within %s: %w: give --leader the address of one that runs", f.queueTimeout.D(), why))
}

// gridQueued is how it is printed as JSON that a job is queued.
type gridQueued struct {
	ID string `json:"jobId"`
}

// queued waits until leaders have queued the jobs, and prints their ids.
func (s *gridSubmission) queued(ctx context.Context) error {
	var failed []error
	for _, j := range s.jobs {
		late := time.NewTimer(s.queueTimeout.D())
		select {
		case <-j.Queued():
			late.Stop()
		case <-late.C:
			if err := s.noAnswer(s.Multi); err != nil {
				return err
			}
			return program.Exit(program.Unavailable, fmt.Errorf("no leader has queued job %s within %s. It may be queued nevertheless: with --id the same command can be run again",
				j.ID, s.queueTimeout.D()))
		case <-ctx.Done():
			return errors.Join(append(failed, context.Cause(ctx))...)
		}
		select {
		case <-j.Done(): // refused, or ended already
			if _, err := j.WaitPayload(ctx); err != nil {
				failed = append(failed, refusedJob(j, err))
				continue
			}
		default:
		}
		if err := printRows(s.out, s.asJSON, []gridQueued{{j.ID.String()}}, nil, func(q gridQueued) []any { return []any{q.ID} }); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

// refusedJob is the error for a job that no leader has taken.
func refusedJob(j *client.Job, err error) error {
	err = fmt.Errorf("submit job %s: %w", j.ID, err)
	said, ok := errors.AsType[*client.Error](err)
	if !ok {
		return err
	}
	switch said.Code {
	case wire.CodeBusy, wire.CodeDraining, wire.CodeNoSpace:
		return program.Exit(program.Unavailable, err)
	}
	return program.Exit(program.Usage, err)
}

// ended waits until all jobs have ended.
func (s *gridSubmission) ended(ctx context.Context) error {
	defer afterwards(ctx, queuedPatience, s.noteQueued)()
	var lost []error
	for _, j := range s.jobs {
		if _, err := j.WaitPayload(ctx); err != nil {
			lost = append(lost, refusedJob(j, err))
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	lost = append(lost, s.errs...)
	if s.failed > 0 && (s.asJSON || !s.single()) { // else it was said with its output
		lost = append(lost, program.Exit(program.Failed, fmt.Errorf("%s failed", jobs.Count(s.failed, "job"))))
	}
	return errors.Join(lost...)
}

// noteQueued says on stderr, once, why the first unfinished job does not run yet, as its leader explains it.
func (s *gridSubmission) noteQueued(ctx context.Context) {
	for {
		if why := s.whyQueued(ctx); why != "" {
			s.mu.Lock()
			defer s.mu.Unlock()
			fmt.Fprintln(s.stderr, "batchfleet:", oneLine(why))
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(queuedPatience):
		}
	}
}

// whyQueued says why the first unfinished job is queued. It is empty if that job runs, or if its leader does not tell.
func (s *gridSubmission) whyQueued(ctx context.Context) string {
	for _, j := range s.jobs {
		select {
		case <-j.Done():
			continue
		default:
		}
		info, err := s.Query(ctx, j.ID)
		if err != nil || info.Why == "" || info.State != jobs.Queued.String() {
			return ""
		}
		why := fmt.Sprintf("job %s waits: %s", j.ID, info.Why)
		if name, isFile := strings.CutSuffix(s.exec, ".exe"); isFile {
			why += "; EXEC is the name without .exe: " + name
		}
		return why
	}
	return ""
}

// single reports whether one job alone is submitted, whose output is printed.
func (s *gridSubmission) single() bool { return !s.several && s.from == "" && s.array == "" }

// take takes a result. Those of jobs that were submitted elsewhere stay with their leader.
func (s *gridSubmission) take(r client.Result) error {
	result, err := r.Decode()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	isArray, own := s.own[r.JobID]
	if result.ArrayID != nil {
		own = own || s.own[*result.ArrayID]
	}
	if !own {
		return client.ErrNotOurs
	}
	if isArray && !s.asJSON { // the jobs of its indexes have been shown
		return nil
	}
	s.present(&result)
	return nil
}

// takeAny takes a result, whoever has submitted the job. One whose files cannot be saved stays with its leader.
func (s *gridSubmission) takeAny(r client.Result) error {
	result, err := r.Decode()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.save(&result); err != nil {
		s.errs = append(s.errs, program.Exit(program.Failed, err))
		return client.ErrNotOurs
	}
	if err := s.show(&result); err != nil {
		s.errs = append(s.errs, err)
	}
	return nil
}

// present saves a result and prints it. s.mu is held.
func (s *gridSubmission) present(r *wire.JobResult) {
	if err := s.save(r); err != nil {
		s.errs = append(s.errs, program.Exit(program.Failed, err))
	}
	if err := s.show(r); err != nil {
		s.errs = append(s.errs, err)
	}
}

// show prints a result. s.mu is held.
func (s *gridSubmission) show(r *wire.JobResult) error {
	if r.Status != wire.OK && !s.own[r.JobID] {
		s.failed++
	}
	switch {
	case s.asJSON:
		if s.dir != "" {
			r.OutputArchive = nil // it is there
		}
		return printJSON(s.out, r)
	case s.single():
		if r.Stderr == r.Message { // of what could not be run: it is said below
			r.Stderr = ""
		}
		if r.Status != wire.OK && r.Stderr != "" && !strings.HasSuffix(r.Stderr, "\n") {
			r.Stderr += "\n"
		}
		for _, text := range []struct {
			to   io.Writer
			text string
		}{{s.out, r.Stdout}, {s.stderr, r.Stderr}} {
			safe := &safeWriter{to: text.to, raw: !isTerminal(text.to)}
			if _, err := io.WriteString(safe, text.text); err != nil {
				return err
			}
			if err := safe.end(); err != nil {
				return err
			}
		}
		if r.Status != wire.OK {
			return program.Exit(program.Failed, fmt.Errorf("job %s has failed%s", r.JobID, oneLine(becauseOf(r))))
		}
		return nil
	}
	name := r.JobID.String()
	if r.Index != nil {
		name = fmt.Sprintf("%s[%d]", r.ArrayID, *r.Index)
	}
	_, err := fmt.Fprintf(s.out, "%s %s%s\n", name, oneLine(r.Status), oneLine(becauseOf(r)))
	return err
}

func becauseOf(r *wire.JobResult) string {
	if r.Reason == "" {
		return ""
	}
	return fmt.Sprintf(": %s: %s", r.Reason, r.Message)
}

// checkDir returns what stands in the way of files for -o, which is better known before the jobs run. With --from their ids are not known yet.
func (f *gridSubmitFlags) checkDir() error {
	if f.from != "" {
		return nil
	}
	there, err := os.ReadDir(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("-o: %w", err)
	}
	first, last, _ := wire.ParseArray(f.array) // a wrong one has its own error
	for _, e := range there {
		index, err := strconv.ParseInt(e.Name(), 10, 64)
		switch {
		case f.array == "":
			return fmt.Errorf("-o: there is something in %s: give a directory that is empty, or that does not exist", f.dir)
		case err == nil && first <= index && index <= last:
			return fmt.Errorf("-o: %s is there already: give a directory without it, or one that does not exist", filepath.Join(f.dir, e.Name()))
		}
	}
	return nil
}

// save puts the files that a program has left where they are wanted.
func (s *gridSubmission) save(r *wire.JobResult) error {
	if s.dir == "" || len(r.OutputArchive) == 0 {
		return nil
	}
	dir := s.dir
	switch {
	case s.array != "" && r.Index != nil:
		dir = filepath.Join(dir, strconv.FormatInt(*r.Index, 10))
	case !s.single():
		dir = filepath.Join(dir, r.JobID.String())
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil { //nolint:gosec // as the umask says
		return err
	}
	if _, err := archive.Extract(bytes.NewReader(r.OutputArchive), int64(len(r.OutputArchive)), dir, archive.Limits{}); err != nil {
		return fmt.Errorf("job %s: -o: %w", r.JobID, err)
	}
	return nil
}
