package kinds

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/batchfleet/batchfleet/jobs"
)

// Own returns a kind that is not in a file but in a program: it has the defaults of the file, no
// command, and takes any parameters, which its function reads itself.
func Own(name jobs.Kind) *Kind {
	k := withDefaults(name)
	k.free = true
	return k
}

// IsOwn reports whether a kind is one that [Own] has made.
func (k *Kind) IsOwn() bool { return k.free }

// Add adds a kind that [Own] has made. A kind of the file may not have its name.
func (s *Set) Add(k *Kind) error {
	if other := s.Get(k.Name); other != nil && !other.IsOwn() {
		return fmt.Errorf("%s: kind %q is one that this program was built with: give it another name", s.File, k.Name)
	}
	if s.byName == nil {
		s.byName = map[jobs.Kind]*Kind{}
	}
	s.Kinds, s.byName[k.Name] = append(s.Kinds, k), k
	return nil
}

// Remove takes kinds out of the set. It is not for concurrent use.
func (s *Set) Remove(names []jobs.Kind) {
	for _, name := range names {
		delete(s.byName, name)
	}
	s.Kinds = slices.DeleteFunc(s.Kinds, func(k *Kind) bool { return s.byName[k.Name] == nil })
}

// Check returns what is wrong with the fields of a kind that [Own] has made.
func (k *Kind) Check() error {
	var wrong []error
	say := func(bad bool, format string, args ...any) {
		if bad {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	say(!nameForm().MatchString(string(k.Name)), "the name must match %s", nameForm())
	say(reserved[string(k.Name)] != "", "the name is %s: choose another one", reserved[string(k.Name)])
	say(k.Timeout != 0 && (k.Timeout < minTime || k.Timeout > maxTimeout), "Timeout is %s: must be from %s to %s", k.Timeout, minTime, maxTimeout)
	say(k.Slots < 0 || k.Slots > maxSlots, "Slots is %d: must be from 0 to %d", k.Slots, maxSlots)
	say(k.GPUs < 0 || k.GPUs > maxGPUs, "GPUs is %d: must be from 0 to %d", k.GPUs, maxGPUs)
	say(k.Retries < 0 || k.Retries > maxRetries, "Retries is %d: must be from 0 to %d", k.Retries, maxRetries)
	say(k.Backoff < 0 || k.BackoffMax < 0 || k.Backoff > maxTimeout || k.BackoffMax > maxTimeout, "Backoff is %s and MaxBackoff %s: must be from 0 to %s", k.Backoff, k.BackoffMax, maxTimeout)
	say(k.MaxInput < 1 || k.MaxInput > maxSize, "MaxInput is %d: must be from 1 to %d", k.MaxInput, maxSize)
	say(k.Checkpoints < 0 || k.Checkpoints > maxSize, "MaxCheckpoint is %d: must be from 0 to %d", k.Checkpoints, maxSize)
	return errors.Join(wrong...)
}

// freeParams checks parameters of which nothing is known but that they are an object.
func freeParams(raw json.RawMessage) (json.RawMessage, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) > MaxParams {
		return nil, &ParamsError{[]*ParamError{{Text: fmt.Sprintf("are %d bytes long: at most %d are allowed", len(raw), MaxParams)}}}
	}
	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage("{}"), nil
	}
	v := jsontext.Value(bytes.Clone(raw))
	if err := v.Compact(); err != nil { // refuses a name that is given twice
		return nil, &ParamsError{[]*ParamError{{Text: badJSON(err)}}}
	}
	if v.Kind() != '{' {
		return nil, &ParamsError{[]*ParamError{{Text: fmt.Sprintf("are %s: want an object", jsonName(v.Kind()))}}}
	}
	return json.RawMessage(v), nil
}

// freeParam reads what a person gave for a parameter of which nothing is known: a number, true or
// false, or else a text.
func freeParam(text string) json.RawMessage {
	if v := jsontext.Value(text); len(text) <= maxNumber && v.IsValid() && (v.Kind() == '0' || v.Kind() == 't' || v.Kind() == 'f') {
		return json.RawMessage(text)
	}
	quoted, _ := json.Marshal(text) // a string can always be written
	return quoted
}

// IsFinal reports whether a job whose program has ended with this exit code does not run again.
func (k *Kind) IsFinal(code int) bool { return contains(k.FinalExit, code) }

// IsRetry reports whether a job whose program has ended with this exit code runs again, even
// without Retries.
func (k *Kind) IsRetry(code int) bool { return contains(k.RetryExit, code) }
