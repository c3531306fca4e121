package gcs

import (
	"io"
	"time"

	"github.com/batchfleet/batchfleet/storage/internal/transfer"
)

// SetTimeout makes tests of silence short.
func SetTimeout(g *Store, d time.Duration) { g.timeout = d }

// SetSilence does so for the content of an object that a [Store] has opened.
func SetSilence(r io.ReadCloser, d time.Duration) { r.(*transfer.Body).Content.(*download).timeout = d }
