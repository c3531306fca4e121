package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

// The text of a job or a dead letter must not reach a terminal as commands.
func TestF63JSONHoldsNothingThatATerminalActsOn(t *testing.T) {
	const evil = "\x1b[2J\u009b31m\x7f\u202e\u2028\U000e0001<&é\r\n\t"
	if got, want := oneLine(evil), `\x1b[2J\u009b31m\x7f\u202e\u2028\U000e0001<&é  `; got != want {
		t.Errorf("as a line it is %q, want %q", got, want)
	}
	var out bytes.Buffer
	if err := printJSON(&out, map[string]string{evil: evil}); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(out.String(), "\n") {
		t.Errorf("%q does not end its line", out.String())
	}
	for _, r := range strings.TrimSuffix(out.String(), "\n") {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			t.Errorf("%q holds %U", out.String(), r)
		}
	}
	var got map[string]string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got[evil] != evil {
		t.Errorf("%q is read as %q, %v", out.String(), got, err)
	}
}
