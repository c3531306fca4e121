package relay

import (
	"fmt"
	"slices"

	"github.com/batchfleet/batchfleet/jobs"
)

// State is where a task is in its life. The zero value is none.
type State uint8

// The states, in the words of the contract.
const (
	Queued State = iota + 1
	Running
	Uploading
	Succeeded
	Failed
	Canceled
)

var stateWords = [...]string{"", "queued", "running", "uploading", "succeeded", "failed", "canceled"}

// String returns the word of the contract.
func (s State) String() string {
	if int(s) < len(stateWords) {
		return stateWords[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// MarshalText implements encoding.TextMarshaler.
func (s State) MarshalText() ([]byte, error) {
	if s < Queued || s > Canceled {
		return nil, fmt.Errorf("%s is no state of a task", s)
	}
	return []byte(s.String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *State) UnmarshalText(text []byte) error {
	i := slices.Index(stateWords[:], string(text))
	if i < int(Queued) {
		return fmt.Errorf("no such state of a task: %.40q", text)
	}
	*s = State(i)
	return nil
}

// Terminal reports whether a task in this state has ended.
func (s State) Terminal() bool { return s >= Succeeded }

// edges are the states that a task may go to from each.
var edges = map[State][]State{
	Queued:    {Running, Canceled},
	Running:   {Uploading, Failed, Canceled, Queued}, // queued: it was interrupted, or its kind retries
	Uploading: {Succeeded, Failed, Canceled},
	Failed:    {Uploading}, // retry-upload
}

// mayBecome reports whether a task may go from s to next.
func (s State) mayBecome(next State) bool { return slices.Contains(edges[s], next) }

// job is the state in the words that all jobs share.
func (s State) job() jobs.State {
	switch s {
	case Queued:
		return jobs.Queued
	case Running, Uploading:
		return jobs.Running
	case Succeeded:
		return jobs.Succeeded
	case Failed:
		return jobs.Failed
	case Canceled:
		return jobs.Canceled
	}
	return 0
}
