package gcs

import (
	"context"
	"errors"
	"time"

	gcs "cloud.google.com/go/storage"
	"google.golang.org/api/iterator"

	"github.com/batchfleet/batchfleet/storage"
)

// Walk implements [storage.Store]. It lists the own bucket, in the order of the names, a
// thousand a call.
func (g *Store) Walk(ctx context.Context, prefix string, visit storage.Visit) error {
	if err := storage.ValidPrefix(prefix); err != nil {
		return err
	}
	query := &gcs.Query{Prefix: prefix}
	if err := query.SetAttrSelection([]string{"Name", "Size", "Updated"}); err != nil {
		return err // a mistake in the names above
	}
	// The walk may take hours, so the timeout is for each call.
	listing, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(g.timeout, cancel)
	defer silence.Stop()
	for objects := g.client.Bucket(g.bucket).Objects(listing, query); ; {
		silence.Reset(g.timeout)
		attrs, err := objects.Next()
		silence.Stop()
		switch {
		case errors.Is(err, iterator.Done):
			return nil
		case err != nil:
			return fail(ctx, "walk", prefix, err)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case storage.ValidName(attrs.Name) != nil:
			continue // not put by us: a name that the console made for a folder
		}
		if err := visit(attrs.Name, storage.Info{Size: attrs.Size, Modified: attrs.Updated}, nil); err != nil {
			return err
		}
	}
}
