package outbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/batchfleet/batchfleet/internal/testlog"
)

// Entries share a sync of their directory, and none of them counts as written before one that began after it.
func TestK18EntriesPutAtTheSameTimeShareASync(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "box")
	synctest.Test(t, func(t *testing.T) {
		b := newBox(dir, &testlog.Buffer{})
		if err := b.Open(); err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		began, results := make(chan struct{}), make(chan error)
		b.syncDir = func(string) error { began <- struct{}{}; return <-results }
		var written, failed atomic.Int64
		var puts sync.WaitGroup
		put := func(n int) {
			for i := range n {
				puts.Go(func() {
					if err := b.Put(fmt.Sprint(i), []byte("1")); err != nil {
						failed.Add(1)
					} else {
						written.Add(1)
					}
				})
			}
		}
		want := func(when string, ok, bad int64) {
			t.Helper()
			synctest.Wait()
			if written.Load() != ok || failed.Load() != bad {
				t.Errorf("%s: %d are written and %d failed, want %d and %d", when, written.Load(), failed.Load(), ok, bad)
			}
		}
		put(1)
		<-began
		put(10)
		want("during the first sync", 0, 0)
		results <- nil
		<-began
		want("after it", 1, 0)
		put(5)
		synctest.Wait()
		results <- nil
		<-began
		want("after the second", 11, 0)
		results <- errors.New("disk is full")
		want("after the third, which fails", 11, 5)
		puts.Wait()
	})
}
