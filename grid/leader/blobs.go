package leader

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/batchfleet/batchfleet/grid/blob"
	"github.com/batchfleet/batchfleet/grid/schedule"
	"github.com/batchfleet/batchfleet/grid/wire"
)

// serveBlobs lets a peer put and get blobs, if both ends have the feature.
func (l *Leader) serveBlobs(p *peer) {
	if p.Has(wire.FeatureBlob) {
		p.blobs = blob.NewServer(l.Blobs, p.who(), p.Send)
	}
}

// blob processes a frame of a transfer. An error ends the connection.
func (l *Leader) blob(p *peer, f wire.Frame) error {
	if err := p.blobs.Handle(f); err != nil {
		return p.Refuse(wire.CodeProtocol, err)
	}
	return nil
}

// checkBlobs returns an error unless all blobs of a request are here. That counts as a use of them.
func (l *Leader) checkBlobs(blobs []wire.Blob) error {
	for i := range blobs {
		b := &blobs[i]
		if l.Blobs == nil {
			return errors.New("this leader keeps no blobs: give the content of the files")
		}
		if b.Ref != "" {
			return fmt.Errorf("blob %s is at %.80q, where no worker can get it: send it to this leader", b.SHA256, b.Ref)
		}
		size, ok := l.Blobs.Size(b.SHA256)
		switch {
		case !ok:
			return fmt.Errorf("this leader does not have blob %s: send it first", b.SHA256)
		case size != b.Size:
			return fmt.Errorf("blob %s has %d bytes, and the request says %d", b.SHA256, size, b.Size)
		}
	}
	return nil
}

// digests returns the SHA-256 of blobs that were checked, as the state keeps them.
func digests(blobs []wire.Blob) (all []byte) {
	for i := range blobs {
		digest, _ := hex.DecodeString(blobs[i].SHA256) // the store has it
		all = append(all, digest...)
	}
	return all
}

// useBlobs counts that blobs are used which jobs need.
func (l *Leader) useBlobs(needed [][32]byte) {
	for i := range needed {
		l.Blobs.Size(hex.EncodeToString(needed[i][:]))
	}
}

// sweepEvery is how often old blobs are deleted. Before that, those that jobs need are used: so often that the store deletes
// none of them for others.
const sweepEvery = blob.Young / 2

// sweepBlobs deletes old blobs regularly, until ctx ends.
func (l *Leader) sweepBlobs(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		var needed [][32]byte
		if l.Do(ctx, func(c *schedule.Core) { needed = c.Blobs() }) != nil {
			return
		}
		l.useBlobs(needed)
		switch n, err := l.Blobs.Sweep(ctx); {
		case err != nil && ctx.Err() == nil:
			l.Log.ErrorContext(ctx, "cannot delete old blobs", "err", err)
		case n > 0:
			l.Log.InfoContext(ctx, "deleted old blobs", "blobs", n)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
