// Package s3 keeps objects in a bucket of S3, or of any store that speaks its protocol. It
// is the only package that links a client of S3.
package s3

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

	"github.com/minio/minio-go/v7"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/storage/internal/transfer"
)

// Store is a [storage.Store] in a bucket. Its account must be allowed s3:ListBucket on the
// bucket, without which S3 answers "forbidden" where it means "not found", and
// s3:GetObject, s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload on its objects.
// With s3:ListBucketMultipartUploads it also removes what killed workers were uploading.
type Store struct {
	// Unconditional is for a store that does not know conditional writes, see Put.
	Unconditional bool

	core     minio.Core
	bucket   string
	readable []string
	secure   bool // over TLS: the content needs no signature of its own
	// timeout bounds a call that transfers no content, and the time between two
	// pieces of content.
	timeout  time.Duration
	maxParts int
}

// New returns the store in bucket. Open and Stat also take names of the form
// s3://other/name, if other is bucket or one of readable.
func New(client *minio.Client, bucket string, readable ...string) *Store {
	return &Store{
		core: minio.Core{Client: client}, bucket: bucket, readable: readable,
		secure: client.EndpointURL().Scheme == "https", timeout: 30 * time.Second, maxParts: maxParts,
	}
}

// Stat implements [storage.Store]. Names may begin with s3://bucket/, see [New].
func (s *Store) Stat(ctx context.Context, name string) (storage.Info, error) {
	bucket, object, err := s.object(name)
	if err != nil {
		return storage.Info{}, err
	}
	info, err := s.stat(ctx, bucket, object)
	if err != nil {
		return storage.Info{}, fail(ctx, "stat", name, err)
	}
	return storage.Info{Size: info.Size, Modified: info.LastModified}, nil
}

// stat asks about an object. An answer to such a request has no text, so it does not tell
// a missing bucket from a missing object; a second request does.
func (s *Store) stat(ctx context.Context, bucket, object string) (minio.ObjectInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	info, err := s.core.StatObject(ctx, bucket, object, minio.StatObjectOptions{})
	if code(err) != minio.NoSuchKey {
		return info, err
	}
	if found, bucketErr := s.core.BucketExists(ctx, bucket); bucketErr == nil && !found {
		return info, minio.ErrorResponse{Code: minio.NoSuchBucket, StatusCode: http.StatusNotFound, Message: "The specified bucket does not exist."}
	} else if ctx.Err() != nil {
		return info, ctx.Err()
	}
	return info, err
}

// Delete implements [storage.Store].
func (s *Store) Delete(ctx context.Context, name string) error {
	if err := ownName(name); err != nil {
		return err
	}
	callCtx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	// Repeating is harmless: the caller wants no object of this name, and it is the
	// caller's claim on the job that keeps others from putting one.
	if err := s.core.RemoveObject(callCtx, s.bucket, name, minio.RemoveObjectOptions{}); err != nil {
		if err = fail(ctx, "delete", name, err); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return nil
}

// object returns the bucket and the name there of a name that may begin with s3://bucket/.
func (s *Store) object(name string) (bucket, object string, err error) {
	bucket, object = s.bucket, name
	if rest, ok := strings.CutPrefix(name, storage.S3Scheme); ok {
		bucket, object, _ = strings.Cut(rest, "/")
		if bucket != s.bucket && !slices.Contains(s.readable, bucket) {
			return "", "", storage.BadName(name, "is in a bucket that is not among the allowed ones")
		}
	}
	return bucket, object, storage.ValidName(object)
}

// ownName checks a name that is to be changed, so it must be in the own bucket.
func ownName(name string) error {
	if strings.HasPrefix(name, storage.S3Scheme) {
		return storage.BadName(name, "names a bucket, but objects are only put and deleted in the own one")
	}
	return storage.ValidName(name)
}

// fail returns err as one of the four kinds of package storage. ctx is the caller's:
// a timeout of this package means that the store is unavailable.
func fail(ctx context.Context, verb, name string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s object %s: %w", verb, name, context.Cause(ctx))
	}
	switch code(err) {
	case minio.NoSuchBucket:
		return fmt.Errorf("%s object %s: the bucket does not exist: %w: %w%s", verb, name, jobs.ErrUnavailable, err, advice(err))
	case minio.NoSuchKey:
		return fmt.Errorf("%s object %s: %w", verb, name, fs.ErrNotExist)
	case minio.AccessDenied, "InvalidObjectState": // for the account, or because this object is archived
		return fmt.Errorf("%s object %s: %w: %w: %w%s", verb, name, jobs.ErrUnavailable, fs.ErrPermission, err, advice(err))
	case "KeyTooLongError", minio.XMinioInvalidObjectName, "XMinioParentIsObject", "ObjectParentIsFile":
		// Stores on a file system have limits of their own.
		return fmt.Errorf("%s object %s: %w: %w", verb, name, fs.ErrInvalid, err)
	}
	return fmt.Errorf("%s object %s: %w: %w%s", verb, name, jobs.ErrUnavailable, err, advice(err))
}

// code returns what S3 calls an error, nothing if it is not from there.
func code(err error) string {
	e, _ := errors.AsType[minio.ErrorResponse](err)
	return e.Code
}

var _ storage.Ranger = (*Store)(nil)

// Open implements [storage.Store]. Names may begin with s3://bucket/, see [New].
func (s *Store) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	return s.OpenAt(ctx, name, 0)
}

// OpenAt implements [storage.Ranger].
func (s *Store) OpenAt(ctx context.Context, name string, offset int64) (io.ReadCloser, error) {
	bucket, object, err := s.object(name)
	if err != nil {
		return nil, err
	}
	d := &download{store: s, ctx: ctx, bucket: bucket, object: object, timeout: s.timeout, offset: offset}
	if err := d.open(ctx); err != nil {
		return nil, fail(ctx, "open", name, err)
	}
	return transfer.NewBody(ctx, name, d), nil
}
