package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// ArtifactObject is where a handler leaves an artifact of a job in the worker's store.
func ArtifactObject(id jobs.ID, name string) string {
	return "results/" + string(id) + "/artifacts/" + name
}

// uploadArtifacts sends what a result names, each from where it was left. The control plane
// takes no result before it has them. A code is that of the failure to report instead.
func (a *Agent) uploadArtifacts(ctx context.Context, h *heldLease, list []wire.Artifact) (code string, err error) {
	if len(list) == 0 {
		return "", nil
	}
	plane, ok := a.Gateway.(FilePlane)
	if !ok {
		return failResultInvalid, errors.New("this control plane takes no artifacts")
	}
	lease := LeaseOf{Kind: h.Kind, Job: h.JobID, ID: h.LeaseID}
	for _, artifact := range list {
		if code, err := a.uploadOne(ctx, plane, h, Upload{lease, artifact}); err != nil {
			return code, err
		}
	}
	return "", nil
}

func (a *Agent) uploadOne(ctx context.Context, plane FilePlane, h *heldLease, u Upload) (code string, err error) {
	got, err := plane.Uploaded(ctx, u)
	if err != nil || got.Complete {
		return "", err
	}
	if got.Offset > 0 {
		a.Log.InfoContext(ctx, "going on with an artifact where it was left", "job", u.Job, "artifact", u.Name, "offset", got.Offset, "size", u.Size)
	}
	content, err := a.Store.Open(ctx, ArtifactObject(u.Job, u.Name))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return wire.FailResultMissing, fmt.Errorf("artifact %s is not in the worker's store any more: %w", u.Name, err)
	}
	if err != nil {
		return "", err
	}
	defer content.Close()
	if _, err := io.CopyN(io.Discard, content, got.Offset); err != nil {
		return changed(u, err)
	}
	buffer := make([]byte, min(wire.ChunkSize, max(u.Size, 1)))
	for !got.Complete {
		part := buffer[:min(int64(len(buffer)), u.Size-got.Offset)]
		if _, err := io.ReadFull(content, part); err != nil {
			return changed(u, err)
		}
		next, err := plane.Upload(ctx, u, got.Offset, part)
		e := (*Error)(nil)
		if errors.As(err, &e) && e.Code == wire.DigestMismatch {
			return a.mismatch(h, u, err)
		}
		if err != nil {
			return "", err
		}
		if !next.Complete && next.Offset != got.Offset+int64(len(part)) {
			return "", fmt.Errorf("send artifact %s of job %s: %w", u.Name, u.Job, errBadResponse("another offset"))
		}
		got = next
	}
	a.Log.DebugContext(ctx, "artifact delivered", "job", u.Job, "artifact", u.Name, "size", u.Size)
	return "", nil
}

// maxMismatches is how often an artifact is sent again that has arrived as something else.
const maxMismatches = 3

// mismatch decides what to do about an artifact that has arrived as something else: the part
// that was sent earlier may have been damaged, which the gateway has forgotten now, or the
// worker's own file.
func (a *Agent) mismatch(h *heldLease, u Upload, err error) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if h.mismatches++; h.mismatches >= maxMismatches {
		return failResultInvalid, fmt.Errorf("artifact %s is not what the result says: %w", u.Name, err)
	}
	return "", err
}

// changed is an error of reading an artifact, which may be shorter than the result says.
func changed(u Upload, err error) (string, error) {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return failResultInvalid, fmt.Errorf("artifact %s is shorter than the result says", u.Name)
	}
	return "", fmt.Errorf("read artifact %s: %w", u.Name, err)
}

// again reports whether an answer to an upload says nothing of the result: it is sent again.
func (e *Error) again() bool {
	return e.Code == wire.OffsetMismatch || e.Code == wire.Incomplete || e.Code == wire.DigestMismatch
}
