package s3

import (
	"io"
	"time"

	"github.com/batchfleet/batchfleet/storage/internal/transfer"
)

// PartSize is for tests of what has more than one part.
const PartSize = partSize

// SetTimeout makes tests of silence short.
func SetTimeout(s *Store, d time.Duration) { s.timeout = d }

// SetSilence does so for the content of an object that a [Store] has opened.
func SetSilence(r io.ReadCloser, d time.Duration) { r.(*transfer.Body).Content.(*download).timeout = d }

// SetMaxParts makes tests of the limit short.
func SetMaxParts(s *Store, n int) { s.maxParts = n }
