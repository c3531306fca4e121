package pdf_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/pdf"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

var encryption = regexp.MustCompile(`(?s)<< /CF.*?/V \d >>`)

// onlyAttachmentsEncrypted returns a file in the clear with the encryption
// dictionary of a fixture, whose filters are as given.
func onlyAttachmentsEncrypted(t *testing.T, name, filters string) []byte {
	t.Helper()
	dict := encryption.FindString(string(fixture(t, name)))
	if !strings.Contains(dict, "/StmF /StdCF /StrF /StdCF") {
		t.Fatalf("no crypt filters in %q", dict)
	}
	b := pdftest.Pages("in the clear", "and this")
	info := b.Add("<</Title (Orders)>>")
	handler := b.Add("%s", strings.Replace(dict, "/StmF /StdCF /StrF /StdCF", filters, 1))
	b.Stream("/Type /EmbeddedFile /Filter [/Crypt] /DecodeParms [<</Name /StdCF>>]", "sealed, for all we know")
	return b.Table(fmt.Sprintf("/Info %d 0 R /Encrypt %d 0 R /ID [<00112233445566778899aabbccddeeff> <31>]", info, handler))
}

func TestF78EncryptedAttachmentsLeaveTheRestReadable(t *testing.T) {
	for _, tt := range []struct{ name, file, filters string }{
		{"by name, with an unknown password", "aes-256-password.pdf", "/StmF /Identity /StrF /Identity /EFF /StdCF"},
		{"by default, with an unknown password", "aes-256-password.pdf", "/EFF /StdCF"},
		{"by name, without a password", "aes-256.pdf", "/StmF /Identity /StrF /Identity /EFF /StdCF"},
		{"by name, 128 bits", "aes-128.pdf", "/StmF /Identity /StrF /Identity /EFF /StdCF"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data := onlyAttachmentsEncrypted(t, tt.file, tt.filters)
			d := open(t, data, pdf.Options{})
			if got := text(t, d); got != "in the clear|and this" {
				t.Errorf("text is %q", got)
			}
			if info := d.Info(); info.Title != "Orders" || !info.Encrypted {
				t.Errorf("title %q, encrypted %v; want Orders, true", info.Title, info.Encrypted)
			}
		})
	}
}

// What is encrypted all the same is an error of its page, not text.
func TestF78ContentsThatNeedAPasswordAreAnError(t *testing.T) {
	b := pdftest.Pages("clear")
	handler := b.Add("<</Filter /Standard /V 5 /R 6 /EFF /StdCF /CF <</StdCF <</CFM /AESV3>>>>>>")
	contents := b.Stream("/Filter /Crypt /DecodeParms <</Name /StdCF>>", strings.Repeat("sealed", 20))
	b.Set(5, "<</Type /Page /Parent 2 0 R /Contents %d 0 R>>", contents)
	d := open(t, b.Table(fmt.Sprintf("/Encrypt %d 0 R", handler)), pdf.Options{})
	if p, err := d.Page(1); !errors.Is(err, pdf.ErrPassword) || p.Text != "" {
		t.Errorf("got %q, %v; want ErrPassword", p.Text, err)
	}
}
