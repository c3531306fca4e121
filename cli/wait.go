package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

// pollEvery is how often commands look at the jobs they wait for.
const pollEvery = 200 * time.Millisecond

// redisPatience is how long commands that wait put up with a Redis that is away.
const redisPatience = 30 * time.Second

// follow looks at jobs until all of them have ended, and passes every change of
// their status to seen. A job without a record counts as queued: its
// message may be on its way.
func follow(ctx context.Context, st *status.Store, ids []jobs.ID, seen func(status.Entry)) error {
	left := ids
	type shown struct {
		status.Document
		silent time.Duration // to 10 s: said as it grows
	}
	last := map[jobs.ID]shown{}
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
				if now := (shown{e.Document, e.Silent.Truncate(10 * time.Second)}); last[e.ID] != now {
					last[e.ID] = now
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
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d jobs have not ended: %w", len(left), len(ids), context.Cause(ctx))
		case <-tick.C:
		}
	}
	return nil
}

// waitFor shows the jobs' progress on stderr and prints how they ended. Its
// error has exit code 1 unless all succeeded.
func waitFor(ctx context.Context, st *status.Store, sent []submitted, out io.Writer, asJSON bool) error {
	ids := make([]jobs.ID, len(sent))
	files := map[jobs.ID]string{}
	for i, s := range sent {
		ids[i], files[s.ID] = s.ID, s.File
	}
	ended := map[jobs.ID]status.Entry{}
	show := newBars(os.Stderr, files)
	err := follow(ctx, st, ids, func(e status.Entry) {
		ended[e.ID] = e
		show.update(e)
	})
	show.done()
	rows := each(sent, func(s submitted) row {
		e, ok := ended[s.ID]
		if !ok {
			e = status.Entry{ID: s.ID, Document: status.Document{Status: "queued"}}
		}
		return newRow(e, s.File)
	})
	if printed := printResults(out, rows, asJSON); printed != nil {
		return printed
	}
	if err != nil {
		return err
	}
	failed := 0
	for _, e := range rows {
		if e.State() != jobs.Succeeded {
			failed++
		}
	}
	if failed > 0 {
		return program.Exit(program.Failed, fmt.Errorf("%d of %d jobs did not succeed", failed, len(rows)))
	}
	return nil
}

// row is how a job is printed as JSON.
type row struct {
	ID      jobs.ID `json:"job_id"`
	File    string  `json:"file,omitempty"`
	Kind    string  `json:"kind,omitempty"`
	Worker  string  `json:"worker,omitempty"`
	Attempt int     `json:"attempt,omitempty"`
	Pages   int     `json:"pages"`
	Damaged bool    `json:"damaged,omitempty"`
	Touched *int    `json:"damaged_pages,omitempty"`
	Seconds float64 `json:"seconds"` // of the last attempt
	Silent  int     `json:"worker_silent_seconds,omitempty"`
	status.Document
}

func newRow(e status.Entry, file string) row {
	r := row{
		ID: e.ID, File: file, Kind: string(e.Detail.Kind), Worker: e.Detail.Worker, Attempt: e.Detail.Attempt,
		Silent: int(e.Silent.Seconds()), Pages: e.Detail.Pages, Damaged: e.Detail.Damaged != nil, Touched: e.Detail.Damaged, Document: e.Document,
	}
	if d := e.Detail; !d.Started.IsZero() && !d.Finished.IsZero() {
		r.Seconds = d.Finished.Sub(d.Started).Seconds()
	}
	return r
}

// pages says how many pages there are, and that the document is damaged.
func (r row) pages() string {
	switch {
	case !r.Damaged:
		return strconv.Itoa(r.Pages)
	case *r.Touched == 0:
		return fmt.Sprintf("%d (damaged)", r.Pages)
	default:
		return fmt.Sprintf("%d (%d damaged)", r.Pages, *r.Touched)
	}
}

// silence says for how long the worker of a job has not reported; it is empty for one that
// reports.
func (r row) silence() string {
	if r.Silent == 0 {
		return ""
	}
	return fmt.Sprintf("worker silent for %d s", r.Silent)
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

func printResults(out io.Writer, rows []row, asJSON bool) error {
	return printRows(out, asJSON, rows, []any{"JOB", "FILE", "STATUS", "PAGES", "SECONDS", "RESULT"}, func(r row) []any {
		return []any{r.ID, filepath.Base(r.File), cmp.Or(r.silence(), r.Status), r.pages(), fmt.Sprintf("%.2f", r.Seconds), cmp.Or(r.ErrorMsg, r.ResultURL)}
	})
}

// oneLine keeps a table a table, and a terminal safe from what a document says.
func oneLine(s string) string { return jobs.VisibleLine(s) }
