package storage

import "time"

// SetTimeout makes tests of silence short.
func SetTimeout(g *GCS, d time.Duration) { g.timeout = d }
