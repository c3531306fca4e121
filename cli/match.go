package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// listing says which jobs are to be listed.
type listing struct {
	jobapi.Query
	jobapi.Filter
}

// matchFlags are the flags that select jobs beside their kind and state.
type matchFlags struct {
	worker, idPrefix, fingerprint, since, until, text string
}

// register registers the flags.
func (m *matchFlags) register(cmd *cobra.Command, c *connection) {
	flags := cmd.Flags()
	flags.StringVar(&m.worker, "worker", "", "only jobs that this worker runs, or ran last")
	flags.StringVar(&m.idPrefix, "id-prefix", "", "only jobs whose id begins so")
	flags.StringVar(&m.fingerprint, "error", "", "only jobs of this group of errors: a fingerprint of 16 hexadecimal digits, of batchfleet overview")
	flags.StringVar(&m.since, "since", "", "only jobs that were created then or later: a time such as 2026-01-31T12:00:00Z, or how long ago, such as 24h or 7d")
	flags.StringVar(&m.until, "until", "", "only jobs that were created before, given as --since is")
	flags.StringVar(&m.text, "text", "", "only jobs with this text in their id, their request or the message of their error, whatever the case")
	completeWith(cmd, "worker", c.completeWorkers)
	for _, flag := range []string{"id-prefix", "error", "since", "until", "text"} {
		complete(cmd, flag, words())
	}
}

// given reports whether any of the flags is.
func (m *matchFlags) given() bool { return *m != matchFlags{} }

// Patterns of what a server takes.
var (
	idBeginning = jobs.Form(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	fingerprint = jobs.Form(`^[0-9a-f]{16}$`)
)

// check returns what is wrong with the values, but for times.
func (m *matchFlags) check() error {
	switch {
	case len(m.worker) > 256 || !utf8.ValidString(m.worker):
		return errors.New("--worker: want at most 256 bytes of UTF-8")
	case m.idPrefix != "" && !idBeginning().MatchString(m.idPrefix):
		return fmt.Errorf("--id-prefix is %.40q: want the beginning of a job id", m.idPrefix)
	case m.fingerprint != "" && !fingerprint().MatchString(m.fingerprint):
		return fmt.Errorf("--error is %.40q: want the 16 hexadecimal digits of a group of errors; `batchfleet overview` lists them", m.fingerprint)
	case utf8.RuneCountInString(m.text) > 200 || !utf8.ValidString(m.text):
		return errors.New("--text: want at most 200 characters")
	}
	return nil
}

// times returns the times, zero for those that are not given.
func (m *matchFlags) times(now time.Time) (since, until time.Time, err error) {
	since, err = instant(m.since, now)
	if err != nil {
		return since, until, fmt.Errorf("--since: %w", err)
	}
	if until, err = instant(m.until, now); err != nil {
		return since, until, fmt.Errorf("--until: %w", err)
	}
	return since, until, nil
}

// into checks the values and adds them to what is to be listed.
func (m *matchFlags) into(q *listing) error {
	if err := m.check(); err != nil {
		return err
	}
	since, until, err := m.times(time.Now())
	q.Filter = jobapi.Filter{Worker: m.worker, IDPrefix: m.idPrefix, Error: m.fingerprint, Since: since, Text: m.text}
	q.Until = until
	return err
}

// instant reads a time, or how long before now it is; zero for none.
func instant(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	var back span
	if err := back.Set(text); err != nil || back <= 0 || back.D() > 3650*24*time.Hour {
		return time.Time{}, fmt.Errorf("%.40q: want a time such as 2026-01-31T12:00:00Z, or how long ago, such as 90s, 24h or 7d", text)
	}
	return now.Add(-back.D()), nil
}

// searchTime is how long a list looks for jobs that match before it shows what it has found.
const searchTime = 10 * time.Second

// page returns a page of a scope's jobs. A server looks at some jobs at a time: it is asked until the page is full, for
// searchTime at most.
func (c *connection) page(ctx context.Context, scope string, q listing) (all jobapi.Page, err error) {
	for began := time.Now(); ; {
		page, err := c.ListMatching(ctx, scope, q.Query, q.Filter)
		if err != nil {
			return all, err
		}
		all.Items, all.Next = append(all.Items, page.Items...), page.Next
		q.Limit, q.Cursor = q.Limit-len(page.Items), page.Next
		if page.Next == "" || q.Limit <= 0 || time.Since(began) > searchTime {
			return all, nil
		}
	}
}

// completeWorkers completes names of workers.
func (c *connection) completeWorkers(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	return c.completed(begun, func(ctx context.Context) ([][2]string, error) {
		rows, err := c.workers(ctx, io.Discard)
		return each(rows, func(w workerRow) [2]string { return [2]string{w.Name, w.Scope + ", " + w.State} }), err
	})
}
