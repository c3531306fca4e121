package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// checkpointObject is the object of a checkpoint. Another content is another object, so that one that is being read stays as
// it is.
func checkpointObject(id jobs.ID, sum string) string {
	return checkpointsPrefix + string(id) + "/" + sum
}

var errNoCheckpoint = &gateway.Error{Status: 404, Code: wire.CheckpointNotFound, Message: "No checkpoint of the job is kept here"}

// checkpoint sends a worker the checkpoint of its job.
func (c *Control) checkpoint(w http.ResponseWriter, r *http.Request, from call) error {
	a, err := c.Queue.Checkpoint(r.Context(), from.job)
	if err != nil {
		return err
	}
	if a.Size == 0 {
		return errNoCheckpoint
	}
	return c.send(w, r, file{object: checkpointObject(from.job, a.SHA256), sum: a.SHA256, media: "application/octet-stream", size: a.Size, missing: errNoCheckpoint})
}

// putCheckpoint takes a checkpoint in place of an earlier one.
func (c *Control) putCheckpoint(w http.ResponseWriter, r *http.Request, from call) error {
	a := queue.Artifact{Size: r.ContentLength, SHA256: strings.ToLower(r.Header.Get(wire.HeaderSHA256))}
	if a.Size < 0 {
		return badHeader("Content-Length", "it must be there")
	}
	k, _ := c.kinds().of(from.Kind)
	if err := checkCheckpoint(k, a); err != nil {
		return err
	}
	content := newSummed(stream(w, r, a.Size), a.SHA256)
	err := c.Files.keepCheckpoint(r.Context(), c.Queue, c.Log, from, a, content)
	if content.failed != nil {
		return broken(content.failed)
	}
	if err != nil {
		return err
	}
	return write(w, wire.UploadResponse{Offset: a.Size, Complete: true})
}

// checkCheckpoint returns what is wrong with size and SHA-256 of a checkpoint of a kind.
func checkCheckpoint(k Kind, a queue.Artifact) error {
	// Beside the files it has their names: package custom bounds what it reads in the same way.
	if most := 2*k.MaxCheckpoint + 1<<20; k.MaxCheckpoint == 0 || a.Size > most {
		return &gateway.Error{
			Status: http.StatusRequestEntityTooLarge, Code: wire.PayloadTooLarge, Message: fmt.Sprintf("Checkpoint larger than what checkpoint_max of its kind allows, %d bytes", k.MaxCheckpoint),
		}
	}
	if !validSum(a.SHA256) {
		return badHeader(wire.HeaderSHA256, "want the SHA-256 of the checkpoint, 64 hexadecimal digits")
	}
	return nil
}

// keepCheckpoint puts a checkpoint into the storage, records it, and deletes the one before. An empty one is none.
func (f *Files) keepCheckpoint(ctx context.Context, q *queue.Queue, log *slog.Logger, from call, a queue.Artifact, content io.Reader) error {
	before, err := q.Checkpoint(ctx, from.job)
	if err != nil {
		return err
	}
	if a.Size > 0 {
		if err := f.Store.Put(ctx, checkpointObject(from.job, a.SHA256), content); err != nil {
			return fmt.Errorf("store checkpoint of job %s: %w", from.job, err)
		}
	}
	if err := q.SetCheckpoint(ctx, from.Caller, from.job, from.lease, a); err != nil {
		return err
	}
	if before.SHA256 != "" && before.SHA256 != a.SHA256 {
		if err := f.Store.Delete(ctx, checkpointObject(from.job, before.SHA256)); err != nil { // the next round of the cleaner will
			log.WarnContext(ctx, "cannot delete an earlier checkpoint", "job", from.job, "err", err)
		}
	}
	return nil
}

// Checkpoint implements [gateway.FilePlane].
func (d *Direct) Checkpoint(ctx context.Context, l gateway.LeaseOf, at int64) (content io.ReadCloser, sum string, err error) {
	from, err := d.hold(ctx, l)
	if err != nil {
		return nil, "", err
	}
	a, err := d.Queue.Checkpoint(ctx, from.job)
	if err == nil && a.Size == 0 {
		err = errNoCheckpoint
	}
	if err != nil {
		return nil, "", outward(err)
	}
	content, err = d.read(ctx, checkpointObject(from.job, a.SHA256), at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", errNoCheckpoint
	}
	return content, a.SHA256, err
}

// PutCheckpoint implements [gateway.FilePlane].
func (d *Direct) PutCheckpoint(ctx context.Context, l gateway.LeaseOf, one wire.Artifact, content io.Reader) error {
	a := queue.Artifact(one)
	from, err := d.hold(ctx, l)
	if err != nil {
		return err
	}
	var k Kind
	if d.Kinds != nil {
		k, _ = kindSet{now: d.Kinds()}.of(l.Kind)
	}
	if err := checkCheckpoint(k, a); err != nil {
		return err
	}
	return outward(d.Files.keepCheckpoint(ctx, d.Queue, d.Log, from, a, newSummed(content, a.SHA256)))
}
