package zpe

import (
	"encoding/json"
	"errors"
)

// Report is what a result.json says, byte for byte: numbers are not read, so none loses a digit. It
// is what is delivered of a result; a [Document] is how one is made.
type Report struct {
	Result      json.RawMessage `json:"result"` // an object
	SummaryText *string         `json:"summary_text"`
	FreqsCSV    *string         `json:"freqs_csv"`
	Meta        json.RawMessage `json:"meta"` // an object, empty when there is none
}

// ParseReport reads a result.json. It returns an error if a part is missing or is of another type.
func ParseReport(text []byte) (Report, error) {
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return Report{}, err
	}
	switch {
	case len(r.Result) == 0 || r.Result[0] != '{':
		return Report{}, errors.New(`"result" is no object`)
	case r.SummaryText == nil || r.FreqsCSV == nil:
		return Report{}, errors.New(`"summary_text" or "freqs_csv" is missing`)
	case len(r.Meta) == 0:
		r.Meta = json.RawMessage(`{}`)
	case r.Meta[0] != '{':
		return Report{}, errors.New(`"meta" is no object`)
	}
	return r, nil
}
