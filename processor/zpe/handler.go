package zpe

import (
	"log/slog"
	"sync"

	"github.com/batchfleet/batchfleet/command"
	"github.com/batchfleet/batchfleet/storage"
)

// Handler runs jobs of this package. Set the exported fields before use; its
// methods may be called concurrently.
type Handler struct {
	Store     storage.Store
	PwX       string // path of pw.x, absolute
	PseudoDir string // where the pseudopotentials are, absolute
	// WorkDir is where pw.x runs, each run in a directory of its own that is
	// deleted after it; the system's place for temporary files when empty. What a
	// worker that was killed has left there is for its owner to delete.
	WorkDir string
	// Limits are those of one run of pw.x, but for what it prints. Memory is at least
	// MinMemory: with less, Open MPI tries without end to start.
	Limits   command.Limits
	Threads  int // of one run (OMP_NUM_THREADS); 1 when zero
	Parallel int // runs of pw.x at once for a job; 1 when zero
	Log      *slog.Logger

	mu    sync.Mutex
	known program
}

// MinMemory is the least that pw.x may be given. It was seen to spin at 100 MB
// before its first line, and to run or to fail at 300 MB.
const MinMemory = 256 << 20
