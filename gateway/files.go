package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/httpd/client"
	"github.com/batchfleet/batchfleet/jobs"
)

// FilePlane is a [ControlPlane] that has the inputs of jobs and takes their artifacts: those of
// kinds beside zpe. Errors are those of a ControlPlane.
type FilePlane interface {
	// Uploaded returns how much of an artifact has arrived.
	Uploaded(ctx context.Context, u Upload) (wire.UploadResponse, error)
	// Upload sends the part of an artifact that begins at from. What follows on the last part
	// may take a while.
	Upload(ctx context.Context, u Upload, from int64, part []byte) (wire.UploadResponse, error)
	// Input returns an input of a job from a byte on, which the caller closes, and the SHA-256
	// of all of it. The inputs count from 1; 0 is that of a job with one. Errors of its Read are those of the connection.
	Input(ctx context.Context, l LeaseOf, number int, from int64) (content io.ReadCloser, sum string, err error)
	// Checkpoint is Input for the checkpoint of a job.
	Checkpoint(ctx context.Context, l LeaseOf, from int64) (content io.ReadCloser, sum string, err error)
	// PutCheckpoint keeps a checkpoint of a job in place of an earlier one. An empty one is none.
	PutCheckpoint(ctx context.Context, l LeaseOf, a wire.Artifact, content io.Reader) error
}

// LeaseOf names a job and the lease on it.
type LeaseOf struct {
	Kind       jobs.Kind
	Job        jobs.ID
	ID, Worker string
}

// Upload is an artifact that is sent under a lease.
type Upload struct {
	LeaseOf
	wire.Artifact
}

var _ FilePlane = (*Client)(nil)

func (l LeaseOf) path(route string) string {
	return jobPath(kindPath(string(l.Kind), route), string(l.Job))
}

func (u Upload) path() string {
	return strings.Replace(u.LeaseOf.path(wire.PathUpload), "{name}", url.PathEscape(u.Name), 1)
}

func (u Upload) header() http.Header {
	return http.Header{wire.HeaderLeaseID: {u.ID}, http.CanonicalHeaderKey(wire.HeaderSHA256): {u.SHA256}}
}

// Uploaded implements [FilePlane].
func (c *Client) Uploaded(ctx context.Context, u Upload) (a wire.UploadResponse, err error) {
	query := url.Values{"size": {strconv.FormatInt(u.Size, 10)}}
	_, err = c.call(ctx, call{method: http.MethodGet, path: u.path(), query: query, header: u.header(), response: &a})
	if err == nil {
		err = u.check(a)
	}
	if err != nil {
		return wire.UploadResponse{}, fmt.Errorf("ask for artifact %s of job %s: %w", u.Name, u.Job, err)
	}
	return a, nil
}

// Upload implements [FilePlane].
func (c *Client) Upload(ctx context.Context, u Upload, from int64, part []byte) (a wire.UploadResponse, err error) {
	header := u.header()
	header.Set("Content-Type", "application/octet-stream")
	what := call{method: http.MethodPut, path: u.path(), header: header, raw: part, response: &a}
	if len(part) > 0 { // an empty artifact has no range
		header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, from+int64(len(part))-1, u.Size))
	}
	if from+int64(len(part)) == u.Size {
		what.wait = 2*time.Minute + time.Duration(u.Size>>20)*time.Second // while the gateway stores it
	}
	_, err = c.call(ctx, what)
	if err == nil {
		err = u.check(a)
	}
	if err != nil {
		return wire.UploadResponse{}, fmt.Errorf("send artifact %s of job %s: %w", u.Name, u.Job, err)
	}
	return a, nil
}

// check returns what is wrong with an answer.
func (u Upload) check(a wire.UploadResponse) error {
	if a.Offset < 0 || a.Offset > u.Size || a.Complete && a.Offset != u.Size {
		return errBadResponse("an offset that cannot be")
	}
	return nil
}

// Input implements [FilePlane].
func (c *Client) Input(ctx context.Context, l LeaseOf, number int, from int64) (io.ReadCloser, string, error) {
	query := url.Values{}
	if number > 0 {
		query.Set("number", strconv.Itoa(number))
	}
	return c.read(ctx, l, "the input", call{path: l.path(wire.PathInput), query: query}, from)
}

// Checkpoint implements [FilePlane].
func (c *Client) Checkpoint(ctx context.Context, l LeaseOf, from int64) (io.ReadCloser, string, error) {
	return c.read(ctx, l, "the checkpoint", call{path: l.path(wire.PathCheckpoint)}, from)
}

// PutCheckpoint implements [FilePlane].
func (c *Client) PutCheckpoint(ctx context.Context, l LeaseOf, a wire.Artifact, content io.Reader) error {
	limited, cancel := context.WithTimeout(ctx, 2*time.Minute+time.Duration(a.Size>>20)*time.Second)
	defer cancel()
	header := http.Header{wire.HeaderLeaseID: {l.ID}, http.CanonicalHeaderKey(wire.HeaderSHA256): {a.SHA256}, "Content-Type": {"application/octet-stream"}}
	token := c.token()
	request := &client.Request{
		Method: http.MethodPut, URL: c.url(call{path: l.path(wire.PathCheckpoint)}), Header: header, Accept: "application/json", Content: content, Size: a.Size, Token: token,
	}
	resp, err := c.http.Open(limited, request)
	if err != nil {
		return fmt.Errorf("send the checkpoint of job %s: %w", l.Job, c.http.Unreachable(ctx, limited, request, err))
	}
	if err := wants(resp, http.StatusOK, token); err != nil {
		return fmt.Errorf("send the checkpoint of job %s: %w", l.Job, err)
	}
	return resp.Body.Close()
}

// read opens something of a job from a byte on.
func (c *Client) read(ctx context.Context, l LeaseOf, what string, where call, from int64) (io.ReadCloser, string, error) {
	header := http.Header{wire.HeaderLeaseID: {l.ID}}
	if from > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	token := c.token()
	request := &client.Request{URL: c.url(where), Header: header, Accept: "*/*", Token: token}
	resp, err := c.http.Open(ctx, request)
	if err != nil {
		return nil, "", fmt.Errorf("read %s of job %s: %w", what, l.Job, c.http.Unreachable(ctx, ctx, request, err))
	}
	want := http.StatusOK
	if from > 0 {
		want = http.StatusPartialContent
	}
	if err := wants(resp, want, token); err != nil {
		return nil, "", fmt.Errorf("read %s of job %s: %w", what, l.Job, err)
	}
	return resp.Body, resp.Header.Get(wire.HeaderSHA256), nil
}

// wants returns an error, and closes the body, unless a response has this status.
func wants(resp *http.Response, status int, token string) error {
	if resp.StatusCode == status {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, wire.MaxSmallBody))
	_ = resp.Body.Close() // it was only read
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", jobs.ErrUnavailable, err)
	case resp.StatusCode >= 400:
		return client.Hide(readError(resp, text), token)
	}
	return errBadResponse(fmt.Sprintf("status %d", resp.StatusCode))
}
