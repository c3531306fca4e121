package wire

import (
	"encoding/json"
	"errors"
	"fmt"
)

// MaxInputs is how many inputs a job may have.
const MaxInputs = 1000

// Names returns the inputs of either field.
func (r *SubmitRequest) Names() []string {
	if r.Input != "" {
		return []string{r.Input}
	}
	return r.Inputs
}

// severalInputs is the payload of a job with several inputs: `{"input":[` begins it, by which lease.lua knows such a job. A
// worker from before there were such jobs cannot read it, and so does not run the job without its inputs.
type severalInputs struct {
	Input  []string        `json:"input"`
	Params json.RawMessage `json:"params"`
}

// Payload returns what the worker of the job gets: the request itself, unless it has several inputs.
func (r *SubmitRequest) Payload() any {
	if len(r.Inputs) > 0 {
		return severalInputs{r.Inputs, r.Params}
	}
	return r
}

// ParsePayload reads the payload of a job of a kind beside zpe.
func ParsePayload(text []byte) (r SubmitRequest, err error) {
	var p struct {
		Params, Input json.RawMessage
	}
	if err = json.Unmarshal(text, &p); err != nil {
		return r, err
	}
	r.Params = p.Params
	switch {
	case len(p.Params) == 0:
		err = errors.New("there are no params")
	case len(p.Input) > 0 && p.Input[0] == '[':
		if err = json.Unmarshal(p.Input, &r.Inputs); err == nil && (len(r.Inputs) < 2 || len(r.Inputs) > MaxInputs) {
			err = fmt.Errorf("there are %d inputs: want 2 to %d", len(r.Inputs), MaxInputs)
		}
	case len(p.Input) > 0:
		err = json.Unmarshal(p.Input, &r.Input)
	}
	return r, err
}
