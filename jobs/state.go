package jobs

import "fmt"

// State is the state of a job. The zero value is no state: it marks a job without a
// record.
type State uint8

// The states of a job. Succeeded, Failed and Canceled are terminal.
const (
	Queued State = iota + 1
	Running
	Succeeded
	Failed
	Canceled
)

var stateNames = [...]string{Queued: "queued", Running: "running", Succeeded: "succeeded", Failed: "failed", Canceled: "canceled"}

// String returns the state's name in lower case, or "state(N)" for a number
// that is no state.
func (s State) String() string {
	if s < Queued || s > Canceled {
		return fmt.Sprintf("state(%d)", uint8(s))
	}
	return stateNames[s]
}

// Verb is the verb before a state in a sentence: it has succeeded, it is running.
func (s State) Verb() string {
	if s == Succeeded || s == Failed {
		return "has"
	}
	return "is"
}

// MarshalText implements [encoding.TextMarshaler].
func (s State) MarshalText() ([]byte, error) {
	if s < Queued || s > Canceled {
		return nil, fmt.Errorf("%s is not a job state", s)
	}
	return []byte(s.String()), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *State) UnmarshalText(text []byte) error {
	for state := Queued; state <= Canceled; state++ {
		if string(text) == state.String() {
			*s = state
			return nil
		}
	}
	return fmt.Errorf("%q is not a job state", text)
}

// Terminal reports whether a job in state s has ended for good.
func (s State) Terminal() bool { return s == Succeeded || s == Failed || s == Canceled }
