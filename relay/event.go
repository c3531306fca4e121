package relay

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Event is something that a callback is still to be told. What it says beside is in the task.
type Event struct {
	Name     string    `json:"event"`
	Sequence int       `json:"sequence"`
	State    State     `json:"status"`
	Progress float64   `json:"progress"`
	At       time.Time `json:"timestamp"`
	Attempts int       `json:"attempts,omitempty"` // that have failed
}

// eventProgress is the one event that is no state.
const eventProgress = "progress"

// allEvents are those of a callback that names none.
var allEvents = stateWords[1:]

// Callback is where the events of a task go.
type Callback struct {
	URL    string   `json:"url,omitempty"`
	Events []string `json:"events,omitempty"` // those that are wanted
	Off    bool     `json:"off,omitempty"`    // it has answered that it is gone
	Dead   int      `json:"dead,omitempty"`   // how many events were given up
}

// wants reports whether the callback is to be told of an event.
func (c *Callback) wants(event string) bool {
	return c.URL != "" && !c.Off && slices.Contains(c.Events, event)
}

// maxEvents is how many events of a task wait for its callback. A task makes fewer, unless its upload is tried again
// and again while the callback does not answer.
const maxEvents = 500

// note counts an event and, if it is wanted, appends it to those that are to be delivered.
func (t *Task) note(event string, now time.Time) {
	t.Sequence++
	if !t.Callback.wants(event) {
		return
	}
	t.Events = append(slices.Clip(t.Events), t.event(event, now))
	if len(t.Events) > maxEvents {
		t.Events = slices.Concat(t.Events[:1], t.Events[2:]) // the first one may be on its way
		t.Callback.Dead++
	}
}

func (t *Task) event(name string, now time.Time) Event {
	return Event{Name: name, Sequence: t.Sequence, State: t.State, Progress: t.Progress, At: now}
}

// eventID is the same in each attempt to deliver the event.
func (t *Task) eventID(e Event) string { return fmt.Sprintf("%s.%d", t.ID, e.Sequence) }

// eventBody is what a callback is sent.
type eventBody struct {
	Event    string `json:"event"`
	ID       string `json:"event_id"`
	Sequence int    `json:"sequence"`
	view
	Timestamp time.Time `json:"timestamp"`
	// Truncated means that artifacts are left out: there are more than fit.
	Truncated bool `json:"artifacts_truncated,omitempty"`
}

const (
	maxEventBody    = 20_000 // bytes
	maxEventMessage = 2000   // bytes of an error's message
)

// body returns what the callback is sent of an event, at most maxEventBody bytes.
func (t *Task) body(e Event) ([]byte, error) {
	b := eventBody{Event: e.Name, ID: t.eventID(e), Sequence: e.Sequence, view: t.view(), Timestamp: e.At}
	b.State, b.Progress = e.State, e.Progress
	if e.State != Failed {
		b.Error = nil
	}
	if e.State < Uploading {
		b.Artifacts = []Artifact{}
	}
	for {
		text, err := json.Marshal(b)
		if err != nil || len(text) <= maxEventBody || len(b.Artifacts) == 0 {
			return text, err
		}
		b.Artifacts, b.Truncated = b.Artifacts[:len(b.Artifacts)/2], true
	}
}
