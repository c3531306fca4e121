package client

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/batchfleet/batchfleet/grid/blob"
	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/wire"
)

// content is a file of a job that is put to the leader as a blob, before the job is sent.
type content struct {
	blob wire.Blob
	data []byte
}

// blobRoom is more bytes than the member Blob takes in a request.
const blobRoom = 300

// detach takes the contents of the largest files out of a request that is too large for a frame, until it fits, and puts blobs in their place.
func detach(request *wire.JobRequest) (contents []content, err error) {
	size := blobRoom
	for i := range request.Files {
		size += base64.StdEncoding.EncodedLen(len(request.Files[i].Content))
	}
	most := wire.MaxSubmit(request.ExecName)
	if size <= most {
		return nil, nil // nearly always
	}
	files := request.Files
	request.Files = make([]wire.InputFile, len(files)) // the caller's are left as they are
	for i, f := range files {
		f.Content = nil
		request.Files[i] = f
	}
	rest, err := wire.MarshalRequest(request)
	if err != nil {
		return nil, err
	}
	copy(request.Files, files)
	for size += len(rest); size > most; {
		largest := 0
		for i := range request.Files {
			if len(request.Files[i].Content) > len(request.Files[largest].Content) {
				largest = i
			}
		}
		f := &request.Files[largest]
		if len(f.Content) <= blobRoom {
			break // submit refuses the request
		}
		b, err := blob.Sum(bytes.NewReader(f.Content))
		if err != nil {
			return nil, err
		}
		size -= base64.StdEncoding.EncodedLen(len(f.Content)) - blobRoom
		contents = append(contents, content{b, f.Content})
		f.Content, f.Blob = nil, &b
	}
	return contents, nil
}

// give sends a job to its leader, after the job's contents. It is an error if the connection has ended. m.mu is held.
func (l *leader) give(j *Job) error {
	if len(j.contents) == 0 {
		return l.conn.Send(j.frame())
	}
	conn, blobs, contents := l.conn, l.blobs, j.contents
	j.stopPut = l.transfer(func(ctx context.Context) {
		err := put(ctx, blobs, contents)
		l.m.mu.Lock()
		defer l.m.mu.Unlock()
		if j.at == l && l.conn == conn {
			l.gave(j, err)
		}
	})
	return nil
}

func put(ctx context.Context, to *blob.Client, contents []content) error {
	for _, c := range contents {
		if err := to.Put(ctx, c.blob, bytes.NewReader(c.data)); err != nil {
			return err
		}
	}
	return nil
}

// gave sends a job whose contents were put, or treats err as the leader's refusal. m.mu is held.
func (l *leader) gave(j *Job, err error) {
	told := &Error{Code: wire.CodeBusy, Leader: l.address}
	theirs, refused := errors.AsType[*blob.Error](err)
	switch {
	case err == nil:
		_ = l.conn.Send(j.frame()) // after an error the job is given again over the next connection
		return
	case errors.Is(err, blob.ErrClosed):
		return
	case refused:
		told.Code, told.Message = theirs.Code, theirs.Message
	default:
		told.Message = err.Error()
	}
	j.refuse(told)
	l.m.send()
}

// cannotTake returns why no leader will take a job, or nil if one may. A lost leader may take it until the grace is over. m.mu is held.
func (m *Multi) cannotTake(j *Job) error {
	if len(j.contents) == 0 {
		return nil
	}
	for _, l := range m.leaders {
		if l.ready && l.features[wire.FeatureBlob] || !l.ready && time.Since(later(l.lost, m.began)) < m.cfg.Grace {
			return nil
		}
	}
	if len(m.able(wire.FeaturePing)) == 0 {
		return nil // no leader is connected
	}
	return fmt.Errorf("submit job %s: %w: its files do not fit into a frame, and no connected leader takes blobs; give it smaller files", j.ID, wire.ErrTooLarge)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Fetch downloads a blob from a leader, such as one of the Artifacts of a result. When connections are lost it waits for the next ones, until ctx ends, and
// goes on where it was. What it has written is complete only if the error is nil. The error wraps [fs.ErrNotExist] if all leaders are connected and none has
// the blob, and [errors.ErrUnsupported] if no leader stores blobs.
func (m *Multi) Fetch(ctx context.Context, b wire.Blob, to io.Writer) error {
	if err := b.Check(); err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	d := blob.NewDownload(b, to)
	for {
		over, err := m.fetch(ctx, d)
		if over {
			return err
		}
		select {
		case <-time.After(watchEvery):
		case <-m.stopped:
			return fmt.Errorf("fetch blob %s: %w", b.SHA256, ErrStopped)
		case <-ctx.Done():
			return fmt.Errorf("fetch blob %s: %w", b.SHA256, errors.Join(context.Cause(ctx), err))
		}
	}
}

// fetch asks each leader once. It reports whether the result is final.
func (m *Multi) fetch(ctx context.Context, d *blob.Download) (over bool, err error) {
	without, missing := 0, 0
	for _, l := range m.leaders {
		m.mu.Lock()
		ready, able, blobs := l.ready, l.features[wire.FeatureBlob], l.blobs
		m.mu.Unlock()
		if !ready {
			err = fmt.Errorf("leader %s: %w", l.address, link.ErrSilent)
			continue
		}
		if !able {
			without++
			continue
		}
		got := blobs.Get(ctx, d)
		theirs, refused := errors.AsType[*blob.Error](got)
		switch {
		case got == nil:
			return true, nil
		case refused && theirs.Code == wire.CodeNotFound:
			missing++
		case ctx.Err() != nil, !refused && !errors.Is(got, blob.ErrClosed) && !errors.Is(got, blob.ErrStalled), refused && theirs.Code == wire.CodeInvalid:
			return true, fmt.Errorf("leader %s: %w", l.address, got)
		default:
			err = fmt.Errorf("leader %s: %w", l.address, got)
		}
	}
	switch {
	case without == len(m.leaders):
		return true, fmt.Errorf("fetch: %w", errNotSupported)
	case without+missing == len(m.leaders):
		return true, fmt.Errorf("fetch: no leader has the blob any more: %w", fs.ErrNotExist)
	}
	return false, err
}
