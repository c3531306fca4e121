package provider

import (
	"context"

	"github.com/batchfleet/batchfleet/jobapi"
)

// maxName is the longest text of a worker that is shown, in bytes.
const maxName = 256

// Workers returns the workers of the fleet.
func (f *Fleet) Workers(ctx context.Context) ([]jobapi.Worker, error) {
	all, err := f.Status.Workers(ctx)
	if err != nil {
		return nil, err
	}
	shown := make([]jobapi.Worker, len(all))
	for i, w := range all {
		shown[i] = jobapi.Worker{
			ID: clean(w.ID, maxName), Name: clean(w.Name, maxName), Host: clean(w.Host, maxName), PID: w.PID, Version: clean(w.Version, maxName),
			Kinds: []string{}, Slots: w.Slots, Jobs: w.Jobs, State: w.State(),
			Started: jobapi.Time{Time: w.Started}, Seen: jobapi.Time{Time: w.Seen},
		}
		for _, k := range w.Kinds {
			shown[i].Kinds = append(shown[i].Kinds, clean(string(k), maxName))
		}
	}
	return shown, nil
}
