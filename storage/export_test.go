package storage

import (
	"io"
	"time"
)

// SetTimeout makes tests of silence short.
func SetTimeout(g *GCS, d time.Duration) { g.timeout = d }

// SetSilence does so for the content of an object that a [GCS] has opened.
func SetSilence(r io.ReadCloser, d time.Duration) { r.(*body).r.(*download).timeout = d }
