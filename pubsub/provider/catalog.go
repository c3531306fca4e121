package provider

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
	"github.com/batchfleet/batchfleet/status"
)

var _ jobapi.Catalog = (*Fleet)(nil)

// BuiltIn are the kinds that need no kinds file, with what they do.
var BuiltIn = map[string]string{
	"pdf":  "text, counts, images and metadata of PDF documents",
	"mock": "simulated pages, for tests",
}

// noParams is the schema of a kind without parameters.
var noParams = json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)

// maxDescription is the longest description of a kind that is shown, in bytes.
const maxDescription = 1 << 10

// Kinds implements [jobapi.Catalog].
func (f *Fleet) Kinds(ctx context.Context) ([]jobapi.Kind, error) {
	workers, err := f.Status.Workers(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]*jobapi.Kind{}
	for name, what := range BuiltIn {
		known[name] = &jobapi.Kind{Name: name, Description: what, Params: noParams, Input: "optional"}
	}
	known["pdf"].Input = "one"
	if f.KindsFile != nil {
		for _, k := range f.KindsFile().Kinds {
			known[string(k.Name)] = kindOf(k)
		}
	}
	for _, w := range workers {
		if w.Silent > status.SilentAfter {
			continue
		}
		for _, name := range slices.Compact(slices.Sorted(slices.Values(w.Kinds))) {
			name := string(name)
			if shownKind(jobs.Kind(name)) != name { // somebody else has written there
				continue
			}
			k := known[name]
			if k == nil {
				k = &jobapi.Kind{Name: name, Input: "optional"}
				known[name] = k
			}
			k.Workers++
			k.Slots += max(0, w.Slots)
		}
	}
	all := make([]jobapi.Kind, 0, len(known))
	for _, name := range slices.Sorted(maps.Keys(known)) {
		all = append(all, *known[name])
	}
	return all, nil
}

// kindOf returns what is shown of a kind of the kinds file.
func kindOf(k *kinds.Kind) *jobapi.Kind {
	return &jobapi.Kind{
		Name: string(k.Name), Description: jobapi.ShownText(k.Description, maxDescription), Params: k.Schema(), Input: k.Inputs(), Cap: k.Slots,
	}
}
