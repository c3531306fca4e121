package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

// resumes is how often in a row a broken download is resumed without any progress.
const resumes = 3

// download is the content of an object on its way. When the connection breaks it asks
// for the rest of the same content. A Read that waits longer than timeout fails.
type download struct {
	store          *Store
	ctx            context.Context // lives as long as the open object
	bucket, object string
	timeout        time.Duration

	body    io.ReadCloser
	silence *time.Timer
	cancel  context.CancelFunc
	etag    string
	offset  int64 // of what comes next
	broken  int   // how often in a row
}

var (
	errReplaced = errors.New("the object was replaced while it was being read")
	errNoRange  = errors.New("the store was asked for a part of the object and sent something else")
)

// open asks for the content from offset on: of the object that was being read, if there is one.
func (d *download) open(ctx context.Context) error {
	var options minio.GetObjectOptions
	if d.offset > 0 {
		if err := options.SetRange(d.offset, 0); err != nil {
			return err
		}
	}
	if d.etag != "" {
		if err := options.SetMatchETag(d.etag); err != nil {
			return err
		}
	}
	// The context covers the transfer of the content, so it has no deadline. It is
	// canceled when no content comes for timeout.
	ctx, cancel := context.WithCancel(ctx)
	silence := time.AfterFunc(d.timeout, cancel)
	body, info, header, err := d.store.core.GetObject(ctx, d.bucket, d.object, options)
	silence.Stop()
	switch {
	case err != nil:
	case d.etag != "" && info.ETag != d.etag: // a store that does not heed the condition
		err = errors.Join(errReplaced, body.Close())
	case d.offset > 0 && !strings.HasPrefix(header.Get("Content-Range"), fmt.Sprintf("bytes %d-", d.offset)):
		err = errors.Join(errNoRange, body.Close())
	}
	if err != nil {
		cancel()
		return err
	}
	d.body, d.silence, d.cancel, d.etag = body, silence, cancel, info.ETag
	return nil
}

// Read implements [io.Reader].
func (d *download) Read(p []byte) (int, error) {
	for {
		d.silence.Reset(d.timeout)
		n, err := d.body.Read(p)
		silent := !d.silence.Stop()
		d.offset += int64(n)
		if n > 0 {
			d.broken = 0
		}
		if err == nil || err == io.EOF || silent || d.ctx.Err() != nil {
			return n, err
		}
		if n > 0 {
			return n, nil // the next Read sees the error again
		}
		if d.broken++; d.broken > resumes || d.offset == 0 || d.etag == "" {
			return 0, err
		}
		_ = d.Close() // it is broken
		if again := d.open(d.ctx); again != nil {
			return 0, errors.Join(err, again)
		}
	}
}

// Close implements [io.Closer].
func (d *download) Close() error {
	d.cancel()
	return d.body.Close()
}
