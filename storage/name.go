package storage

import (
	"fmt"
	"io/fs"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxNameLength is the longest object name in bytes, the limit of Cloud
	// Storage.
	MaxNameLength = 1024
	// MaxSegmentLength is the longest part of a name between slashes in bytes,
	// the limit of the usual file systems.
	MaxSegmentLength = 255
)

// TempPrefix begins the names of files that are being written. [ValidName]
// refuses it, so that an unfinished object cannot be read or replaced.
const TempPrefix = ".batchfleet-put-"

// BucketScheme and S3Scheme begin the name of an object in a named bucket of Cloud Storage
// and of S3: gs://bucket/name, s3://bucket/name.
const (
	BucketScheme = "gs://"
	S3Scheme     = "s3://"
)

// namesBucket reports whether name begins as that of an object in a named bucket.
func namesBucket(name string) bool {
	return strings.HasPrefix(name, BucketScheme) || strings.HasPrefix(name, S3Scheme)
}

// ValidName checks that name can name an object in every store: a clean relative
// path with slashes, valid UTF-8, without control characters and backslashes,
// at most [MaxNameLength] bytes long with segments of at most
// [MaxSegmentLength]. The error tells what is wrong, quotes at most the beginning
// of the name and wraps [fs.ErrInvalid].
func ValidName(name string) error {
	if problem := nameProblem(name); problem != "" {
		return BadName(name, problem)
	}
	return nil
}

func nameProblem(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > MaxNameLength:
		return fmt.Sprintf("is %d bytes long, at most %d are allowed", len(name), MaxNameLength)
	case !utf8.ValidString(name):
		return "is not valid UTF-8"
	case strings.ContainsFunc(name, unicode.IsControl):
		return "has a control character"
	case strings.Contains(name, `\`):
		return "has a backslash"
	case name[0] == '/':
		return "begins with a slash"
	case strings.HasPrefix(name, ".well-known/acme-challenge/"):
		return "is reserved by Cloud Storage"
	}
	for segment := range strings.SplitSeq(name, "/") {
		if problem := segmentProblem(segment); problem != "" {
			return problem
		}
	}
	return ""
}

func segmentProblem(segment string) string {
	switch {
	case segment == "":
		return "has an empty segment"
	case segment == "." || segment == "..":
		return fmt.Sprintf("has the segment %q", segment)
	case len(segment) > MaxSegmentLength:
		return fmt.Sprintf("has a segment of %d bytes, at most %d are allowed", len(segment), MaxSegmentLength)
	case strings.HasPrefix(segment, TempPrefix):
		return fmt.Sprintf("has a segment beginning with %q, which marks unfinished files", TempPrefix)
	}
	return ""
}

// ValidPrefix checks a prefix given to Walk: empty, or a valid name and a slash.
func ValidPrefix(prefix string) error {
	dir, ok := strings.CutSuffix(prefix, "/")
	switch {
	case prefix == "":
		return nil
	case namesBucket(prefix):
		return BadName(prefix, "names a bucket, but only the own one is listed")
	case !ok:
		return BadName(prefix, "is no directory: it does not end with a slash")
	}
	return ValidName(dir)
}

// BadName returns the error for a name that cannot name an object.
func BadName(name, problem string) error {
	const shown = 64 // enough to recognise it in a log
	if len(name) > shown {
		name = name[:shown] + "…"
	}
	return fmt.Errorf("object name %q %s: %w", name, problem, fs.ErrInvalid)
}
