package operations

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/cli/openapi"
	"github.com/batchfleet/batchfleet/jobapi"
)

// limits is what the API's description says of a field.
type limits struct {
	Type      any      `json:"type"` // a word, or several
	Minimum   *float64 `json:"minimum"`
	Maximum   *float64 `json:"maximum"`
	MaxLength int      `json:"maxLength"`
	MaxItems  int      `json:"maxItems"`
	Default   any      `json:"default"`
}

// word is the type of a value that is not null.
func (l limits) word() string {
	if several, ok := l.Type.([]any); ok {
		return fmt.Sprint(several[0])
	}
	return fmt.Sprint(l.Type)
}

// row is how the row of a field begins in docs/operations.md, as far as it is known from the
// description.
func (l limits) row(op, field string) string {
	row := fmt.Sprintf("| `%s` | `%s` | ", op, field)
	if op == "each" {
		row = fmt.Sprintf("| each | `%s` | ", field)
	}
	if l.Minimum != nil && l.Maximum != nil {
		row += fmt.Sprintf("%v to %.0f | ", *l.Minimum, *l.Maximum)
		if l.Default != nil {
			row += fmt.Sprintf("%v | ", l.Default)
		}
	}
	return row
}

// TestJ22LimitsOfTheDescription sends what each field may just be, and what it may
// just not be.
func TestJ22LimitsOfTheDescription(t *testing.T) {
	t.Parallel()
	var doc struct {
		Components struct {
			Schemas map[string]json.RawMessage `json:"schemas"` // only requests are as the next one
		} `json:"components"`
	}
	if err := json.Unmarshal(openapi.JSON(), &doc); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	r, sent := newRig(t), 0
	try := func(op, field string, value any, good bool) {
		t.Helper()
		sent++
		body := maps.Clone(map[string]map[string]any{"submit-batch": {"objects": []string{"a"}}, "purge": {"olderThanDays": 1}}[op])
		if body == nil {
			body = map[string]any{}
		}
		body[field] = value
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.request(op, string(b))
		wrong := (*jobapi.FieldError)(nil)
		if good && err != nil || !good && (!errors.As(err, &wrong) || wrong.Field != field) {
			t.Errorf("%s %.80s: %v, but the description says that it is good: %v", op, b, err, good)
		}
	}
	for op, schema := range map[string]string{
		"start": "Start", "drain": "Drain", "fsck": "Fsck", "submit-batch": "SubmitBatch", "redrive": "Redrive", "purge": "Purge",
	} {
		var request struct {
			Properties map[string]limits `json:"properties"`
		}
		if err := json.Unmarshal(doc.Components.Schemas[schema+"Request"], &request); err != nil || len(request.Properties) == 0 {
			t.Errorf("request of %s: %d fields, %v", op, len(request.Properties), err)
		}
		for field, l := range request.Properties {
			of := op
			if field == "timeoutMs" || field == "dryRun" {
				of = "each"
			}
			if row := l.row(of, field); !strings.Contains(string(page), row) {
				t.Errorf("docs/operations.md has no row that begins with %q", row)
			}
			if field == "timeoutMs" { // package jobapi looks at it
				continue
			}
			step := map[string]float64{"integer": 1, "number": 0.001}[l.word()]
			if (l.Minimum == nil || l.Maximum == nil) != (step == 0) {
				t.Errorf("%s: %s is a number without limits", op, field)
				continue
			}
			if step > 0 {
				try(op, field, *l.Minimum, true)
				try(op, field, *l.Minimum-step, false)
				try(op, field, *l.Maximum, true)
				try(op, field, *l.Maximum+step, false)
			}
			if l.MaxLength > 0 {
				try(op, field, strings.Repeat("r", l.MaxLength), true)
				try(op, field, strings.Repeat("r", l.MaxLength+1), false)
			}
			if l.MaxItems > 0 {
				names := strings.Split(strings.Repeat("a", l.MaxItems), "")
				try(op, field, names, true)
				try(op, field, append(names, "a"), false)
			}
		}
	}
	if sent < 35 {
		t.Errorf("only %d values were sent", sent)
	}
}
