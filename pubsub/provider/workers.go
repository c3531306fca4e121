package provider

import (
	"context"

	"github.com/batchfleet/batchfleet/jobapi"
)

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
		if shown[i].State == "unready" {
			shown[i].Reason = jobapi.ShownText(w.Unready, maxReason)
		}
		for _, k := range w.Kinds {
			shown[i].Kinds = append(shown[i].Kinds, jobapi.ShownText(string(k), maxName))
		}
	}
	return shown, nil
}
