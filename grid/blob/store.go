package blob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/safefile"
	"github.com/batchfleet/batchfleet/storage"
)

// Limits of a store.
const (
	maxUploads = 256              // under way or interrupted
	KeepUpload = 10 * time.Minute // how long an interrupted upload is kept
	Young      = 10 * time.Minute // a blob is not deleted to make room so soon after its use: the job that needs it may be on its way
)

// Options are the settings of a [Store]. A zero number stands for the default beside it.
type Options struct {
	Quota int64         // bytes of all blobs: 64 GiB
	Max   int64         // bytes of one blob: 4 GiB
	TTL   time.Duration // how long a blob is kept after its last use: 24 h
	Log   *slog.Logger
}

// Store keeps blobs in a directory, which belongs to it alone. Its methods may be called concurrently.
//
// A blob is there whole or not at all, and survives a power cut. It is deleted by [Store.Sweep] when it was not used for Options.TTL, or before that to make
// room for others, the one that was not used for longest first. Putting a blob and [Store.Size] are uses.
type Store struct {
	opts  Options
	local *storage.Local
	puts  sync.WaitGroup

	mu      sync.Mutex
	blobs   map[string]*object // by digest
	used    int64              // bytes of all blobs, and of uploads
	uploads int
	writing map[string]int        // how many uploads a digest has
	parked  map[uploadKey]*upload // interrupted
	closed  bool
}

type object struct {
	size int64
	used time.Time
}

// OpenStore opens the store in a directory, which is made if there is none.
func OpenStore(ctx context.Context, dir string, o Options) (*Store, error) {
	if err := safefile.Dir(dir); err != nil {
		return nil, fmt.Errorf("open the store of blobs: %w", err)
	}
	local, err := storage.NewLocal(dir)
	if err != nil {
		return nil, err
	}
	o.Quota, o.Max, o.TTL = cmp.Or(o.Quota, 64<<30), cmp.Or(o.Max, 4<<30), cmp.Or(o.TTL, 24*time.Hour)
	s := &Store{opts: o, local: local, blobs: map[string]*object{}, writing: map[string]int{}, parked: map[uploadKey]*upload{}}
	for i := range 256 { // files that a killed process has left
		if err := local.RemoveUnfinished(ctx, fmt.Sprintf("%02x", i)); err != nil {
			return nil, errors.Join(err, local.Close())
		}
	}
	err = local.Walk(ctx, "", func(name string, info storage.Info, err error) error {
		digest := strings.Replace(name, "/", "", 1)
		switch {
		case err != nil:
			return err
		case Check(digest, 0) == nil && name == path(digest): // others are not ours
			s.blobs[digest] = &object{size: info.Size, used: info.Modified}
			s.used += info.Size
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, local.Close())
	}
	return s, nil
}

// path returns the name of the object that holds a blob.
func path(digest string) string { return digest[:2] + "/" + digest[2:] }

// Close ends the uploads and releases the directory.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	parked := s.parked
	s.parked = nil
	s.mu.Unlock()
	for _, u := range parked {
		u.abort()
	}
	s.puts.Wait()
	return s.local.Close()
}

// Put stores the content of r, unless the store has the blob. The error wraps [ErrDigest] if size or digest are wrong, and is an [*Error] if the store
// refuses the blob.
func (s *Store) Put(ctx context.Context, digest string, size int64, r io.Reader) error {
	u, err := s.upload(ctx, "", digest, size)
	if u == nil || err != nil {
		return err
	}
	buf := make([]byte, Chunk)
	for u.offset < size {
		n, err := io.ReadFull(r, buf[:min(Chunk, size-u.offset)])
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		} else if err == nil {
			err = u.write(ctx, buf[:n])
		}
		if err != nil {
			u.abort()
			return fmt.Errorf("put blob %s: %d of %d bytes: %w", digest, u.offset, size, err)
		}
	}
	if n, err := r.Read(buf[:1]); n > 0 || err != io.EOF {
		u.abort()
		return fmt.Errorf("put blob %s: there are more than %d bytes: %w", digest, size, errors.Join(ErrDigest, err))
	}
	return u.commit()
}

// Open returns the content of a blob from an offset on, and the size of the whole blob. The offset must be below the size. The error wraps [fs.ErrNotExist]
// if there is no such blob.
func (s *Store) Open(ctx context.Context, digest string, offset int64) (io.ReadCloser, int64, error) {
	size, ok := s.Size(digest)
	if !ok {
		return nil, 0, fmt.Errorf("blob %.80q: %w", digest, fs.ErrNotExist)
	}
	r, err := s.local.OpenAt(ctx, path(digest), offset)
	return r, size, err
}

// Size returns the size of a blob, and whether there is one. It counts as a use.
func (s *Store) Size(digest string) (int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.blobs[digest]
	if o == nil {
		return 0, false
	}
	o.used = time.Now()
	return o.size, true
}

// Used returns how many bytes all blobs have, with those that are being uploaded.
func (s *Store) Used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// Sweep deletes the blobs that were not used for the TTL, and returns how many.
func (s *Store) Sweep(ctx context.Context) (deleted int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.delete(ctx, s.unused(s.opts.TTL), s.used)
}

// unused returns the digests of blobs whose last use is at least age ago, the oldest first. The mutex is held.
func (s *Store) unused(age time.Duration) []string {
	var all []string
	end := time.Now().Add(-age)
	for digest, o := range s.blobs {
		if s.writing[digest] == 0 && !o.used.After(end) {
			all = append(all, digest)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return s.blobs[a].used.Compare(s.blobs[b].used) })
	return all
}

// delete deletes blobs until it has freed that many bytes. The mutex is held all the time, so that none is put meanwhile.
func (s *Store) delete(ctx context.Context, digests []string, free int64) (deleted int, err error) {
	for _, digest := range digests {
		if free <= 0 {
			break
		}
		if err := s.local.Delete(ctx, path(digest)); err != nil {
			return deleted, err
		}
		size := s.blobs[digest].size
		delete(s.blobs, digest)
		s.used -= size
		free -= size
		deleted++
	}
	return deleted, nil
}

// room deletes old blobs until n more bytes fit into the quota. The error is an [*Error] if they do not fit. The mutex is held.
func (s *Store) room(ctx context.Context, n int64) error {
	if s.used+n <= s.opts.Quota {
		return nil
	}
	missing := s.used + n - s.opts.Quota
	_, err := s.delete(ctx, s.unused(Young), missing)
	if s.used+n <= s.opts.Quota {
		return nil
	}
	if err != nil {
		return err
	}
	return refuse(wire.CodeNoSpace, "the store of blobs is full: it has %d bytes of %d", s.used, s.opts.Quota)
}

// failed logs an error of the disk, and returns what a peer may know of it. Other errors are returned as they are.
func (s *Store) failed(digest string, err error) error {
	if _, known := errors.AsType[*Error](err); known || errors.Is(err, ErrDigest) || errors.Is(err, errAborted) {
		return err
	}
	s.opts.Log.Warn("cannot store a blob", "sha256", digest, "err", err)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return refuse(wire.CodeNoSpace, "the disk is full")
	}
	return refuse(wire.CodeBusy, "the blob cannot be stored: see the leader's log")
}
