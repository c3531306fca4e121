package cli

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// boardShows reports whether the Grafana board of a part shows at least so many metrics, and none that is not in page:
// what a part has answered at /metrics after it had something to do.
func boardShows(t *testing.T, part string, atLeast int, page string) {
	t.Helper()
	text, err := os.ReadFile("../deploy/grafana-" + part + ".json")
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(text) {
		t.Error("the board is no JSON")
	}
	names := regexp.MustCompile(`batchfleet_[a-z_]+`).FindAllString(string(text), -1)
	if len(names) < atLeast {
		t.Errorf("the board shows only %d metrics", len(names))
	}
	for _, name := range names {
		if !strings.Contains(page, name) {
			t.Errorf("the board shows %s, which no %s has", name, part)
		}
	}
}
