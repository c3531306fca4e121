package wire

import (
	"bytes"
	"encoding/json"
)

// assigned has the members that a leader adds to a request for an attempt after the first one.
type assigned struct {
	Attempt    int   `json:"Attempt,omitempty"`
	Checkpoint *Blob `json:"Checkpoint,omitempty"`
}

// AssignPayload returns the payload of an AssignJob: the request with which attempt it is, and with what it is to go on from, nil for nothing.
// That of the first attempt is the request itself, and so is one whose frame has no room for more. Workers that do not know these members
// ignore them.
func AssignPayload(request []byte, subject string, attempt int, checkpoint *Blob) []byte {
	if attempt <= 1 && checkpoint == nil {
		return request
	}
	more, err := json.Marshal(assigned{attempt, checkpoint})
	if err != nil || len(request)+len(more)-len("}") > MaxFrame-minFrame-len(subject) {
		return request // the error cannot be: these are texts and numbers
	}
	last := bytes.LastIndexByte(request, '}')
	to := make([]byte, 0, len(request)+len(more))
	to = append(append(to, request[:last]...), ',')
	to = append(to, more[len("{"):]...)
	return append(to, request[last+1:]...)
}
