package s3

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/batchfleet/batchfleet/jobs"
)

// probe is the name of an object that Check asks to write and that never comes to be. It
// is one that [storage.ValidName] refuses, so that it is in nobody's way where a store
// writes it nevertheless.
const probe = ".batchfleet-put-check"

// Check implements [storage.Store]. It lists one object, and asks to replace an object of
// a content that none has: a store that may be written refuses that for its condition, and
// nothing is written.
func (s *Store) Check(ctx context.Context) error {
	callCtx, cancel := context.WithTimeout(ctx, s.timeout/3)
	defer cancel()
	err := s.look(callCtx)
	if err == nil {
		err = s.tryWrite(callCtx)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("check bucket %s: %w: %w%s", s.bucket, jobs.ErrUnavailable, err, advice(err))
}

// look lists one object.
func (s *Store) look(ctx context.Context) error {
	for object := range s.core.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{MaxKeys: 1, Recursive: true, FetchOwner: new(false)}) {
		return object.Err
	}
	return ctx.Err()
}

// tryWrite asks to write the probe.
func (s *Store) tryWrite(ctx context.Context) error {
	with := options(probe)
	if !s.Unconditional {
		with.SetMatchETag("00000000000000000000000000000000")
	}
	_, err := s.core.PutObject(ctx, s.bucket, probe, bytes.NewReader(nil), 0, "", sha256Hex(nil), with)
	switch {
	case err == nil && !s.Unconditional:
		return errUnconditional
	case isStatus(err, http.StatusPreconditionFailed), code(err) == minio.NoSuchKey:
		return nil
	}
	return err
}

// errUnconditional says that a store has written what it should have refused.
var errUnconditional = errors.New("the store does not heed the conditions of a write, so a request that comes late could undo a newer one; S3_CONDITIONAL_PUTS=false accepts that")

// advice returns what to do about an error, as the end of a sentence.
func advice(err error) string {
	switch code(err) {
	case minio.NoSuchBucket:
		return "; create it or correct its name"
	case minio.AccessDenied:
		return "; allow the account in use s3:ListBucket on the bucket, and s3:GetObject, s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload on its objects"
	case "InvalidAccessKeyId", "SignatureDoesNotMatch":
		return "; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
	case "ExpiredToken", "InvalidToken":
		return "; give new credentials"
	case "RequestTimeTooSkewed":
		return "; set the clock of this machine"
	case minio.AuthorizationHeaderMalformed, minio.InvalidRegion, "PermanentRedirect", "IllegalLocationConstraintException":
		return "; set S3_REGION to that of the bucket"
	case "NotImplemented":
		return "; if it is the conditions of a write that the store does not know, set S3_CONDITIONAL_PUTS=false"
	}
	if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); unknown {
		return "; if the certificate is your own, give it with S3_CA_FILE"
	}
	if strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		return "; if the store is to be asked without TLS, begin S3_ENDPOINT with http://"
	}
	return ""
}
