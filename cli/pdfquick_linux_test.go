package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

// A small document is printed before most packages are initialised, and whoever
// looks at what comes out cannot tell.
func TestF77SmallDocumentIsPrintedAtOnceAndNoOtherwise(t *testing.T) {
	t.Parallel()
	testrun.Once(t, "what is printed tells it")
	hostile := pdftest.Pages("one", "two").Table("")
	tests := []struct {
		name  string
		data  []byte
		env   string
		quick bool
	}{
		{"a page", pdftest.Pages("a page\nof two lines").Table(""), "", true},
		{"pages, one without text", pdftest.Pages("one", "", "three").Table(""), "", true},
		{"no pages", pdftest.Pages().Table(""), "", true},
		{"not a document", []byte("Dear Sir or Madam"), "", false},
		{"cut off", hostile[:len(hostile)/2], "", false},
		{"a page too large to keep", pdftest.Pages(strings.Repeat("a long line\n", 1<<17)).Table(""), "", false},
		{"with a setting", pdftest.Pages("one", "two").Table(""), "MAX_PAGES=1", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "-a\x1b.pdf")
			if err := os.WriteFile(file, tt.data, 0o600); err != nil {
				t.Fatal(err)
			}
			said := func(args ...string) (stdout, stderr string, code int, inits bool) {
				code, stdout, stderr = output(t, batchfleet(t, []string{"GODEBUG=inittrace=1", tt.env}, args...))
				var rest []string
				for line := range strings.Lines(stderr) {
					if !strings.HasPrefix(line, "init ") {
						rest = append(rest, line)
					}
				}
				return stdout, strings.Join(rest, ""), code, strings.Contains(stderr, "init google.golang.org/grpc @")
			}
			out, errs, code, slow := said("pdf", file)
			wantOut, wantErrs, wantCode, _ := said("pdf", "--workers=1", file)
			if out != wantOut || errs != wantErrs || code != wantCode {
				t.Errorf("printed %q, %q, %d; want %q, %q, %d", out, errs, code, wantOut, wantErrs, wantCode)
			}
			if slow == tt.quick {
				t.Errorf("initialised all %t, want %t", slow, !tt.quick)
			}
		})
	}
}
