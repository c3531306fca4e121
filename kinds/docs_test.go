package kinds

import (
	"os"
	"strings"
	"testing"
)

// TestK01TheDocumentHasEveryKey: docs/kinds.md is the reference of the file.
func TestK01TheDocumentHasEveryKey(t *testing.T) {
	text, err := os.ReadFile("../docs/kinds.md")
	if err != nil {
		t.Fatal(err)
	}
	_, reference, _ := strings.Cut(string(text), "\n## The kinds file\n")
	about, params, _ := strings.Cut(reference, "\n### Params\n")
	for _, name := range fieldNames {
		if !strings.Contains(about, "\n| `"+name+"` |") {
			t.Errorf("docs/kinds.md has no row for key %s", name)
		}
	}
	for _, name := range placeholders {
		if !strings.Contains(about, "\n| `{"+name+"}` |") {
			t.Errorf("docs/kinds.md has no row for {%s}", name)
		}
	}
	for _, name := range paramKeyNames {
		if !strings.Contains(params, "`"+name+"`") {
			t.Errorf("docs/kinds.md has no row for key %s of a param", name)
		}
	}
}
