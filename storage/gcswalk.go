package storage

import (
	"context"
	"errors"
	"time"

	"cloud.google.com/go/storage"
	"google.golang.org/api/iterator"
)

// Walk implements [Store]. It lists the own bucket, in the order of the names, a
// thousand a call.
func (g *GCS) Walk(ctx context.Context, prefix string, visit Visit) error {
	if err := validPrefix(prefix); err != nil {
		return err
	}
	query := &storage.Query{Prefix: prefix}
	if err := query.SetAttrSelection([]string{"Name", "Size", "Updated"}); err != nil {
		return err // a mistake in the names above
	}
	// The walk may take hours, so each call is canceled after a silence instead.
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
		case nameProblem(attrs.Name) != "":
			continue // not put by us: a name that the console made for a folder
		}
		if err := visit(attrs.Name, Info{Size: attrs.Size, Modified: attrs.Updated}, nil); err != nil {
			return err
		}
	}
}
