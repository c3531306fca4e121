package s3

import (
	"context"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/batchfleet/batchfleet/storage"
)

// Walk implements [storage.Store]. It lists the own bucket, in the order of the names, a
// thousand a call.
func (s *Store) Walk(ctx context.Context, prefix string, visit storage.Visit) error {
	if err := storage.ValidPrefix(prefix); err != nil {
		return err
	}
	// The walk may take hours, so the timeout is for each call.
	listing, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(s.timeout, cancel)
	defer silence.Stop()
	for object := range s.core.ListObjectsIter(listing, s.bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true, FetchOwner: new(false)}) {
		silence.Stop()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case object.Err != nil:
			return fail(ctx, "walk", prefix, object.Err)
		}
		if storage.ValidName(object.Key) == nil { // another was not put by us, such as a name that a console made for a folder
			// An answer about one object has whole seconds; both are to say the same.
			info := storage.Info{Size: object.Size, Modified: object.LastModified.Truncate(time.Second)}
			if err := visit(object.Key, info, nil); err != nil {
				return err
			}
		}
		silence.Reset(s.timeout)
	}
	// A listing whose context has ended just ends.
	if listing.Err() != nil {
		return fail(ctx, "walk", prefix, context.Cause(listing))
	}
	return nil
}
