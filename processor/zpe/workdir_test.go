package zpe

import (
	"os"
	"sync"
	"testing"
)

// Whoever makes a work directory has it until it is done, however many others
// make theirs and sweep at the same time.
func TestZpeSweepSparesWhatIsInUse(t *testing.T) {
	h := &Handler{WorkDir: t.TempDir()}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				dir, done, err := h.workDir()
				if err != nil {
					t.Error(err)
					return
				}
				sweep(h.WorkDir)
				if err := os.WriteFile(dir+"/f", nil, 0o600); err != nil {
					t.Error(err)
				}
				done()
			}
		})
	}
	all.Wait()
	left, err := os.ReadDir(h.WorkDir)
	if err != nil || len(left) > 0 {
		t.Errorf("%d directories are left, %v", len(left), err)
	}
}
