package blob

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

var errAborted = errors.New("the upload was aborted")

// uploadKey identifies an upload that can go on. The owner is part of it: a peer must not continue with bytes of another one.
type uploadKey struct{ owner, digest string }

// upload is a blob that is being written. It is used by one goroutine at a time.
type upload struct {
	s      *Store
	key    uploadKey
	size   int64
	offset int64
	pipe   *io.PipeWriter
	done   chan error // the result of the Put that reads the pipe
	expire *time.Timer
}

// upload begins an upload, or continues the interrupted one of the owner. It returns nil if the store has the blob.
func (s *Store) upload(ctx context.Context, owner, digest string, size int64) (*upload, error) {
	if err := Check(digest, size); err != nil {
		return nil, refuse(wire.CodeInvalid, "%v", err)
	}
	key := uploadKey{owner, digest}
	s.mu.Lock()
	defer s.mu.Unlock()
	u, o := s.parked[key], s.blobs[digest]
	switch {
	case s.closed:
		return nil, refuse(wire.CodeDraining, "the store is closed")
	case o != nil && o.size != size:
		return nil, refuse(wire.CodeInvalid, "Size is %d, and the content of this Sha256 has %d bytes", size, o.size)
	case o != nil:
		o.used = time.Now()
		return nil, nil
	case u != nil && u.size == size:
		delete(s.parked, key)
		u.expire.Stop() // if it has fired, it finds that the upload is not parked
		return u, nil
	case size > s.opts.Max:
		return nil, refuse(wire.CodeInvalid, "Size is %d, at most %d", size, s.opts.Max)
	case s.uploads >= maxUploads:
		return nil, refuse(wire.CodeBusy, "%d uploads are under way", s.uploads)
	}
	if err := s.room(ctx, size); err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	u = &upload{s: s, key: key, size: size, pipe: w, done: make(chan error, 1)}
	s.uploads++
	s.writing[digest]++
	s.puts.Go(func() {
		// It ends with the pipe, which the upload closes; a context would only cut it off in the middle of the last sync.
		err := s.local.Put(context.WithoutCancel(ctx), path(digest), &verifier{r: r, digest: digest, sum: sha256.New()})
		_ = r.CloseWithError(err) // it never fails
		u.done <- err
	})
	return u, nil
}

// verifier returns [ErrDigest] instead of io.EOF if the content has another digest.
type verifier struct {
	r      io.Reader
	digest string
	sum    hash.Hash
}

func (v *verifier) Read(p []byte) (int, error) {
	n, err := v.r.Read(p)
	v.sum.Write(p[:n])
	if err == io.EOF {
		return n, cmp.Or(checkSum(v.sum, v.digest), err)
	}
	return n, err
}

func checkSum(h hash.Hash, digest string) error {
	if got := hex.EncodeToString(h.Sum(nil)); got != digest {
		return fmt.Errorf("%w: %s instead of %s", ErrDigest, got, digest)
	}
	return nil
}

// write appends a chunk. After an error the upload must be aborted.
func (u *upload) write(ctx context.Context, chunk []byte) error {
	n := int64(len(chunk))
	u.s.mu.Lock()
	err := u.s.room(ctx, n)
	if err == nil {
		u.s.used += n
		u.offset += n
	}
	u.s.mu.Unlock()
	if err == nil {
		_, err = u.pipe.Write(chunk)
	}
	if err != nil {
		return u.s.failed(u.key.digest, err)
	}
	return nil
}

// commit ends an upload whose bytes are all written.
func (u *upload) commit() error {
	_ = u.pipe.Close() // it never fails
	err := <-u.done
	s := u.s
	s.mu.Lock()
	defer s.mu.Unlock()
	u.forget()
	switch {
	case err != nil:
		s.used -= u.offset
		return s.failed(u.key.digest, err)
	case s.blobs[u.key.digest] != nil: // put twice at the same time
		s.used -= u.offset
	default:
		s.blobs[u.key.digest] = &object{size: u.size, used: time.Now()}
	}
	return nil
}

// abort deletes what was written.
func (u *upload) abort() {
	_ = u.pipe.CloseWithError(errAborted) // it never fails
	// The error is what the pipe was closed with, or makes no difference now.
	<-u.done //nolint:errcheck // as above
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	u.forget()
	u.s.used -= u.offset
}

// forget takes an upload out of the counts. The mutex is held.
func (u *upload) forget() {
	u.s.uploads--
	if u.s.writing[u.key.digest]--; u.s.writing[u.key.digest] == 0 {
		delete(u.s.writing, u.key.digest)
	}
}

// park keeps an interrupted upload for [KeepUpload], so that its owner can go on with it. It aborts an upload without an owner or without bytes, and the
// second one with the same key.
func (u *upload) park() {
	s := u.s
	s.mu.Lock()
	if s.closed || u.key.owner == "" || u.offset == 0 || s.parked[u.key] != nil {
		s.mu.Unlock()
		u.abort()
		return
	}
	s.parked[u.key] = u
	u.expire = time.AfterFunc(KeepUpload, func() {
		s.mu.Lock()
		mine := s.parked[u.key] == u
		if mine {
			delete(s.parked, u.key)
		}
		s.mu.Unlock()
		if mine {
			u.abort()
		}
	})
	s.mu.Unlock()
}
