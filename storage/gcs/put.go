package gcs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"

	gcs "cloud.google.com/go/storage"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage/internal/transfer"
)

const (
	// chunkSize is what an upload of more than one buffer holds in memory and
	// sends in one request. The library's own 16 MiB would be held for every
	// result of 300 bytes as well.
	chunkSize = 4 << 20
	// attempts is how often a small object is sent; each time has its deadline.
	attempts = 3
)

// Put implements [storage.Store].
//
// Every upload carries a precondition on the object's generation, so that a
// request that arrives late or twice cannot undo a newer Put. A precondition
// that fails although the generation was read during this call means that another Put
// has replaced the object meanwhile. That is the same as if it had come just after this
// one, so this Put counts as done. The library also sees it when it repeats a request
// whose response was lost.
//
// Objects that fit one buffer go in one request, in the hope that the name is
// new, as that of a result usually is.
func (g *Store) Put(ctx context.Context, name string, r io.Reader) error {
	if err := ownName(name); err != nil {
		return err
	}
	src := transfer.NewSource(ctx, r)
	err := g.put(ctx, name, src)
	switch {
	case err == nil:
		return nil
	case src.Err != nil:
		return fmt.Errorf("put object %s: %w", name, src.Err)
	case ctx.Err() == nil && isStatus(err, http.StatusNotFound):
		return fmt.Errorf("put object %s: bucket %s does not exist: %w: %w", name, g.bucket, jobs.ErrUnavailable, err)
	}
	return fail(ctx, "put", name, err)
}

func (g *Store) put(ctx context.Context, name string, src *transfer.Source) error {
	buf := transfer.Buffers.Get().(*[transfer.BufferSize]byte)
	defer transfer.Buffers.Put(buf)
	n, err := io.ReadFull(src, buf[:])
	object := g.client.Bucket(g.bucket).Object(name)
	switch {
	case src.Err != nil:
		return src.Err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // that was all
		return g.putSmall(ctx, object, buf[:n], src)
	}
	return g.putLarge(ctx, object, buf[:], src)
}

// putSmall stores content, which it may send several times.
func (g *Store) putSmall(ctx context.Context, object *gcs.ObjectHandle, content []byte, src *transfer.Source) error {
	known := gcs.Conditions{DoesNotExist: true}
	for {
		err := g.sendSmall(ctx, object.If(known), content, src)
		if !isStatus(err, http.StatusPreconditionFailed) {
			return err
		}
		if !known.DoesNotExist {
			return nil // replaced since its generation was read, see Put
		}
		if known, err = g.conditions(ctx, object); err != nil {
			return err
		}
		if known.DoesNotExist {
			// Made and deleted since the first request: done, see Put.
			return nil
		}
	}
}

// sendSmall sends content in one request, again if there is no answer in time.
// The library repeats requests that fail, but waits for an answer without end.
func (g *Store) sendSmall(ctx context.Context, object *gcs.ObjectHandle, content []byte, src *transfer.Source) error {
	var err error
	for range attempts {
		if err := src.Held(); err != nil {
			return err
		}
		err = g.sendOnce(ctx, object, content)
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
	return err
}

func (g *Store) sendOnce(ctx context.Context, object *gcs.ObjectHandle, content []byte) error {
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	w := object.NewWriter(ctx)
	w.ChunkSize = transfer.BufferSize // more than content: one request, and memory for no more
	w.ContentType = contentType(object)
	if _, err := w.Write(content); err != nil {
		return err
	}
	return w.Close()
}

// putLarge stores head and what is left of src. It cannot start again, so it
// needs to know beforehand what it is going to replace.
func (g *Store) putLarge(ctx context.Context, object *gcs.ObjectHandle, head []byte, src *transfer.Source) error {
	known, err := g.conditions(ctx, object)
	if err != nil {
		return err
	}
	writeCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := object.If(known).NewWriter(writeCtx)
	w.ChunkSize = chunkSize
	w.ContentType = contentType(object)
	w.ChunkTransferTimeout = 2 * g.timeout // one attempt at 4 MiB: at least 70 kB/s
	w.ChunkRetryDeadline = 6 * g.timeout   // all attempts at it
	_, err = w.Write(head)
	if err == nil {
		err = transfer.Copy(w, src)
	}
	if err == nil {
		err = src.Held()
	}
	if err != nil {
		// Close would commit what was sent so far: only a canceled context
		// abandons an upload. After that, Close waits until it is over.
		cancel()
		_ = w.Close()
		if isStatus(err, http.StatusPreconditionFailed) {
			// An upload that was overtaken counts as done only if it could have been.
			return transfer.Copy(io.Discard, src)
		}
		return err
	}
	if err = w.Close(); isStatus(err, http.StatusPreconditionFailed) {
		return nil // replaced meanwhile, see Put
	}
	return err
}

// conditions reads which generation of the object there is to be replaced.
func (g *Store) conditions(ctx context.Context, object *gcs.ObjectHandle) (gcs.Conditions, error) {
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	attrs, err := object.Attrs(ctx)
	switch {
	case err == nil:
		return gcs.Conditions{GenerationMatch: attrs.Generation}, nil
	case errors.Is(err, gcs.ErrObjectNotExist) && !bucketMissing(err):
		return gcs.Conditions{DoesNotExist: true}, nil
	}
	return gcs.Conditions{}, err
}

// contentType is for people who open the object in a browser; the library
// guesses it from the content when the name does not say.
func contentType(object *gcs.ObjectHandle) string {
	return mime.TypeByExtension(path.Ext(object.ObjectName()))
}
