package httpd

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// CanonicalJSON returns the one text for a JSON value: no space, keys sorted as in
// RFC 8785, strings with only the escapes they need. Numbers stay as they are
// written, so 1e-17 and integers of any size survive, and 1.0 is not 1. Two texts
// that differ only in form have the same canonical text. The error is a [BodyError],
// or a [StatusError] of 413, for the same reasons as in [ReadJSON].
func CanonicalJSON(raw []byte) ([]byte, error) {
	var values counter
	if values.add(raw); values.n > maxValues {
		return nil, errValues
	}
	s := scanner{data: raw}
	if err := s.document(nil); err != nil {
		return nil, err
	}
	out := bytes.NewBuffer(make([]byte, 0, len(raw)/4*5+bytes.MinRead)) // a quarter more, or the encoder doubles it at the end
	// That no name is there twice is known.
	if err := jsontext.NewEncoder(out, jsontext.ReorderRawObjects(true), jsontext.AllowDuplicateNames(true)).WriteValue(raw); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
