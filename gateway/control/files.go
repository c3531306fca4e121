package control

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
)

// Files are where a gateway keeps the inputs and the artifacts of jobs, of all kinds but zpe.
type Files struct {
	Store storage.Store
	// Spool is a directory for parts of artifacts, until these have arrived whole.
	Spool *Spool
	// MaxArtifact and MaxInput bound one of each, in bytes.
	MaxArtifact, MaxInput int64
}

// What is in the store. The prefix keeps it apart from what a fleet has there.
const (
	filesPrefix       = "gateway/"
	uploadsPrefix     = filesPrefix + "uploads/"
	artifactsPrefix   = filesPrefix + "artifacts/"
	checkpointsPrefix = filesPrefix + "checkpoints/"
)

// artifactObject is the object of an artifact: each attempt has a place of its own, so that
// nothing of one that was abandoned is ever read.
func artifactObject(id jobs.ID, lease, name string) string {
	return artifactsPrefix + string(id) + "/" + leaseDir(lease) + "/" + name
}

// leaseDir names the directory of an attempt. A lease id may hold anything.
func leaseDir(lease string) string {
	sum := sha256.Sum256([]byte(lease))
	return hex.EncodeToString(sum[:16])
}

var errNoFiles = &gateway.Error{Status: 503, Code: wire.StorageDisabled, Message: "This gateway has no storage for inputs and artifacts"}

// artifactName is the form of an artifact's name: one that can be saved as it stands.
var artifactName = jobs.Form(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)

// resultName is what people's programs see the result as, beside the artifacts.
const resultName = "result.json"

// validSum reports whether s is a SHA-256 in hex.
func validSum(s string) bool { return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == "" }

// errDigest is for content that is not what it was said to be.
var errDigest = &gateway.Error{
	Status: 422, Code: wire.DigestMismatch, Message: "What has arrived does not have the SHA-256 that " + wire.HeaderSHA256 + " says; send all of it again",
}

// summed is a reader that ends with errDigest if what it has read is something else.
type summed struct {
	io.Reader
	hash   hash.Hash
	n      int64
	want   string // in hex; empty for anything
	failed error  // of the reader
}

func newSummed(r io.Reader, want string) *summed {
	return &summed{Reader: r, hash: sha256.New(), want: want}
}

func (s *summed) sum() string { return hex.EncodeToString(s.hash.Sum(nil)) }

func (s *summed) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.hash.Write(p[:n])
	s.n += int64(n)
	switch {
	case err == nil:
	case !errors.Is(err, io.EOF):
		s.failed = err
	case s.want != "" && s.sum() != s.want:
		err = errDigest
	}
	return n, err
}

// stream returns the body of a request that may be large and is not kept in memory. It
// must come as fast as other large bodies, but has no place among these.
func stream(w http.ResponseWriter, r *http.Request, size int64) io.Reader {
	return &body{
		ReadCloser: http.MaxBytesReader(w, r.Body, size), size: size, conn: http.NewResponseController(w),
		authorize: func() error { return nil }, // it was
	}
}

// sendPace is how long the next part of a file may take to be sent.
const sendPace = time.Minute

// file is one in the store that is sent to a caller.
type file struct {
	object, sum, media string
	size               int64
	name               string // to be saved under; empty for none
	missing            error  // if it is not in the store
}

// OpenArtifact opens an artifact that was made under a lease, as [storage.OpenSeeker] does. The error wraps [fs.ErrNotExist]
// when there is none.
func (f *Files) OpenArtifact(ctx context.Context, id jobs.ID, lease, name string) (io.ReadCloser, error) {
	return storage.OpenSeeker(ctx, f.Store, artifactObject(id, lease, name))
}

// send sends a file, or the part of it that the request asks for.
func (c *Control) send(w http.ResponseWriter, r *http.Request, f file) error {
	from, to, err := rangeOf(r, f.size, f.sum)
	if err != nil {
		return err
	}
	content, err := c.Files.Store.Open(r.Context(), f.object)
	if errors.Is(err, fs.ErrNotExist) {
		return f.missing
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", f.object, err)
	}
	defer content.Close()
	h := w.Header()
	h.Set("Content-Type", f.media)
	if f.name != "" {
		h.Set("Content-Disposition", `attachment; filename="`+f.name+`"`)
	}
	h.Set("Accept-Ranges", "bytes")
	h.Set("ETag", `"`+f.sum+`"`)
	h.Set(wire.HeaderSHA256, f.sum)
	h.Set("Content-Length", strconv.FormatInt(to-from, 10))
	status := http.StatusOK
	if to-from < f.size {
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, f.size))
		status = http.StatusPartialContent
	}
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return nil
	}
	return c.copyOut(r.Context(), w, content, from, to)
}

// copyOut copies the bytes from one place to another to a caller, who must take each part
// within sendPace.
func (c *Control) copyOut(ctx context.Context, w http.ResponseWriter, content io.Reader, from, to int64) error {
	control := http.NewResponseController(w)
	part := make([]byte, 128<<10)
	for at := int64(0); at < to; {
		_ = control.SetWriteDeadline(time.Now().Add(sendPace)) // a server that cannot do this has its own times
		n, err := content.Read(part[:min(int64(len(part)), to-at)])
		if skip := min(max(0, from-at), int64(n)); skip < int64(n) {
			if _, err := w.Write(part[skip:n]); err != nil {
				return nil //nolint:nilerr // the caller has gone and needs no answer
			}
		}
		at += int64(n)
		if err != nil && at < to {
			// The status is sent. A body that is shorter than it should be is what tells.
			c.Log.WarnContext(ctx, "cannot send a file to its end", "err", err)
			panic(http.ErrAbortHandler)
		}
	}
	return nil
}

// rangeOf returns which bytes of a file a request asks for: all of it, unless there is one
// range.
func rangeOf(r *http.Request, size int64, sum string) (from, to int64, err error) {
	spec, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes=")
	if tag := r.Header.Get("If-Range"); !ok || strings.Contains(spec, ",") || tag != "" && tag != `"`+sum+`"` {
		return 0, size, nil // as RFC 9110 allows
	}
	first, last, ok := strings.Cut(spec, "-")
	a, err1 := strconv.ParseUint(first, 10, 62)
	b, err2 := strconv.ParseUint(last, 10, 62)
	switch {
	case !ok, first == "" && err2 != nil, first != "" && err1 != nil, last != "" && err2 != nil, first != "" && last != "" && b < a:
		return 0, size, nil //nolint:nilerr // it is no range at all
	case first == "":
		from, to = max(0, size-int64(b)), size //nolint:gosec // 62 bits
	case last == "":
		from, to = int64(a), size //nolint:gosec // 62 bits
	default:
		from, to = int64(a), min(size, int64(b)+1) //nolint:gosec // 62 bits
	}
	if from >= size {
		return 0, 0, &gateway.Error{Status: http.StatusRequestedRangeNotSatisfiable, Code: wire.RangeNotSatisfied, Message: fmt.Sprintf("It has %d bytes", size)}
	}
	return from, to, nil
}
