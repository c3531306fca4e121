package batchfleet

import (
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/batchfleet/batchfleet/internal/testrun"
)

var (
	fence    = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	indented = regexp.MustCompile(`(?m)^(?:    |\t).*$`)
	code     = regexp.MustCompile("`[^`\n]*`")
	link     = regexp.MustCompile(`\]\(<?([^()\s<>]+)>?\)`)
	heading  = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *#*$`)
	testName = regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z0-9_]*)`")
)

func TestLinksInDocumentsLeadSomewhere(t *testing.T) {
	testrun.Once(t, "it only reads files")
	documents := markdown(t)
	for file, text := range documents {
		for _, found := range link.FindAllStringSubmatch(prose(text), -1) {
			u, err := url.Parse(found[1])
			if err != nil {
				t.Errorf("%s: link %s: %v", file, found[1], err)
				continue
			}
			if u.Scheme != "" {
				continue // elsewhere
			}
			to := file
			if u.Path != "" {
				to = path.Join(path.Dir(file), u.Path)
			}
			if _, err := os.Stat(to); err != nil || strings.HasPrefix(to, "..") {
				t.Errorf("%s: link %s: there is no %s", file, found[1], to)
				continue
			}
			if u.Fragment == "" {
				continue
			}
			if other, ok := documents[to]; !ok || !anchors(other)[u.Fragment] {
				t.Errorf("%s: link %s: %s has no such heading", file, found[1], to)
			}
		}
	}
}

func TestTestsThatDocumentsNameExist(t *testing.T) {
	testrun.Once(t, "it only reads files")
	var tests strings.Builder
	walk(t, func(file string) {
		if strings.HasSuffix(file, "_test.go") {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			tests.Write(text)
		}
	})
	all := tests.String()
	for file, text := range markdown(t) {
		for _, found := range testName.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(all, "\nfunc "+found[1]+"(") {
				t.Errorf("%s names %s, which is no test", file, found[1])
			}
		}
	}
}

// markdown returns the documents of the repository by their names.
func markdown(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	walk(t, func(file string) {
		if !strings.HasSuffix(file, ".md") {
			return
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[file] = string(text)
	})
	return all
}

// prose returns a document without its code.
func prose(text string) string {
	text = fence.ReplaceAllString(text, "")
	text = indented.ReplaceAllString(text, "")
	return code.ReplaceAllString(text, "")
}

// anchors returns the names that GitHub gives the headings of a document: lower case,
// blanks as hyphens, without punctuation.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, found := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, found[1])
		all[name] = true
	}
	return all
}
