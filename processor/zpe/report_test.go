package zpe

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestReportKeepsEveryByteOfAResult(t *testing.T) {
	t.Parallel()
	const result = `{"zpe_ev":0.26640000000000003,"n":123456789012345678901234567890,  "tiny":1e-17}`
	r, err := ParseReport([]byte(`{"result":` + result + `,"summary_text":"ZPE <0.27> eV","freqs_csv":"","more":1}`))
	if err != nil || string(r.Result) != result || *r.SummaryText != "ZPE <0.27> eV" || *r.FreqsCSV != "" || string(r.Meta) != "{}" {
		t.Errorf("read %s %v %v %s, %v", r.Result, r.SummaryText, r.FreqsCSV, r.Meta, err)
	}
}

func TestReportThatLacksAPartIsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`hello`: "invalid character", `{"result":{},"summary_text":"`: "unexpected end",
		`{}`: `"result" is no object`, `{"result":[1],"summary_text":"","freqs_csv":""}`: `"result" is no object`,
		`{"result":{},"freqs_csv":""}`:                                   `"summary_text" or "freqs_csv" is missing`,
		`{"result":{},"summary_text":"","freqs_csv":null}`:               `"summary_text" or "freqs_csv" is missing`,
		`{"result":{},"summary_text":"","freqs_csv":"","meta":3}`:        `"meta" is no object`,
		`{"result":{},"summary_text":["a"],"freqs_csv":"","meta":{}}`:    "cannot unmarshal array",
		`{"result":{},"summary_text":"","freqs_csv":"","meta":{}} extra`: "after top-level value",
	} {
		if r, err := ParseReport([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %q", text, r, err, want)
		}
	}
}

func FuzzParseReport(f *testing.F) {
	f.Add([]byte(`{"result":{"a":1e-17},"summary_text":"s","freqs_csv":"c","meta":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ParseReport(text)
		if err != nil {
			return
		}
		body, err := json.Marshal(r)
		if err != nil {
			t.Errorf("%q cannot be sent: %v", text, err)
		}
		again, err := ParseReport(body)
		if err != nil || *again.SummaryText != *r.SummaryText || *again.FreqsCSV != *r.FreqsCSV {
			t.Errorf("%q became %q, %v", text, body, err)
		}
	})
}
