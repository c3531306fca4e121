package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	httpclient "github.com/batchfleet/batchfleet/httpd/client"
)

// Upload sends content of size bytes, -1 if that is not known, to a path of this server that is not the Job API's, and
// reads the answer into into. It is not retried: the content is gone.
func (c *Client) Upload(ctx context.Context, path string, content io.Reader, size int64, into any) error {
	return c.send(ctx, &request{method: http.MethodPost, elsewhere: path}, content, size, into)
}

// send sends content as the body of a request.
func (c *Client) send(ctx context.Context, r *request, content io.Reader, size int64, into any) error {
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	alarm := time.AfterFunc(c.silence, func() { cancel(fmt.Errorf("nothing could be sent for %s", c.silence)) })
	defer alarm.Stop()
	r.header = http.Header{"Content-Type": {"application/octet-stream"}}
	call, err := c.request(r)
	if err != nil {
		return err
	}
	from := &reading{Reader: content, progressed: func() { alarm.Reset(c.silence) }}
	call.Content, call.Size = from, size
	resp, err := c.http.Open(limited, call)
	if err != nil {
		if from.err != nil {
			return from.err // of the content, and not of the server
		}
		return c.http.Unreachable(ctx, limited, call, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	if err != nil {
		return c.http.Unreachable(ctx, limited, call, err)
	}
	if err := r.check(resp, text); err != nil {
		return c.hide(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return errBadResponse("beginning " + httpclient.Quote(text))
	}
	return nil
}

// reading is content that is sent, and what went wrong when it was read.
type reading struct {
	io.Reader
	progressed func()
	err        error
}

func (r *reading) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 {
		r.progressed()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}
