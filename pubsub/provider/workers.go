package provider

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/status"
)

var _ jobapi.Drainer = (*Fleet)(nil)

// maxName is the longest text of a worker that is shown, in bytes.
const maxName = 256

// maxReason is the longest reason that is shown, in bytes. Workers report shorter ones.
const maxReason = 512

// Workers returns the workers of the fleet.
func (f *Fleet) Workers(ctx context.Context) ([]jobapi.Worker, error) {
	all, err := f.Status.Workers(ctx)
	if err != nil {
		return nil, err
	}
	shown := make([]jobapi.Worker, len(all))
	for i, w := range all {
		shown[i] = jobapi.Worker{
			ID: jobapi.ShownText(w.ID, maxName), Name: jobapi.ShownText(w.Name, maxName), Host: jobapi.ShownText(w.Host, maxName), PID: w.PID, Version: jobapi.ShownText(w.Version, maxName),
			Kinds: []string{}, Slots: w.Slots, Jobs: w.Jobs, State: w.State(),
			Started: jobapi.Time{Time: w.Started}, Seen: jobapi.Time{Time: w.Seen},
		}
		shown[i].ClockOffset = w.ClockOffset
		for _, gpu := range w.GPUs {
			shown[i].GPUs = append(shown[i].GPUs, strconv.Itoa(gpu))
		}
		if shown[i].State == "unready" {
			shown[i].Reason = jobapi.ShownText(w.Unready, maxReason)
		}
		for _, k := range w.Kinds {
			shown[i].Kinds = append(shown[i].Kinds, jobapi.ShownText(string(k), maxName))
		}
	}
	return shown, nil
}

// DrainWorker implements [jobapi.Drainer].
func (f *Fleet) DrainWorker(ctx context.Context, id string) error {
	return f.drainWorker(ctx, id, true)
}

// ResumeWorker implements [jobapi.Drainer].
func (f *Fleet) ResumeWorker(ctx context.Context, id string) error {
	return f.drainWorker(ctx, id, false)
}

func (f *Fleet) drainWorker(ctx context.Context, id string, on bool) error {
	err := f.Status.DrainWorker(ctx, id, on)
	if errors.Is(err, status.ErrNoWorker) {
		return fmt.Errorf("worker %.80q: %w", id, jobapi.ErrNoWorker)
	}
	return err
}
