package s3

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // what S3 checks a content by
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage/internal/transfer"
)

const (
	// partSize is what an upload of more than one part holds in memory and sends in one
	// request. All parts have one size: some stores want it so.
	partSize = 8 << 20
	// maxParts is the limit of S3; it makes objects of at most 80 GB.
	maxParts = 10_000
	// attempts is how often a request is sent; each time has its deadline.
	attempts = 3
)

// condition is what a write asks of the object that it replaces: that it still has this
// tag, or, when it is empty, that there is none.
type condition string

const absent condition = ""

// Put implements [storage.Store].
//
// Every write carries a condition on the object that it replaces, so that a request that
// arrives late or twice cannot undo a newer Put. A condition that fails although the tag was
// read during this call means that another Put has replaced the object meanwhile. That is
// the same as if it had come just after this one, so this Put counts as done. It is also
// what a repeated request gets when the answer to the first one was lost.
//
// A tag is a digest of the content: a late request is not noticed when the object has got
// back the content that it was to replace. Of an [Store.Unconditional] store none is.
//
// Objects that fit one part go in one request, in the hope that the name is new, as that
// of a result usually is.
func (s *Store) Put(ctx context.Context, name string, r io.Reader) error {
	if err := ownName(name); err != nil {
		return err
	}
	src := transfer.NewSource(ctx, r)
	err := s.put(ctx, name, src)
	switch {
	case err == nil:
		return nil
	case src.Err != nil:
		return fmt.Errorf("put object %s: %w", name, src.Err)
	}
	return fail(ctx, "put", name, err)
}

func (s *Store) put(ctx context.Context, name string, src *transfer.Source) error {
	buf := transfer.Buffers.Get().(*[transfer.BufferSize]byte)
	defer transfer.Buffers.Put(buf)
	n, err := io.ReadFull(src, buf[:])
	switch {
	case src.Err != nil:
		return src.Err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // that was all
		return s.putWhole(ctx, name, buf[:n], src)
	}
	part, more, err := firstPart(buf[:], src)
	switch {
	case err != nil:
		return err
	case !more:
		return s.putWhole(ctx, name, part, src)
	}
	return s.putParts(ctx, name, part, src)
}

// firstPart returns head and what follows it in src, up to one part, and whether there may
// be more. It takes memory as it is needed.
func firstPart(head []byte, src *transfer.Source) (part []byte, more bool, err error) {
	part = head
	for size := 4 * len(head); len(part) < partSize; size *= 4 {
		larger := make([]byte, min(size, partSize))
		had := copy(larger, part)
		n, err := io.ReadFull(src, larger[had:])
		part = larger[:had+n]
		switch {
		case src.Err != nil:
			return nil, false, src.Err
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return part, false, nil
		}
	}
	return part, true, nil
}

// putWhole stores content, which it may send several times.
func (s *Store) putWhole(ctx context.Context, name string, content []byte, src *transfer.Source) error {
	for known, read := absent, false; ; read = true {
		err := s.sendWhole(ctx, name, content, known, src)
		lost := unanswered(err) && known == absent
		switch {
		case !lost && !overtaken(err, known):
			return err
		case read:
			return nil // replaced since its tag was read, see Put
		}
		var failed error
		if known, failed = s.current(ctx, name); failed != nil {
			return failed
		}
		switch {
		case known != absent:
		case lost:
			return err
		default:
			return nil // made and deleted since the first request: done, see Put
		}
	}
}

// sendWhole sends content in one request, again if there is no answer in time or others
// write the object at this moment. The library repeats requests that fail.
func (s *Store) sendWhole(ctx context.Context, name string, content []byte, known condition, src *transfer.Source) error {
	options := s.conditional(options(name), known)
	md5Sum, sha := base64MD5(content), s.sha256(content)
	return s.repeat(ctx, src, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 4*s.timeout) // of 8 MiB at least 70 kB/s
		defer cancel()
		_, err := s.core.PutObject(ctx, s.bucket, name, bytes.NewReader(content), int64(len(content)), md5Sum, sha, options)
		return err
	})
}

// repeat makes a call that lets the object become visible. Before each time it looks whether
// the job is still held.
func (s *Store) repeat(ctx context.Context, src *transfer.Source, call func(context.Context) error) (err error) {
	for i := range attempts {
		if held := src.Held(); held != nil {
			return held
		}
		err = call(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
			return err
		case errors.Is(err, context.DeadlineExceeded):
		case code(err) == "ConditionalRequestConflict", code(err) == "OperationAborted":
			if jobs.Sleep(ctx, time.Duration(i+1)*200*time.Millisecond) != nil {
				return err
			}
		default:
			return err
		}
	}
	return err
}

// current reads which object there is to be replaced.
func (s *Store) current(ctx context.Context, name string) (condition, error) {
	info, err := s.stat(ctx, s.bucket, name)
	switch {
	case err == nil:
		return condition(info.ETag), nil
	case code(err) == minio.NoSuchKey:
		return absent, nil
	}
	return absent, err
}

// overtaken reports whether err says that the object is another one than known.
func overtaken(err error, known condition) bool {
	return isStatus(err, http.StatusPreconditionFailed) || known != absent && code(err) == minio.NoSuchKey
}

// unanswered reports whether the connection broke before there was an answer. A server that refuses before it has read all
// of a request, and closes, looks like that.
func unanswered(err error) bool {
	e, ok := errors.AsType[*url.Error](err)
	return ok && !e.Timeout()
}

// options returns what goes with an upload. The type is for people who open the object in a
// browser.
func options(name string) minio.PutObjectOptions {
	return minio.PutObjectOptions{ContentType: mime.TypeByExtension(path.Ext(name)), DisableContentSha256: true}
}

// conditional adds the condition on what is replaced.
func (s *Store) conditional(options minio.PutObjectOptions, known condition) minio.PutObjectOptions {
	switch {
	case s.Unconditional:
	case known == absent:
		options.SetMatchETagExcept("*")
	default:
		options.SetMatchETag(string(known))
	}
	return options
}

// base64MD5 is for the store to see that the content has arrived as it was.
func base64MD5(content []byte) string {
	sum := md5.Sum(content) //nolint:gosec // see above
	return base64.StdEncoding.EncodeToString(sum[:])
}

// sha256 returns the digest that is signed where TLS does not protect the content.
func (s *Store) sha256(content []byte) string {
	if s.secure {
		return ""
	}
	return sha256Hex(content)
}

func sha256Hex(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func isStatus(err error, status int) bool {
	e, ok := errors.AsType[minio.ErrorResponse](err)
	return ok && e.StatusCode == status
}
