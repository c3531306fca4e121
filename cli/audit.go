package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

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
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	// A tabwriter keeps its errors for Flush.
	for _, state := range slices.Sorted(maps.Keys(a.Jobs)) {
		_, _ = fmt.Fprintf(t, "%s\t%d\n", state, a.Jobs[state])
	}
	for _, p := range places {
		_, _ = fmt.Fprintf(t, "%s\t%d\n", p.name, p.jobs)
	}
	for _, kind := range slices.Sorted(maps.Keys(a.Counts)) {
		_, _ = fmt.Fprintf(t, "FOUND: %s\t%d\n", kind, a.Counts[kind])
	}
	for _, f := range a.Findings {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", oneLine(string(f.Job)), f.Kind, f.Detail, doneOf(f))
	}
	if a.Unchecked > 0 {
		_, _ = fmt.Fprintf(t, "not looked at\t%d\trun it again\n", a.Unchecked)
	}
	return t.Flush()
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
