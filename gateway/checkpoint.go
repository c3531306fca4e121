package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
)

// HandlerStore is the worker's store for the handlers of a.Kinds. The checkpoint of a job, which a handler has in
// results/JOB/checkpoint.tar, is the gateway's: it is sent when it is put, and fetched when it is opened, so that the job goes
// on with it on another worker. Of a gateway without checkpoints a job has none.
func (a *Agent) HandlerStore() storage.Store { return checkpoints{a.Store, a} }

type checkpoints struct {
	storage.Store

	agent *Agent
}

// checkpointOf returns the job whose checkpoint an object is, empty for another object.
func checkpointOf(object string) jobs.ID {
	id, result := strings.CutPrefix(object, "results/")
	id, archive := strings.CutSuffix(id, "/checkpoint.tar")
	if !result || !archive || strings.Contains(id, "/") {
		return ""
	}
	return jobs.ID(id)
}

// Put implements [storage.Store].
func (c checkpoints) Put(ctx context.Context, object string, r io.Reader) error {
	id := checkpointOf(object)
	if id == "" {
		return c.Store.Put(ctx, object, r)
	}
	sum := sha256.New()
	if err := c.Store.Put(ctx, object, io.TeeReader(r, sum)); err != nil {
		return err
	}
	info, err := c.Stat(ctx, object)
	if err != nil {
		return err
	}
	content, err := c.Store.Open(ctx, object)
	if err != nil {
		return err
	}
	defer content.Close()
	return c.send(ctx, id, wire.Artifact{Size: info.Size, SHA256: hex.EncodeToString(sum.Sum(nil))}, content)
}

// send sends a checkpoint to the gateway, unless that keeps none.
func (c checkpoints) send(ctx context.Context, id jobs.ID, a wire.Artifact, content io.Reader) error {
	plane, lease, err := c.lease(id)
	if plane == nil {
		return err
	}
	if err = plane.PutCheckpoint(ctx, lease, a, content); isCode(err, wire.NotFound) {
		return nil // it is of an older version
	}
	return err
}

// lease returns the lease under which a job runs. Without a plane there are no checkpoints.
func (c checkpoints) lease(id jobs.ID) (FilePlane, LeaseOf, error) {
	plane, _ := c.agent.Gateway.(FilePlane)
	h := c.agent.running(id)
	if h == nil {
		return nil, LeaseOf{}, fmt.Errorf("checkpoint of job %s: %w", id, jobs.ErrLeaseLost)
	}
	return plane, LeaseOf{Kind: h.Kind, Job: h.JobID, ID: h.LeaseID}, nil
}

// Open implements [storage.Store].
func (c checkpoints) Open(ctx context.Context, object string) (io.ReadCloser, error) {
	id := checkpointOf(object)
	if id == "" {
		return c.Store.Open(ctx, object)
	}
	plane, lease, err := c.lease(id)
	if err == nil && plane == nil {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	in := inputReader{ctx: ctx, what: "the checkpoint", report: func(jobs.Progress) {}}
	in.open = func(ctx context.Context, from int64) (io.ReadCloser, string, error) {
		content, sum, err := plane.Checkpoint(ctx, lease, from)
		if isCode(err, wire.NotFound) { // an older version has no such route
			err = &Error{Status: http.StatusNotFound, Code: wire.CheckpointNotFound, Message: "it keeps no checkpoints"}
		}
		return content, sum, err
	}
	err = in.into(c.Store, object)
	if isCode(err, wire.CheckpointNotFound) {
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	if err != nil {
		return nil, err
	}
	return c.Store.Open(ctx, object)
}

// Delete implements [storage.Store].
func (c checkpoints) Delete(ctx context.Context, object string) error {
	id := checkpointOf(object)
	if id == "" {
		return c.Store.Delete(ctx, object)
	}
	// What was neither put nor opened here need not be deleted in the gateway: that does it when the job has ended.
	_, err := c.Stat(ctx, object)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err = errors.Join(err, c.Store.Delete(ctx, object)); err != nil || c.agent.running(id) == nil {
		return err
	}
	none := sha256.Sum256(nil)
	return c.send(ctx, id, wire.Artifact{SHA256: hex.EncodeToString(none[:])}, bytes.NewReader(nil))
}

// RemoveUnfinished is that of the worker's store, if it has one, of a job that was here before.
func (c checkpoints) RemoveUnfinished(ctx context.Context, dir string) error {
	id, _, _ := strings.Cut(strings.TrimPrefix(dir, "results/"), "/")
	if c.agent.isNew(jobs.ID(id)) {
		return nil
	}
	if s, ok := c.Store.(interface {
		RemoveUnfinished(ctx context.Context, dir string) error
	}); ok {
		return s.RemoveUnfinished(ctx, dir)
	}
	return nil
}

func isCode(err error, code wire.Code) bool {
	e := (*Error)(nil)
	return errors.As(err, &e) && e.Code == code
}
