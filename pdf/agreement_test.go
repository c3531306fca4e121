package pdf_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/pdf"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

// Each is read as other readers read it, as far as those are named: they do
// not agree on all.
func TestF78OtherReadersAgree(t *testing.T) {
	needTool(t, "pdftotext", "poppler-utils")
	needTool(t, "mutool", "mupdf-tools")
	for _, tt := range []struct {
		name    string
		data    []byte
		want    string // between white space
		readers string
	}{
		{
			"CMap with operators glued", toUnicode("3 beginbfchar <01> <0041> <02> <0042> <03> <0043> endbfcharendcmap"),
			"ABC", "pdftotext",
		},
		{
			"letterspaced words", showing(pdftest.Pages(), "BT /F 12 Tf 72 720 Td 4 Tc (Hello World) Tj 0 -20 Td [(Hello) -600 (there)] TJ ET", ""),
			"Hello World Hello there", "pdftotext",
		},
		{
			"text of a field", form("", "/FT /Tx /V <FEFF0048 0065 017E>", "/FT /Tx /Ff 4096 /V (two\\rlines)"),
			"form Hež two lines", "pdftotext mutool",
		},
		{
			"value of the field above, and fields that are drawn", form("", "/Parent 7 0 R", "/FT /Tx /V (value) /AP <</N 4 0 R>>"),
			"form from above drawn", "pdftotext mutool",
		},
		{
			"a stale appearance, and a choice", form(stale, "/FT /Tx /V (value) /AP <</N 4 0 R>>", "/FT /Ch /Ff 131072 /V (b) /Opt [[(b) (Banana)]]"),
			"form value Banana", "pdftotext",
		},
		{
			"a box that is off", form("", "/FT /Btn /V /Off /AS /Off"),
			"form", "pdftotext mutool",
		},
		{
			"attachments encrypted", onlyAttachmentsEncrypted(t, "aes-128.pdf", "/StmF /Identity /StrF /Identity /EFF /StdCF"),
			"in the clear and this", "pdftotext mutool",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "document.pdf")
			if err := os.WriteFile(path, tt.data, 0o600); err != nil {
				t.Fatal(err)
			}
			got := strings.ReplaceAll(text(t, open(t, tt.data, pdf.Options{})), "|", " ")
			if words(got) != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			for name, command := range map[string]*exec.Cmd{
				"pdftotext": exec.CommandContext(t.Context(), "pdftotext", "-enc", "UTF-8", path, "-"),
				"mutool":    exec.CommandContext(t.Context(), "mutool", "draw", "-q", "-F", "text", "-o", "-", path),
			} {
				if !strings.Contains(tt.readers, name) {
					continue
				}
				if out, err := command.Output(); err != nil || words(string(out)) != tt.want {
					t.Errorf("%s: %q, %v; want %q", name, out, err, tt.want)
				}
			}
		})
	}
}

// words returns the words of text, a blank apart.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

// toUnicode returns a page that shows the codes 1, 2 and 3 in a font with this
// CMap.
func toUnicode(cmap string) []byte {
	b := pdftest.Pages()
	n := b.Stream("", "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def 1 begincodespacerange <00> <ff> endcodespacerange "+cmap)
	b.Set(3, "<</Type /Font /Subtype /Type1 /BaseFont /Helvetica /FirstChar 1 /LastChar 3 /Widths [600 600 600] /ToUnicode %d 0 R>>", n)
	return showing(b, "BT /F 12 Tf 72 720 Td <010203> Tj ET", "")
}

// showing returns the file of b, which began with [pdftest.Pages], with one
// page of these contents and entries.
func showing(b *pdftest.Builder, contents, entries string) []byte {
	page := b.Add("<</Type /Page /Parent 2 0 R /Contents %d 0 R %s>>", b.Stream("", contents), entries)
	b.Set(2, "<</Type /Pages /Count 1 /Kids [%d 0 R] /MediaBox [0 0 595 842] /Resources <</Font <</F 3 0 R>>>>>>", page)
	return b.Table("")
}
