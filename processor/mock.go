package processor

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// Mock is the engine of kind "mock": a random number of pages, and
// a random time for each. Both are drawn from the job's id, so an attempt that
// resumes goes on with the same document.
type Mock struct {
	MinPages, MaxPages     int           // 5 to 20 in the contract
	MinSeconds, MaxSeconds time.Duration //nolint:staticcheck // named for MOCK_PAGE_SECONDS; 3 s to 5 s a page in the contract
	Log                    *slog.Logger
}

// Name implements [Engine].
func (m Mock) Name() string { return "mock" }

// NeedsInput implements [Engine]: the simulation never opens the document.
func (m Mock) NeedsInput() bool { return false }

// Read implements [Engine].
func (m Mock) Read(ctx context.Context, job jobs.Job, _ string, from int, out Sink) error {
	seed := fnv.New64a()
	_, _ = seed.Write([]byte(job.ID)) // a hash never fails
	random := rand.New(rand.NewPCG(seed.Sum64(), 0))
	pages := m.MinPages + random.IntN(m.MaxPages-m.MinPages+1)
	if job.Pages > 0 {
		pages = job.Pages
	}
	m.Log.InfoContext(ctx, fmt.Sprintf("PDF has %d pages (mock)", pages), "job", job.ID)
	if err := out.Open(pages, json.RawMessage(`{"simulated":true}`)); err != nil {
		return err
	}
	for n := 1; n <= pages; n++ {
		took := m.MinSeconds + time.Duration(random.Float64()*float64(m.MaxSeconds-m.MinSeconds))
		if n < from {
			continue
		}
		if err := jobs.Sleep(ctx, took); err != nil {
			return err
		}
		if err := out.Page(Record{Page: n, Seconds: took.Round(time.Millisecond).Seconds()}); err != nil {
			return err
		}
		percent := jobs.Progress{Done: n, Total: pages}.Percent()
		m.Log.InfoContext(ctx, fmt.Sprintf("[%s] Page %d/%d analyzing... (%d%%)", job.ID, n, pages, percent))
	}
	return nil
}
