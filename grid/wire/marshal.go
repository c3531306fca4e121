package wire

import (
	"bytes"
	"encoding/json"
)

// MarshalRequest returns the payload of a SubmitJob. Args and Files are never null, which other workers could not read.
func MarshalRequest(r *JobRequest) ([]byte, error) {
	full := *r
	if full.Args == nil {
		full.Args = []string{}
	}
	if full.Files == nil {
		full.Files = []InputFile{}
	}
	return marshal(full)
}

// MarshalResult returns the payload of an AckJob. Bytes of the output that are not UTF-8 become U+FFFD.
func MarshalResult(r *JobResult) ([]byte, error) { return marshal(r) }

// marshal is json.Marshal, but leaves <, > and & as they are.
func marshal(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
