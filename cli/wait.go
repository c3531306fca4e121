package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pubsub/provider"
	"github.com/batchfleet/batchfleet/status"
)

// pollEvery is how often commands look at the jobs they wait for.
const pollEvery = 200 * time.Millisecond

// redisPatience is how long commands that wait put up with a Redis that is away.
const redisPatience = 30 * time.Second

// follow looks at jobs until all of them have ended, and passes every change of
// their status to seen. A job without a record counts as queued: its
// message may be on its way. If one is queued after queuedPatience, stuck is called, once.
func follow(ctx context.Context, st *status.Store, ids []jobs.ID, seen func(status.Entry), stuck func()) error {
	left, began := ids, time.Now()
	last := map[jobs.ID]status.Document{}
	answered := time.Now()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for len(left) > 0 {
		var running []jobs.ID
		for some := range slices.Chunk(left, status.MaxList) {
			entries, err := st.Entries(ctx, some)
			if err != nil && (ctx.Err() != nil || time.Since(answered) > redisPatience) {
				return err
			}
			if err == nil {
				answered = time.Now()
			}
			ended := map[jobs.ID]bool{}
			for _, e := range entries {
				if last[e.ID] != e.Document {
					last[e.ID] = e.Document
					seen(e)
				}
				ended[e.ID] = e.State().Terminal()
			}
			for _, id := range some {
				_, there := ended[id]
				if _, before := last[id]; before && !there && err == nil {
					return fmt.Errorf("job %s is no longer known: its status has expired or Redis has lost its data", id)
				}
				if !ended[id] {
					running = append(running, id)
				}
			}
		}
		if left = running; len(left) == 0 {
			return nil
		}
		queued := func(id jobs.ID) bool { d, there := last[id]; return !there || d.State() == jobs.Queued }
		if stuck != nil && time.Since(began) >= queuedPatience && slices.ContainsFunc(left, queued) {
			stuck()
			stuck = nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %s not ended: %w", len(left), jobs.Count(len(ids), "job"), context.Cause(ctx))
		case <-tick.C:
		}
	}
	return nil
}

// waitFor shows the jobs' progress on stderr and prints how they ended. kind is what was asked of
// them, and returns them. Its error has exit code 1 unless all succeeded.
func (e *StorageEnv) waitFor(ctx context.Context, st *status.Store, sent []submitted, kind jobs.Kind, out io.Writer, asJSON bool) ([]endedJob, error) {
	ids := make([]jobs.ID, len(sent))
	files := map[jobs.ID]string{}
	for i, s := range sent {
		ids[i], files[s.ID] = s.ID, s.File
	}
	show := newBars(os.Stderr, files)
	err := follow(ctx, st, ids, show.update, func() { show.note(stillWaiting(noWorker(ctx, st, kind))) })
	show.done()
	// As they are now, also when somebody has lost patience.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), redisPatience)
	defer cancel()
	known := map[string]jobapi.Job{}
	for some := range slices.Chunk(ids, jobapi.MaxGet) {
		names := each(some, func(id jobs.ID) string { return string(id) })
		found, failed := (&provider.Fleet{Status: st}).Get(last, names)
		if failed != nil && err == nil {
			err = failed
		}
		for _, j := range found {
			known[j.ID] = j
		}
	}
	rows := each(sent, func(s submitted) endedJob {
		j, ok := known[string(s.ID)]
		if !ok {
			j = unknownJob("fleet", unknownType, s.ID)
		}
		return endedJob{File: s.File, Job: j}
	})
	if printed := e.printEnded(out, rows, asJSON); printed != nil {
		return nil, printed
	}
	if err != nil {
		return rows, err
	}
	return rows, unsuccessful(rows)
}

// unknownJob is shown of a job that was submitted, and of which nothing more is known.
func unknownJob(scope, jobType string, id jobs.ID) jobapi.Job {
	return jobapi.Job{ID: string(id), Scope: scope, Type: jobType, Status: jobs.Queued, Request: json.RawMessage("{}"), Result: json.RawMessage("null")}
}

// unsuccessful is an error with exit code 1 unless all jobs have succeeded.
func unsuccessful(rows []endedJob) error {
	failed := 0
	for _, r := range rows {
		if r.Status != jobs.Succeeded {
			failed++
		}
	}
	if failed > 0 {
		return program.Exit(program.Failed, fmt.Errorf("%d of %s did not succeed", failed, jobs.Count(len(rows), "job")))
	}
	return nil
}

// endedJob is a job that was waited for, with the file it was made from.
type endedJob struct {
	File string
	jobapi.Job
}

// MarshalJSON returns the job as the Job API has it, with the file before it.
func (e endedJob) MarshalJSON() ([]byte, error) {
	file, err := json.Marshal(e.File)
	if err != nil {
		return nil, err
	}
	job, err := json.Marshal(e.Job)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]byte(`{"file":`), file, []byte(","), job[1:]), nil
}

// name is what the job was made from as it is shown: a file without its directory, or else the job's id.
func (e endedJob) name() string {
	if e.File == "" {
		return e.ID
	}
	return filepath.Base(e.File)
}

// made is what a job's result says about what the job has made.
type made struct {
	Object       string `json:"object"`
	Pages        int    `json:"pages"`
	Files        *int   `json:"files"` // of people's own kinds; nil of others
	Damaged      bool   `json:"damaged"`
	DamagedPages int    `json:"damagedPages"`
}

// made returns what the result says, and nothing for a job that has not succeeded.
func (e endedJob) made() (m made) {
	if e.Status == jobs.Succeeded {
		_ = json.Unmarshal(e.Result, &m) // of another kind it says other things
	}
	return m
}

func (m made) hasNoFiles() bool { return m.Files != nil && *m.Files == 0 }

// String says how many pages there are, and that the document is damaged; or how many files.
func (m made) String() string {
	switch {
	case m.hasNoFiles():
		return "no files"
	case m.Files != nil:
		return jobs.Count(*m.Files, "file")
	case m.Pages == 0:
		return ""
	case !m.Damaged:
		return jobs.Count(m.Pages, "page")
	case m.DamagedPages == 0:
		return jobs.Count(m.Pages, "page") + " (damaged)"
	}
	return fmt.Sprintf("%s (%d damaged)", jobs.Count(m.Pages, "page"), m.DamagedPages)
}

// where returns the object, or the directory of objects, that a person looks for.
func (m made) where() string {
	if m.Files != nil && *m.Files > 0 {
		return path.Join(path.Dir(m.Object), "artifacts")
	}
	return m.Object
}

// printEnded prints how jobs ended: a table, then why some have failed, then where the results
// are.
func (e *StorageEnv) printEnded(out io.Writer, rows []endedJob, asJSON bool) error {
	err := printRows(out, asJSON, rows, []any{"JOB", "FILE", "STATE", "RESULT", "TOOK"}, func(r endedJob) []any {
		file := ""
		if r.File != "" {
			file = r.name()
		}
		return []any{r.ID, file, r.Status, r.made(), seconds(r.StartedAt, r.FinishedAt)}
	})
	if err != nil || asJSON {
		return err
	}
	var b strings.Builder
	objects := []string{}
	for _, r := range rows {
		if r.Error != nil {
			fmt.Fprintf(&b, "%s: %s\n", oneLine(r.name()), oneLine(r.Error.Message))
		}
		if object := r.made().where(); object != "" {
			objects = append(objects, object)
		}
	}
	if e != nil && len(objects) == 1 {
		fmt.Fprintf(&b, "result: %s\n", oneLine(e.path(objects[0])))
	} else if e != nil && len(objects) > 1 {
		fmt.Fprintf(&b, "results: %s\n", oneLine(e.path("results")))
	}
	if b.Len() > 0 {
		_, err = fmt.Fprint(out, "\n", b.String())
	}
	return err
}

// path returns where an object of the storage is, so that it can be opened.
func (e *StorageEnv) path(object string) string {
	if bucket := e.bucketURL(); bucket != "" {
		return bucket + "/" + object
	}
	return filepath.Join(e.Path, filepath.FromSlash(object))
}

func printJSON(out io.Writer, v any) error {
	text, err := httpd.EncodeJSON(v)
	if err == nil {
		_, err = out.Write(escapeInvisible(text))
	}
	return err
}

// escapeInvisible escapes in JSON what the encoder leaves and a terminal may act
// on. Outside of strings there is none of it.
func escapeInvisible(text []byte) []byte {
	b := make([]byte, 0, len(text))
	for _, r := range string(text) {
		if r == '\n' || jobs.IsVisible(string(r)) {
			b = utf8.AppendRune(b, r)
			continue
		}
		for _, u := range utf16.AppendRune(nil, r) {
			b = fmt.Appendf(b, `\u%04x`, u)
		}
	}
	return b
}

// oneLine keeps a table a table, and a terminal safe from what a document says.
func oneLine(s string) string { return jobs.VisibleLine(s) }
