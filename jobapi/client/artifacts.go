package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/retry"
)

// Artifacts returns what a job has made.
func (c *Client) Artifacts(ctx context.Context, scope, id string) ([]jobapi.Artifact, error) {
	var a struct {
		Items []jobapi.Artifact `json:"items"`
	}
	err := c.json(ctx, &request{path: []string{scope, "jobs", id, "artifacts"}}, &a)
	for _, one := range a.Items {
		if err == nil && !jobapi.ValidArtifact().MatchString(one.Name) { // it becomes the name of a file
			err = errBadResponse(fmt.Sprintf("an artifact is called %.40q", one.Name))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list artifacts of job %s: %w", id, err)
	}
	return a.Items, nil
}

// Artifact writes the content of an artifact to out. One that breaks off goes on where it was, as long as the server
// has the same content and each connection brings some of it. When it fails, a part may be written.
func (c *Client) Artifact(ctx context.Context, scope, id, name string, out io.Writer) error {
	d := &download{to: out}
	r := &request{path: []string{scope, "jobs", id, "artifacts", name}, media: "*/*"}
	err := c.artifact(ctx, r, d)
	for err != nil && d.resumable(err) {
		had := d.written
		policy := readRetry
		policy.For = c.retryFor
		policy.Retrying = func(err error, _ time.Duration) { c.retrying(err) }
		c.retrying(err)
		err = policy.Do(ctx, func() error {
			r.header = http.Header{"Range": {fmt.Sprintf("bytes=%d-", d.written)}, "If-Range": {d.tag}}
			err := c.artifact(ctx, r, d)
			if err == nil || d.written > had || !d.resumable(err) {
				return retry.Permanent(err)
			}
			return err
		})
		if d.written == had {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("read artifact %s of job %s: %w", name, id, err)
	}
	return nil
}

// download is where an artifact is written, and how far that has come.
type download struct {
	to      io.Writer
	err     error // of to
	written int64
	tag     string // of the content; empty if parts of it cannot be asked for
}

func (d *download) Write(p []byte) (n int, err error) {
	n, d.err = d.to.Write(p)
	d.written += int64(n)
	return n, d.err
}

// resumable reports whether a download that has ended with err may go on where it was.
func (d *download) resumable(err error) bool {
	return d.tag != "" && d.err == nil && errors.Is(err, jobs.ErrUnavailable) && !isFinal(err)
}

// begin looks at the header of a response: whether it goes on where the download is.
func (d *download) begin(resp *http.Response) error {
	if resp.StatusCode == http.StatusOK && d.written == 0 {
		if tag := resp.Header.Get("ETag"); strings.HasPrefix(tag, `"`) && resp.Header.Get("Accept-Ranges") == "bytes" {
			d.tag = tag
		}
		return nil
	}
	if resp.StatusCode == http.StatusOK {
		return errors.New("it has changed since it was begun: read it again")
	}
	if at := fmt.Sprintf("bytes %d-", d.written); !strings.HasPrefix(resp.Header.Get("Content-Range"), at) || resp.Header.Get("ETag") != d.tag {
		return errBadResponse("it is another part than was asked for")
	}
	return nil
}

func (c *Client) artifact(ctx context.Context, r *request, d *download) error {
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	alarm := time.AfterFunc(c.timeout, func() { cancel(fmt.Errorf("no answer within %s", c.timeout)) })
	defer alarm.Stop()
	call, err := c.request(r)
	if err != nil {
		return err
	}
	resp, err := c.http.Open(limited, call)
	if err != nil {
		return c.http.Unreachable(ctx, limited, call, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	if resp.StatusCode != http.StatusOK && (resp.StatusCode != http.StatusPartialContent || r.header == nil) {
		text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		if err != nil {
			return c.http.Unreachable(ctx, limited, call, err)
		}
		return c.hide(r.check(resp, text))
	}
	if !alarm.Stop() {
		return c.http.Unreachable(ctx, limited, call, fmt.Errorf("no answer within %s", c.timeout))
	}
	if err := d.begin(resp); err != nil {
		return err
	}
	alarm = time.AfterFunc(c.silence, func() { cancel(fmt.Errorf("nothing was heard for %s", c.silence)) })
	defer alarm.Stop()
	_, err = io.Copy(d, &watched{resp.Body, func() { alarm.Reset(c.silence) }})
	switch {
	case d.err != nil:
		return d.err
	case err != nil:
		return c.http.Unreachable(ctx, limited, call, fmt.Errorf("the content broke off: %w", err))
	}
	return nil
}

// Retry queues a job that has failed again.
func (c *Client) Retry(ctx context.Context, scope, id string) (jobs.State, error) {
	var a struct {
		ID     string     `json:"jobId"`
		Status jobs.State `json:"status"`
	}
	err := c.json(ctx, &request{method: http.MethodPost, path: []string{scope, "jobs", id, "retry"}, wait: 30 * time.Second}, &a)
	if err == nil && a.ID != id {
		err = errBadResponse("it is about another job")
	}
	if err != nil {
		return 0, fmt.Errorf("retry job %s: %w", id, err)
	}
	return a.Status, nil
}

// Workers returns the workers of the fleet.
func (c *Client) Workers(ctx context.Context) ([]jobapi.Worker, error) {
	var a struct {
		Items []jobapi.Worker `json:"items"`
	}
	if err := c.json(ctx, &request{path: []string{"fleet", "workers"}}, &a); err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	return a.Items, nil
}

// Call makes a call of another route of the same server, whose refusals look as those of
// this API: into gets what it answers, and may be nil. path is below the server's address,
// and may have a query. A call that is no GET is not retried.
func (c *Client) Call(ctx context.Context, method, path string, body []byte, into any) error {
	return c.elsewhere(ctx, &request{method: method, elsewhere: path, body: body}, into)
}

// CallOnce is Call for what may be retried, because header has a key under which the server
// does it once.
func (c *Client) CallOnce(ctx context.Context, method, path string, body []byte, header http.Header, into any) error {
	return c.elsewhere(ctx, &request{method: method, elsewhere: path, body: body, header: header, repeatable: true}, into)
}

func (c *Client) elsewhere(ctx context.Context, r *request, into any) error {
	if into == nil {
		_, err := c.do(ctx, r)
		return err
	}
	return c.json(ctx, r, into)
}
