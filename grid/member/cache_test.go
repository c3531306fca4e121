package member

import (
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

func TestG50CacheDropsOldestResults(t *testing.T) {
	job := func(n int) wire.GUID { return wire.GUID{0: byte(n >> 8), 1: byte(n)} }
	tests := []struct {
		name    string
		results int
		size    int
		apart   time.Duration
		kept    int // the newest of them
	}{
		{"few and small", 100, 100, time.Second, 100},
		{"too many", 10_100, 10, 0, 10_000},
		{"too large", 100, 4 << 20, time.Second, 64},
		{"too old", 40, 10, time.Minute, 30},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var c cache
			now := time.Now()
			payload := make([]byte, tt.size)
			for n := range tt.results {
				c.add(job(n), payload, now)
				c.add(job(n), payload, now) // the same again
				if n < tt.results-1 {
					now = now.Add(tt.apart)
				}
			}
			kept := 0
			for n := range tt.results {
				known, ok := c.get(job(n), now)
				if ok {
					kept++
				}
				if want := n >= tt.results-tt.kept; ok != want || ok && len(known) != tt.size {
					t.Fatalf("result %d of %d is kept: %t, want %t", n, tt.results, ok, want)
				}
			}
			if kept != tt.kept || c.bytes != kept*tt.size || len(c.order) != kept {
				t.Errorf("%d are kept, of %d bytes, %d in order; want %d", kept, c.bytes, len(c.order), tt.kept)
			}
		})
	}
}
