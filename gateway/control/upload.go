package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

// leased makes a handler of a worker's request that has its lease in a header and is not JSON:
// the token, the job and the lease are checked before anything else is.
func (c *Control) leased(h func(w http.ResponseWriter, r *http.Request, from call) error) httpd.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		token, err := httpd.Bearer(r)
		if err != nil {
			return err
		}
		from := call{Caller: queue.Caller{TokenHash: queue.HashToken(token), Claimed: claimed(r, ""), Kind: plainKind(kindOf(r))}}
		from.job, err = parseID(r.PathValue("id"))
		if err == nil {
			from.lease, err = leaseOf(r, "")
		}
		if err != nil {
			if _, denied := c.Queue.Authorize(r.Context(), from.Caller); denied != nil {
				return denied
			}
			return err
		}
		if err := c.Queue.Holds(r.Context(), from.Caller, from.job, from.lease); err != nil {
			return err
		}
		if c.Files == nil {
			return errNoFiles
		}
		return h(w, r, from)
	}
}

// upload is what a request says of the artifact, a part of which it brings.
type upload struct {
	queue.Artifact
	from, to int64 // what it brings; from is -1 if it brings all of it
}

// nameUpload reads which artifact a request is about.
func nameUpload(r *http.Request) (u upload, err error) {
	u.Name, u.SHA256 = r.PathValue("name"), strings.ToLower(r.Header.Get(wire.HeaderSHA256))
	return u, checkUpload(u.Artifact)
}

// checkUpload returns what is wrong with name and SHA-256 of an artifact.
func checkUpload(a queue.Artifact) error {
	if !artifactName().MatchString(a.Name) || a.Name == resultName {
		return invalid("name", "an artifact's name has letters, digits, '.', '_' and '-', no '.' or '-' first, at most 128 bytes, and is not result.json")
	}
	if !validSum(a.SHA256) {
		return badHeader(wire.HeaderSHA256, "want the SHA-256 of the whole artifact, 64 hexadecimal digits")
	}
	return nil
}

// parseUpload reads which part of an artifact a request brings.
func (c *Control) parseUpload(r *http.Request) (u upload, err error) {
	if u, err = nameUpload(r); err != nil {
		return u, err
	}
	if r.ContentLength < 0 {
		return u, badHeader("Content-Length", "it must be there")
	}
	u.from, u.to, u.Size = -1, r.ContentLength, r.ContentLength
	if text := r.Header.Get("Content-Range"); text != "" {
		n, err := fmt.Sscanf(text, "bytes %d-%d/%d", &u.from, &u.to, &u.Size)
		if n != 3 || err != nil || text != fmt.Sprintf("bytes %d-%d/%d", u.from, u.to, u.Size) || u.from < 0 || u.to < u.from || u.to >= u.Size {
			return u, badHeader("Content-Range", "want bytes FIRST-LAST/TOTAL")
		}
		if u.to++; u.to-u.from != r.ContentLength {
			return u, badHeader("Content-Range", "it does not go with Content-Length")
		}
	}
	return u, c.Files.checkSize(u.Size)
}

// checkSize refuses artifacts that are too large.
func (f *Files) checkSize(size int64) error {
	if size > f.MaxArtifact {
		return &gateway.Error{
			Status: http.StatusRequestEntityTooLarge, Code: wire.PayloadTooLarge, Message: "Artifact larger than " + strconv.FormatInt(f.MaxArtifact, 10) + " bytes",
		}
	}
	return nil
}

func badHeader(name, problem string) error {
	return &gateway.Error{Status: http.StatusBadRequest, Code: wire.InvalidPayload, Message: "Invalid header " + name + ": " + problem}
}

// uploaded says how much of an artifact has arrived.
func (c *Control) uploaded(w http.ResponseWriter, r *http.Request, from call) error {
	u, err := nameUpload(r)
	if err != nil {
		return err
	}
	u.Size, err = strconv.ParseInt(r.URL.Query().Get("size"), 10, 64)
	if err != nil {
		return &gateway.Error{Status: 400, Code: wire.InvalidPayload, Message: "Invalid query size: want that of the whole artifact"}
	}
	done, err := c.Queue.HasArtifact(r.Context(), from.job, from.lease, u.Artifact)
	if err != nil {
		return err
	}
	if done {
		return write(w, wire.UploadResponse{Offset: u.Size, Complete: true})
	}
	have, err := c.Files.Spool.have(from.job, from.lease, u.Name, u.SHA256)
	if err != nil {
		return err
	}
	return write(w, wire.UploadResponse{Offset: have})
}

// storeTime returns how long an artifact may take into the storage.
func storeTime(size int64) time.Duration {
	return 2*time.Minute + time.Duration(size>>20)*time.Second
}

// putArtifact takes a part of an artifact, and stores it when it is whole. What has arrived is
// kept also if the rest does not.
func (c *Control) putArtifact(w http.ResponseWriter, r *http.Request, from call) error {
	u, err := c.parseUpload(r)
	if err != nil {
		return err
	}
	done, err := c.Queue.HasArtifact(r.Context(), from.job, from.lease, u.Artifact)
	if err != nil {
		return err
	}
	if done {
		return write(w, wire.UploadResponse{Offset: u.Size, Complete: true})
	}
	p, err := c.Files.Spool.open(from.job, from.lease, u.Name, u.SHA256)
	if err != nil {
		return err
	}
	defer func() { _ = p.release() }() // what was written counts, and its sum is checked
	if err := p.take(stream(w, r, r.ContentLength), u.from); err != nil {
		return err
	}
	if p.have < u.Size {
		return write(w, wire.UploadResponse{Offset: p.have})
	}
	// What has arrived whole is stored even if the worker does not wait for the answer.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(storeTime(u.Size) + answerTime))
	if err := c.Files.keep(context.WithoutCancel(r.Context()), c.Queue, c.Log, from, u.Artifact, p); err != nil {
		return err
	}
	return write(w, wire.UploadResponse{Offset: u.Size, Complete: true})
}

// take adds content that begins at a byte, or replaces all there is if that is -1.
func (p *part) take(content io.Reader, at int64) error {
	switch {
	case at < 0:
		if err := p.restart(); err != nil {
			return err
		}
	case at != p.have:
		return &offsetError{p.have}
	}
	from := &summed{Reader: content, hash: noHash{}}
	n, err := io.Copy(p.File, from)
	p.have += n
	switch {
	case from.failed != nil:
		return broken(from.failed)
	case err != nil:
		return unwritable(err)
	}
	return nil
}

// keep puts an artifact that has arrived whole into the storage, and records it.
func (f *Files) keep(ctx context.Context, q *queue.Queue, log *slog.Logger, from call, a queue.Artifact, p *part) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime(a.Size))
	defer cancel()
	if _, err := p.Seek(0, io.SeekStart); err != nil {
		return unwritable(err)
	}
	err := f.Store.Put(ctx, artifactObject(from.job, from.lease, a.Name), newSummed(p.File, a.SHA256))
	if errors.Is(err, errDigest) {
		return errors.Join(errDigest, p.restart())
	}
	if err != nil {
		return fmt.Errorf("store artifact %s of job %s: %w", a.Name, from.job, err)
	}
	if err := q.AddArtifact(ctx, from.Caller, from.job, from.lease, a); err != nil {
		return err
	}
	if err := p.remove(); err != nil { // the sweep will
		log.WarnContext(ctx, "cannot delete a part of an artifact that is stored", "job", from.job, "err", err)
	}
	return nil
}

// broken is an error of a body that did not come to its end.
func broken(err error) error {
	message := "The body ended early"
	if errors.Is(err, os.ErrDeadlineExceeded) {
		message = "The body did not arrive in time"
	}
	return &gateway.Error{Status: http.StatusRequestTimeout, Code: wire.RequestTimeout, Message: message}
}

// noHash is for a reader whose content is not summed.
type noHash struct{}

func (noHash) Write(p []byte) (int, error) { return len(p), nil }
func (noHash) Sum(b []byte) []byte         { return b }
func (noHash) Reset()                      {}
func (noHash) Size() int                   { return 0 }
func (noHash) BlockSize() int              { return 1 }

// offsetError is for a part of an artifact that is not the next.
type offsetError struct{ have int64 }

func (e *offsetError) Error() string { return fmt.Sprintf("the next part begins at %d", e.have) }

// Unwrap returns what the caller is told.
func (e *offsetError) Unwrap() error {
	return &gateway.Error{Status: http.StatusConflict, Code: wire.OffsetMismatch, Message: "The next part of this artifact begins at " + strconv.FormatInt(e.have, 10)}
}

// artifacts lists what a job that has finished has made.
func (c *Control) artifacts(ctx context.Context, w http.ResponseWriter, _ *http.Request, id jobs.ID) error {
	list, _, err := c.Queue.Artifacts(ctx, id)
	if err != nil {
		return err
	}
	a := wire.ArtifactsResponse{Artifacts: []wire.Artifact{}}
	for _, one := range list {
		a.Artifacts = append(a.Artifacts, wire.Artifact(one))
	}
	return write(w, a)
}

// errNoArtifact is for a name that the list does not have, or an object that is gone.
var errNoArtifact = &gateway.Error{Status: 404, Code: wire.ArtifactNotFound, Message: "The job has no such artifact"}

// artifact sends one.
func (c *Control) artifact(w http.ResponseWriter, r *http.Request) error {
	id, err := parseID(r.PathValue("id"))
	if err != nil {
		return err
	}
	f, err := c.findArtifact(r, id)
	if err != nil {
		return err
	}
	return c.send(w, r, f)
}

func (c *Control) findArtifact(r *http.Request, id jobs.ID) (file, error) {
	ctx, cancel := c.deadline(r.Context())
	defer cancel()
	if err := c.isOfKind(ctx, r, id); err != nil {
		return file{}, err
	}
	list, lease, err := c.Queue.Artifacts(ctx, id)
	if err != nil {
		return file{}, err
	}
	name := r.PathValue("name")
	for _, a := range list {
		if a.Name == name && c.Files != nil {
			return file{
				object: artifactObject(id, lease, name), sum: a.SHA256, media: cmp.Or(a.Type, "application/octet-stream"), size: a.Size, name: name, missing: errNoArtifact,
			}, nil
		}
	}
	return file{}, errNoArtifact
}
