package monitor

import (
	"fmt"
	"slices"

	"github.com/batchfleet/batchfleet/jobapi"
)

// maxSilent is how many silent workers of a scope are named.
const maxSilent = 20

// anyKind stands for jobs whose kind is not known until a worker has them.
const anyKind = "unknown"

// warnings returns what a person should look at in the scope.
func (s *scope) warnings(l *look, o jobapi.ScopeOverview) (all []jobapi.Warning) {
	warn := func(w jobapi.Warning) {
		w.Scope = s.Name
		all = append(all, w)
	}
	if o.Unavailable != "" {
		warn(jobapi.Warning{Code: "UNAVAILABLE", Message: "Scope " + s.Name + ": " + o.Unavailable})
		return all
	}
	for _, w := range silent(l.workers) {
		warn(w)
	}
	draining := l.hasWork && allDrain(l.workers, "")
	if draining {
		warn(jobapi.Warning{Code: "DRAINING", Message: "All live workers are draining: no job starts until one of them takes jobs again, or another starts"})
	}
	for _, k := range o.Kinds {
		switch {
		case k.Queued == 0:
		case !k.Paused.IsZero():
			warn(jobapi.Warning{Code: "PAUSED", Kind: k.Kind, Since: k.Paused, Message: fmt.Sprintf("Kind %s is paused, and %s: resume it to have them run", k.Kind, waiting(k.Queued))})
		case !l.hasWork || k.Kind == anyKind:
		case !anyTakes(l.workers, k.Kind):
			warn(jobapi.Warning{Code: "NO_WORKER", Kind: k.Kind, Since: k.Oldest, Message: fmt.Sprintf("No live worker runs kind %s, and %s: start one", k.Kind, waiting(k.Queued))})
		case !draining && allDrain(l.workers, k.Kind):
			warn(jobapi.Warning{Code: "DRAINING", Kind: k.Kind, Message: fmt.Sprintf("All live workers of kind %s are draining, and %s", k.Kind, waiting(k.Queued))})
		}
	}
	return all
}

func waiting(n int) string {
	if n == 1 {
		return "1 job waits"
	}
	return fmt.Sprintf("%d jobs wait", n)
}

// silent warns of each worker that has not been heard for long.
func silent(workers []jobapi.Worker) (all []jobapi.Warning) {
	more := 0
	for _, w := range workers {
		switch {
		case lives(w):
		case len(all) == maxSilent:
			more++
		default:
			on := ""
			if w.Host != "" {
				on = " on " + w.Host
			}
			all = append(all, jobapi.Warning{Code: "SILENT_WORKER", Worker: w.ID, Since: w.Seen, Message: fmt.Sprintf("Nothing is heard of worker %s%s: look whether it runs, and whether it reaches its store", w.Name, on)})
		}
	}
	if more > 0 {
		all = append(all, jobapi.Warning{Code: "SILENT_WORKER", Message: fmt.Sprintf("Nothing is heard of %d more workers", more)})
	}
	return all
}

// takes reports whether a worker runs jobs of a kind, or of any if it is empty. A worker that names no kinds runs all.
func takes(w jobapi.Worker, kind string) bool {
	return kind == "" || len(w.Kinds) == 0 || slices.Contains(w.Kinds, kind)
}

func anyTakes(workers []jobapi.Worker, kind string) bool {
	return slices.ContainsFunc(workers, func(w jobapi.Worker) bool { return lives(w) && takes(w, kind) })
}

// allDrain reports whether there are live workers of a kind, and all of them drain.
func allDrain(workers []jobapi.Worker, kind string) bool {
	some := false
	for _, w := range workers {
		if !lives(w) || !takes(w, kind) {
			continue
		}
		if w.State != "draining" {
			return false
		}
		some = true
	}
	return some
}
