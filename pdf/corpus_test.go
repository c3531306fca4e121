package pdf_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/pdf"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

// minF1 is how much a reader's words must agree with another's, for every
// single document: these are small and plain, and where the others read a word
// differently there are few of them to make up for it.
const minF1 = 0.95

func TestF75AgreesWithOtherReaders(t *testing.T) {
	testrun.Long(t, "it takes much CPU")
	needTool(t, "pdfinfo", "poppler-utils")
	needTool(t, "pdftotext", "poppler-utils")
	needTool(t, "mutool", "mupdf-tools")
	needTool(t, "qpdf", "qpdf")
	for _, d := range corpus(t) {
		t.Run(d.name, func(t *testing.T) {
			data, err := os.ReadFile(d.path)
			if err != nil {
				t.Fatal(err)
			}
			var ours []string
			doc := open(t, data, pdf.Options{Password: d.password})
			for p, err := range doc.Pages(1, doc.NumPages()) {
				if err != nil {
					t.Error(err)
				}
				if p.HasText != (strings.TrimSpace(p.Text) != "") {
					t.Errorf("page %d: HasText is %v: %q", p.Number, p.HasText, p.Text)
				}
				ours = append(ours, p.Text)
			}
			if want := pagesByPdfinfo(t, d); doc.NumPages() != want {
				t.Errorf("%d pages, pdfinfo says %d", doc.NumPages(), want)
			}
			d.compare(t, ours, "pdftotext", "-enc", "UTF-8", "-upw", d.password, d.path, "-")
			d.compare(t, ours, "mutool", "draw", "-q", "-F", "text", "-p", d.password, "-o", "-", d.path)
		})
	}
}

// needTool fails where everything must be tested, and elsewhere skips the test
// and says why.
func needTool(t *testing.T, tool, debian string) {
	t.Helper()
	_, err := exec.LookPath(tool)
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("no %s: install the Debian package %s", tool, debian)
	default:
		t.Skipf("no %s: install the Debian package %s", tool, debian)
	}
}

// corpusDocument is a file that all readers are to agree on.
type corpusDocument struct{ name, path, password string }

// corpus returns the documents of testdata, documents that are built here, and
// what qpdf makes of some of them.
func corpus(t *testing.T) []corpusDocument {
	t.Helper()
	var documents []corpusDocument
	add := func(name, path string) {
		if name == "aes-128-umlaut.pdf" {
			return // the others take bytes for a password, not characters
		}
		d := corpusDocument{name: name, path: path}
		if strings.Contains(name, "password") {
			d.password = "user"
		}
		documents = append(documents, d)
	}
	fixtures, err := filepath.Glob("testdata/*.pdf")
	if err != nil || len(fixtures) == 0 {
		t.Fatalf("no documents in testdata: %v", err)
	}
	for _, path := range fixtures {
		add(filepath.Base(path), path)
	}
	dir := t.TempDir()
	for name, data := range builtDocuments() {
		path := filepath.Join(dir, name+".pdf")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		add("built "+name, path)
	}
	for _, source := range []string{"groff", "cairo"} {
		for name, args := range rewrites {
			path := filepath.Join(dir, source+"-"+name+".pdf")
			args = append(append([]string{"--allow-weak-crypto"}, args...), "testdata/"+source+".pdf", path)
			if out, err := exec.CommandContext(t.Context(), "qpdf", args...).CombinedOutput(); err != nil {
				t.Fatalf("qpdf %v: %v: %s", args, err, out)
			}
			add(source+" "+name, path)
		}
	}
	return documents
}

// rewrites are the structures that qpdf gives a file, by its arguments.
var rewrites = map[string][]string{
	"linearized":       {"--linearize"},
	"packed":           {"--object-streams=generate"},
	"unpacked":         {"--object-streams=disable", "--compress-streams=n"},
	"for editing":      {"--qdf"},
	"RC4 40":           {"--encrypt", "", "owner", "40", "--"},
	"RC4 128":          {"--encrypt", "", "owner", "128", "--use-aes=n", "--"},
	"AES 128":          {"--encrypt", "", "owner", "128", "--use-aes=y", "--"},
	"AES 256":          {"--encrypt", "", "owner", "256", "--"},
	"AES 256 password": {"--object-streams=generate", "--encrypt", "user", "owner", "256", "--"},
}

func builtDocuments() map[string][]byte {
	const page = "The porter gives a numbered tag\nfor each umbrella, (large) dog and bag."
	three := func() *pdftest.Builder { return pdftest.Pages(page, "", "A third page, after a blank one.") }
	cut := three().Table("")
	many := make([]string, 40)
	for i := range many {
		many[i] = fmt.Sprintf("page %d of forty\n%s", i+1, page)
	}
	return map[string][]byte{
		"table":           three().Table(""),
		"packed":          three().Packed(""),
		"forty pages":     pdftest.Pages(many...).Packed(""),
		"wrong startxref": bytes.Replace(three().Table(""), []byte("startxref\n"), []byte("startxref\n9"), 1),
		"cut off":         cut[:bytes.LastIndex(cut, []byte("startxref"))],
	}
}

func pagesByPdfinfo(t *testing.T, d corpusDocument) (n int) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "pdfinfo", "-upw", d.password, d.path).Output()
	if err != nil {
		t.Fatalf("pdfinfo: %v", err)
	}
	_, rest, _ := strings.Cut(string(out), "\nPages:")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		t.Fatalf("pdfinfo says no number of pages: %s", out)
	}
	return n
}

// compare compares our pages with those of another reader, which writes a form
// feed after each.
func (d corpusDocument) compare(t *testing.T, ours []string, reader string, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), reader, args...).Output()
	if err != nil {
		t.Fatalf("%s: %v", reader, err)
	}
	theirs := strings.Split(string(out), "\f")
	theirs = theirs[:len(theirs)-1]
	if len(ours) != len(theirs) {
		t.Errorf("%d pages, %s writes %d", len(ours), reader, len(theirs))
		return
	}
	for i := range ours {
		if a, b := strings.TrimSpace(ours[i]) != "", strings.TrimSpace(theirs[i]) != ""; a != b {
			t.Errorf("page %d has text: %v, %s says %v", i+1, a, reader, b)
		}
	}
	if f := wordF1(strings.Join(ours, "\n"), strings.Join(theirs, "\n")); f < minF1 {
		t.Errorf("F1 of words against %s is %.3f, want %v\nours: %q\ntheirs: %q", reader, f, minF1, ours, theirs)
	}
}

// wordF1 is twice the words two texts have in common by the words of both,
// after compatibility normalization: a ligature is its letters.
func wordF1(a, b string) float64 {
	words := func(text string) (n int, counts map[string]int) {
		counts = map[string]int{}
		for word := range strings.FieldsSeq(norm.NFKC.String(text)) {
			counts[word]++
			n++
		}
		return n, counts
	}
	n, as := words(a)
	m, bs := words(b)
	if n+m == 0 {
		return 1
	}
	common := 0
	for word, count := range as {
		common += min(count, bs[word])
	}
	return 2 * float64(common) / float64(n+m)
}
