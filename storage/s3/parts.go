package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/minio/minio-go/v7"

	"github.com/batchfleet/batchfleet/storage/internal/transfer"
)

// putParts stores first and what is left of src. It cannot start again, so it needs to know
// beforehand what it is going to replace.
func (s *Store) putParts(ctx context.Context, name string, first []byte, src *transfer.Source) error {
	known, err := s.current(ctx, name)
	if err != nil {
		return err
	}
	id, err := s.beginUpload(ctx, name)
	if err != nil {
		return err
	}
	parts, err := s.sendParts(ctx, name, id, first, src)
	if err == nil {
		err = s.complete(ctx, name, id, parts, known, src)
	}
	if err == nil {
		return nil
	}
	s.abort(ctx, name, id)
	switch {
	case overtaken(err, known):
		return nil // replaced meanwhile, see Put
	case code(err) == "NoSuchUpload" && len(parts) > 0:
		return s.lostAnswer(ctx, name, known, err)
	}
	return err
}

func (s *Store) beginUpload(ctx context.Context, name string) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	// The condition goes with the last request: the first one makes nothing visible.
	return s.core.NewMultipartUpload(ctx, s.bucket, name, options(name))
}

// sendParts sends buf and what is left of src, which it reads into buf.
func (s *Store) sendParts(ctx context.Context, name, id string, buf []byte, src *transfer.Source) (parts []minio.CompletePart, err error) {
	for part, more := buf, true; ; {
		if len(parts) == s.maxParts {
			return nil, fmt.Errorf("the object is larger than %d bytes, the most that can be stored", int64(s.maxParts)*partSize)
		}
		sent, err := s.sendPart(ctx, name, id, len(parts)+1, part)
		if err != nil {
			return nil, err
		}
		parts = append(parts, minio.CompletePart{PartNumber: sent.PartNumber, ETag: sent.ETag})
		if !more {
			return parts, nil
		}
		n, err := io.ReadFull(src, buf)
		switch {
		case src.Err != nil:
			return nil, src.Err
		case errors.Is(err, io.EOF): // the part before was the last one
			return parts, nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			more = false
		}
		part = buf[:n]
	}
}

// sendPart sends a part, again if there is no answer in time.
func (s *Store) sendPart(ctx context.Context, name, id string, number int, content []byte) (part minio.ObjectPart, err error) {
	options := minio.PutObjectPartOptions{Md5Base64: base64MD5(content), Sha256Hex: s.sha256(content), DisableContentSha256: true}
	for range attempts {
		callCtx, cancel := context.WithTimeout(ctx, 4*s.timeout) // at least 70 kB/s
		part, err = s.core.PutObjectPart(callCtx, s.bucket, name, id, number, bytes.NewReader(content), int64(len(content)), options)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			break
		}
	}
	return part, err
}

// complete makes an object of the parts.
func (s *Store) complete(ctx context.Context, name, id string, parts []minio.CompletePart, known condition, src *transfer.Source) error {
	options := s.conditional(options(name), known)
	return s.repeat(ctx, src, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 10*s.timeout) // of thousands of parts it takes minutes
		defer cancel()
		_, err := s.core.CompleteMultipartUpload(ctx, s.bucket, name, id, parts, options)
		return err
	})
}

// abort throws the parts away. If that fails too they stay until the bucket's own rule for
// unfinished uploads removes them; no object shows them.
func (s *Store) abort(ctx context.Context, name, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout/3)
	defer cancel()
	_ = s.core.AbortMultipartUpload(ctx, s.bucket, name, id)
}

// lostAnswer returns nil if the object is not the one that was known before: the upload is
// over because an earlier request has completed it, and only its answer was lost. Else
// somebody has thrown the parts away, and it returns err.
func (s *Store) lostAnswer(ctx context.Context, name string, known condition, err error) error {
	if now, lookErr := s.current(ctx, name); lookErr == nil && now != known {
		return nil
	}
	return err
}

// RemoveUnfinished throws away the uploads of objects below a directory that have not become
// objects. A worker calls it when it takes a job over: an earlier process that stopped just
// before the end of its upload cannot complete it when it continues. An account that may not
// list uploads leaves them to the bucket's own rule.
func (s *Store) RemoveUnfinished(ctx context.Context, dir string) error {
	if err := ownName(dir); err != nil {
		return err
	}
	key, upload := "", ""
	for {
		callCtx, cancel := context.WithTimeout(ctx, s.timeout)
		found, err := s.core.ListMultipartUploads(callCtx, s.bucket, dir+"/", key, upload, "", 1000)
		cancel()
		switch {
		case code(err) == "NoSuchUpload": // what some stores answer when there are none
			return nil
		case ctx.Err() == nil && (code(err) == minio.AccessDenied || isStatus(err, http.StatusNotImplemented) || isStatus(err, http.StatusMethodNotAllowed)):
			return nil
		case err != nil:
			return fail(ctx, "list unfinished uploads of", dir, err)
		}
		for _, u := range found.Uploads {
			callCtx, cancel := context.WithTimeout(ctx, s.timeout)
			err := s.core.AbortMultipartUpload(callCtx, s.bucket, u.Key, u.UploadID)
			cancel()
			if err != nil && code(err) != "NoSuchUpload" {
				return fail(ctx, "abandon upload of", u.Key, err)
			}
		}
		if key, upload = found.NextKeyMarker, found.NextUploadIDMarker; !found.IsTruncated || key == "" {
			return nil
		}
	}
}
