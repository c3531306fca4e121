package cli

import (
	"fmt"
	"slices"
	"strings"

	apiclient "github.com/batchfleet/batchfleet/jobapi/client"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

// People speak of kinds; the Job API has a type, which is a scope and a kind. Jobs of kind zpe have
// a scope of their own, those of a gateway's other kinds are of scope gateway, and operations keep their scope's name, because they are few.

// zpeKind is the kind of the gateway's jobs, whose type is zpe.calc.
const zpeKind = "zpe"

// knownKinds are those that this program knows how to run.
var knownKinds = []string{"pdf", "mock", zpeKind}

// unknownType is the type of a fleet's job that was submitted without a kind, until a worker takes it,
// whose PROCESSOR it then is.
const unknownType = "fleet." + string(status.UnknownKind)

// kindOf returns the kind of a type, and - where there is none yet.
func kindOf(jobType string) string {
	switch jobType {
	case "zpe.calc":
		return zpeKind
	case unknownType:
		return "-"
	}
	for _, scope := range []string{"fleet.", "gateway.", "relay.", "grid."} {
		jobType = strings.TrimPrefix(jobType, scope)
	}
	return jobType
}

// typeOf returns the scope and the type of a kind, which may be given as a type, too.
func typeOf(kind string) (scope, jobType string) {
	if kind == zpeKind {
		return "zpe", "zpe.calc"
	}
	if scope, _, ok := strings.Cut(kind, "."); ok && slices.Contains(apiclient.Scopes(), scope) {
		return scope, kind
	}
	for scope, operations := range jobOperations {
		if slices.Contains(operations, kind) {
			return scope, scope + "." + kind
		}
	}
	return "fleet", "fleet." + kind
}

// allKinds returns what a list may be asked for.
func allKinds() []string {
	all := slices.Clone(knownKinds)
	for _, scope := range []string{"system", "utils"} {
		for _, operation := range jobOperations[scope] {
			all = append(all, scope+"."+operation)
		}
	}
	return all
}

// stateWords are the words of the wires for states, and how some people spell ours.
var stateWords = map[string]jobs.State{
	"processing": jobs.Running, "started": jobs.Running, "uploading": jobs.Running,
	"completed": jobs.Succeeded, "finished": jobs.Succeeded, "ok": jobs.Succeeded,
	"cancelled": jobs.Canceled,
}

// parseState reads a state, also in the words of the wires.
func parseState(word string) (state jobs.State, err error) {
	word = strings.ToLower(word)
	if state, ok := stateWords[word]; ok {
		return state, nil
	}
	if err := state.UnmarshalText([]byte(word)); err != nil {
		return 0, fmt.Errorf("%.40q is no state: want queued, running, succeeded, failed or canceled", word)
	}
	return state, nil
}

func stateNames() []string { return []string{"queued", "running", "succeeded", "failed", "canceled"} }
