package batchfleet

import (
	"flag"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/internal/testrun"
)

var update = flag.Bool("update", false, "write the directories of the tests into docs/requirements.md")

const requirements = "docs/requirements.md"

// carriers are the files in which tests carry ids, and how: TestF17F18… in Go,
// test_f61_… in Python, the steps of a check in a shell script.
var carriers = map[string]*regexp.Regexp{
	"_test.go": regexp.MustCompile(`(?m)^func (?:Test|Fuzz)((?:[A-Z]\d\d)+)`),
	".py":      regexp.MustCompile(`(?m)^(?:async )?def test_((?:[a-z]\d\d_)+)`),
	".sh":      regexp.MustCompile(`(?m)^step "([A-Z]-\d\d):`),
}

var (
	id  = regexp.MustCompile(`([A-Z])-?(\d\d)`)
	row = regexp.MustCompile(`(?m)^\| ([A-Z]-\d\d) \| (.+) \| (.*)\|$`)
)

func TestRequirementsAndTestsKnowEachOther(t *testing.T) {
	testrun.Once(t, "it only reads files")
	tested := idsOfTests(t)
	text, err := os.ReadFile(requirements)
	if err != nil {
		t.Fatal(err)
	}
	built, unbuilt, ok := strings.Cut(string(text), "## Not yet built")
	if !ok {
		t.Fatalf("%s lists nothing under Not yet built", requirements)
	}
	listed := map[string]bool{}
	written := row.ReplaceAllStringFunc(built, func(line string) string {
		cells := row.FindStringSubmatch(line)
		if listed[cells[1]] {
			t.Errorf("%s is in the table twice", cells[1])
		}
		listed[cells[1]] = true
		if len(tested[cells[1]]) == 0 {
			t.Errorf("%s has no test: write one, or list it under Not yet built", cells[1])
		}
		for dir := range strings.SplitSeq(strings.TrimSpace(cells[3]), ", ") {
			if !tested[cells[1]][dir] && !*update {
				t.Errorf("%s: no test in %q has the id: go test . -run Requirements -update", cells[1], dir)
			}
		}
		return "| " + cells[1] + " | " + cells[2] + " | " + strings.Join(slices.Sorted(maps.Keys(tested[cells[1]])), ", ") + " |"
	})
	for _, known := range slices.Sorted(maps.Keys(tested)) {
		if !listed[known] {
			t.Errorf("%s is in the names of tests (%s) and not in the table", known, slices.Sorted(maps.Keys(tested[known])))
		}
		if strings.Contains(unbuilt, known+":") {
			t.Errorf("%s has tests and is listed under Not yet built", known)
		}
	}
	if *update {
		if err := os.WriteFile(requirements, []byte(written+"## Not yet built"+unbuilt), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// idsOfTests returns the directories of the tests by the ids in their names.
func idsOfTests(t *testing.T) map[string]map[string]bool {
	t.Helper()
	all := map[string]map[string]bool{}
	walk(t, func(file string) {
		for suffix, names := range carriers {
			if !strings.HasSuffix(file, suffix) {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names.FindAllStringSubmatch(string(text), -1) {
				for _, parts := range id.FindAllStringSubmatch(strings.ToUpper(name[1]), -1) {
					key := parts[1] + "-" + parts[2]
					if all[key] == nil {
						all[key] = map[string]bool{}
					}
					all[key]["`"+path.Dir(file)+"`"] = true
				}
			}
		}
	})
	return all
}

// walk calls visit with the files of the repository, without those that tools have put there.
func walk(t *testing.T, visit func(file string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && (name == "node_modules" || name == "bin" || name == "dist" || name == "dev_storage" || name == "local_storage" || strings.HasPrefix(name, ".") && name != "." && name != ".github") {
			return fs.SkipDir
		}
		if d.Type().IsRegular() {
			visit(filepath.ToSlash(file))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
