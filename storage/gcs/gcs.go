// Package gcs keeps objects in a Cloud Storage bucket. It is the only package that links
// the client of Cloud Storage.
package gcs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	gcs "cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/storage/internal/transfer"
)

// Store is a [storage.Store] in a Cloud Storage bucket. Its account needs the role
// roles/storage.objectUser on the bucket: with less, Cloud Storage answers
// "forbidden" where it means "not found".
type Store struct {
	client   *gcs.Client
	bucket   string
	readable []string
	// timeout bounds a call that transfers no content, and the time between two
	// pieces of content. The client library itself retries without end.
	timeout time.Duration
}

// New returns the store in bucket. Open and Stat also take names of the form
// gs://other/name, if other is bucket or one of readable. The caller closes the
// client when the store is no longer used.
func New(client *gcs.Client, bucket string, readable ...string) *Store {
	return &Store{client: client, bucket: bucket, readable: readable, timeout: 30 * time.Second}
}

var _ storage.Ranger = (*Store)(nil)

// Open implements [storage.Store]. Names may begin with gs://bucket/, see [New].
func (g *Store) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	return g.OpenAt(ctx, name, 0)
}

// OpenAt implements [storage.Ranger].
func (g *Store) OpenAt(ctx context.Context, name string, offset int64) (io.ReadCloser, error) {
	object, err := g.object(name)
	if err != nil {
		return nil, err
	}
	// The context covers the transfer of the content, so it has no deadline. It is
	// canceled when no content comes for timeout.
	readCtx, cancel := context.WithCancel(ctx)
	silence := time.AfterFunc(g.timeout, cancel)
	r, err := object.NewRangeReader(readCtx, offset, -1)
	silence.Stop()
	if err != nil {
		cancel()
		if errors.Is(err, gcs.ErrObjectNotExist) {
			// The error of a download does not tell a missing bucket from a missing
			// document.
			if _, statErr := g.Stat(ctx, name); statErr != nil {
				return nil, statErr
			}
		}
		return nil, fail(ctx, "open", name, err)
	}
	return transfer.NewBody(ctx, name, &download{r: r, silence: silence, timeout: g.timeout, cancel: cancel}), nil
}

// download is the content of an object on its way. A Read that waits longer than
// timeout fails.
type download struct {
	r       *gcs.Reader
	silence *time.Timer
	timeout time.Duration
	cancel  context.CancelFunc
}

func (d *download) Read(p []byte) (int, error) {
	d.silence.Reset(d.timeout)
	defer d.silence.Stop()
	return d.r.Read(p)
}

func (d *download) Close() error {
	d.cancel()
	return d.r.Close()
}

// Stat implements [storage.Store]. Names may begin with gs://bucket/, see [New].
func (g *Store) Stat(ctx context.Context, name string) (storage.Info, error) {
	object, err := g.object(name)
	if err != nil {
		return storage.Info{}, err
	}
	callCtx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	attrs, err := object.Attrs(callCtx)
	if err != nil {
		return storage.Info{}, fail(ctx, "stat", name, err)
	}
	return storage.Info{Size: attrs.Size, Modified: attrs.Updated}, nil
}

// Delete implements [storage.Store].
func (g *Store) Delete(ctx context.Context, name string) error {
	if err := ownName(name); err != nil {
		return err
	}
	callCtx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	// Retrying is harmless: the caller wants no object of this name, and it is
	// the caller's claim on the job that keeps others from putting one.
	object := g.client.Bucket(g.bucket).Object(name).Retryer(gcs.WithPolicy(gcs.RetryAlways))
	if err := object.Delete(callCtx); err != nil {
		if err = fail(ctx, "delete", name, err); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return nil
}

// needed is what a worker does to objects; all of it is in
// roles/storage.objectUser.
var needed = []string{
	"storage.objects.create", "storage.objects.delete", // replacing needs delete
	"storage.objects.get", "storage.objects.list",
}

// Check implements [storage.Store]. It asks which permissions the account has, which
// itself needs none.
func (g *Store) Check(ctx context.Context) error {
	callCtx, cancel := context.WithTimeout(ctx, g.timeout/3)
	defer cancel()
	bucket := g.client.Bucket(g.bucket)
	granted, err := bucket.IAM().TestPermissions(callCtx, needed)
	if isStatus(err, http.StatusNotFound) {
		// No such bucket, or an emulator that knows no permissions.
		if _, err = bucket.Attrs(callCtx); err == nil {
			return nil
		}
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, gcs.ErrBucketNotExist):
		return fmt.Errorf("check bucket %s: %w: %w; create it or correct its name", g.bucket, jobs.ErrUnavailable, err)
	default:
		return fmt.Errorf("check bucket %s: %w: %w", g.bucket, jobs.ErrUnavailable, err)
	}
	missing := slices.DeleteFunc(slices.Clone(needed), func(p string) bool { return slices.Contains(granted, p) })
	if len(missing) > 0 {
		return fmt.Errorf("check bucket %s: %w: permission missing: %s; grant roles/storage.objectUser on the bucket to the account in use",
			g.bucket, jobs.ErrUnavailable, strings.Join(missing, ", "))
	}
	return nil
}

// object returns the object of a name that may begin with gs://bucket/.
func (g *Store) object(name string) (*gcs.ObjectHandle, error) {
	bucket, object := g.bucket, name
	if rest, ok := strings.CutPrefix(name, storage.BucketScheme); ok {
		bucket, object, _ = strings.Cut(rest, "/")
		if bucket != g.bucket && !slices.Contains(g.readable, bucket) {
			return nil, storage.BadName(name, "is in a bucket that is not among the allowed ones")
		}
	}
	if err := storage.ValidName(object); err != nil {
		return nil, err
	}
	return g.client.Bucket(bucket).Object(object), nil
}

// ownName checks a name that is to be changed, so it must be in the own bucket.
func ownName(name string) error {
	if strings.HasPrefix(name, storage.BucketScheme) {
		return storage.BadName(name, "names a bucket, but objects are only put and deleted in the own one")
	}
	return storage.ValidName(name)
}

// fail returns err as one of the four kinds of package storage. ctx is the caller's:
// a timeout of this package means that the store is unavailable.
func fail(ctx context.Context, verb, name string, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s object %s: %w", verb, name, context.Cause(ctx))
	case bucketMissing(err):
		return fmt.Errorf("%s object %s: the bucket does not exist: %w: %w", verb, name, jobs.ErrUnavailable, err)
	case errors.Is(err, gcs.ErrObjectNotExist):
		return fmt.Errorf("%s object %s: %w", verb, name, fs.ErrNotExist)
	case isStatus(err, http.StatusForbidden): // for the account, or by a hold or the retention of this object
		return fmt.Errorf("%s object %s: %w: %w: %w", verb, name, jobs.ErrUnavailable, fs.ErrPermission, err)
	}
	return fmt.Errorf("%s object %s: %w: %w", verb, name, jobs.ErrUnavailable, err)
}

// bucketMissing reports whether err is about the bucket. For Cloud Storage a
// missing bucket and a missing object are both "404 not found", and the client
// library calls both a missing object; only the text tells them apart.
func bucketMissing(err error) bool {
	e := new(googleapi.Error)
	return errors.Is(err, gcs.ErrBucketNotExist) ||
		errors.As(err, &e) && e.Code == http.StatusNotFound && e.Message == "The specified bucket does not exist."
}

func isStatus(err error, code int) bool {
	e := new(googleapi.Error)
	return errors.As(err, &e) && e.Code == code
}
