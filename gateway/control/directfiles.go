package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
)

var _ gateway.FilePlane = (*Direct)(nil)

// hold checks that d has files, and holds the lease.
func (d *Direct) hold(ctx context.Context, l gateway.LeaseOf) (call, error) {
	from := call{Caller: d.caller("", string(plainKind(l.Kind))), lease: l.ID}
	if d.Files == nil {
		return from, errNoFiles
	}
	var err error
	if from.job, err = parseReport(string(l.Job), l.ID); err == nil {
		err = d.Queue.Holds(ctx, from.Caller, from.job, from.lease)
	}
	return from, outward(err)
}

// holdUpload is hold for an artifact. It also returns whether that is stored already.
func (d *Direct) holdUpload(ctx context.Context, u gateway.Upload) (from call, a queue.Artifact, done bool, err error) {
	a = queue.Artifact(u.Artifact)
	if from, err = d.hold(ctx, u.LeaseOf); err != nil {
		return from, a, false, err
	}
	if err = errors.Join(checkUpload(a), d.Files.checkSize(a.Size)); err == nil {
		done, err = d.Queue.HasArtifact(ctx, from.job, from.lease, a)
	}
	return from, a, done, outward(err)
}

// Uploaded implements [gateway.FilePlane].
func (d *Direct) Uploaded(ctx context.Context, u gateway.Upload) (wire.UploadResponse, error) {
	from, a, done, err := d.holdUpload(ctx, u)
	if err != nil || done {
		return wire.UploadResponse{Offset: a.Size, Complete: done}, err
	}
	have, err := d.Files.Spool.have(from.job, from.lease, a.Name, a.SHA256)
	return wire.UploadResponse{Offset: have}, outward(err)
}

// Upload implements [gateway.FilePlane].
func (d *Direct) Upload(ctx context.Context, u gateway.Upload, at int64, content []byte) (wire.UploadResponse, error) {
	from, a, done, err := d.holdUpload(ctx, u)
	if err != nil || done {
		return wire.UploadResponse{Offset: a.Size, Complete: done}, err
	}
	p, err := d.Files.Spool.open(from.job, from.lease, a.Name, a.SHA256)
	if err != nil {
		return wire.UploadResponse{}, outward(err)
	}
	defer func() { _ = p.release() }() // what was written counts, and its sum is checked
	if at+int64(len(content)) > a.Size {
		return wire.UploadResponse{}, invalid("offset", "an artifact of %d bytes has none from %d to %d", a.Size, at, at+int64(len(content)))
	}
	if err := p.take(bytes.NewReader(content), at); err != nil {
		return wire.UploadResponse{}, outward(err)
	}
	if p.have < a.Size {
		return wire.UploadResponse{Offset: p.have}, nil
	}
	if err := d.Files.keep(ctx, d.Queue, d.Log, from, a, p); err != nil {
		return wire.UploadResponse{}, outward(err)
	}
	return wire.UploadResponse{Offset: a.Size, Complete: true}, nil
}

// Input implements [gateway.FilePlane].
func (d *Direct) Input(ctx context.Context, l gateway.LeaseOf, number int, at int64) (content io.ReadCloser, sum string, err error) {
	from, err := d.hold(ctx, l)
	if err != nil {
		return nil, "", err
	}
	u, err := inputOf(ctx, d.Queue, from.job, number)
	if err != nil {
		return nil, "", outward(err)
	}
	content, err = d.read(ctx, uploadsPrefix+u.Name, at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", errNoInput
	}
	return content, u.SHA256, err
}

// read opens an object at an offset.
func (d *Direct) read(ctx context.Context, object string, at int64) (io.ReadCloser, error) {
	content, err := d.Files.Store.Open(ctx, object)
	if err != nil {
		return nil, err // which names it
	}
	if _, err := io.CopyN(io.Discard, content, at); err != nil {
		return nil, errors.Join(fmt.Errorf("read %s from byte %d: %w", object, at, err), content.Close())
	}
	return content, nil
}
