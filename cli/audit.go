package cli

import (
	"encoding/json"
	"io"
	"maps"
	"slices"

	"github.com/batchfleet/batchfleet/redisdb"
)

// place is where jobs are kept, and how many are there.
type place struct {
	name string
	jobs int
}

// printAudit prints what was found as a table, with the places of the jobs, or all of it
// as JSON.
func printAudit(out io.Writer, a redisdb.Audit, places []place, all any, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false) // people read it
		return enc.Encode(all)
	}
	t := newTable(out)
	for _, state := range slices.Sorted(maps.Keys(a.Jobs)) {
		t.row(state, a.Jobs[state])
	}
	for _, p := range places {
		t.row(p.name, p.jobs)
	}
	for _, kind := range slices.Sorted(maps.Keys(a.Counts)) {
		t.row("FOUND: "+kind, a.Counts[kind])
	}
	for _, f := range a.Findings {
		t.row(f.Job, f.Kind, f.Detail, doneOf(f))
	}
	if a.Unchecked > 0 {
		t.row("not looked at", a.Unchecked, "run it again")
	}
	return t.flush()
}

// doneOf says what was done about a finding.
func doneOf(f redisdb.Finding) string {
	switch {
	case f.Done != "":
		return f.Done
	case f.Harmless:
		return "harmless"
	}
	return "NOT REPAIRED"
}
