package processor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfleet/batchfleet/pdf"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

// testdata returns a document that the tests of the reader use.
func testdata(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "pdf", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// serve lets ServePDF answer one request in this process.
func serve(t *testing.T, data []byte, req pdfRequest) []pdfReply {
	t.Helper()
	if data != nil {
		path := filepath.Join(t.TempDir(), "in\xffput") // a name is bytes, not text
		req.Path = []byte(path)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	line, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := ServePDF(strings.NewReader(string(line)+"\n"), &out); err != nil {
		t.Fatal(err)
	}
	var replies []pdfReply
	for line := range strings.Lines(out.String()) {
		var r pdfReply
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		replies = append(replies, r)
	}
	return replies
}

// told writes replies as one word each.
func told(replies []pdfReply) string {
	var words []string
	for _, r := range replies {
		switch {
		case r.Opened != nil:
			words = append(words, fmt.Sprintf("opened:%d", r.Opened.Pages))
		case r.Page != nil:
			words = append(words, fmt.Sprint(r.Page.Page))
		case r.Done:
			words = append(words, "done")
		default:
			words = append(words, r.Failed)
		}
	}
	return strings.Join(words, " ")
}

func TestF73ChildAnswersPageByPage(t *testing.T) {
	t.Parallel()
	five := pdftest.Pages("one", "two", "three", "four", "five").Table("")
	tests := []struct {
		name string
		data []byte
		req  pdfRequest
		want string
	}{
		{"from the first page", five, pdfRequest{From: 1}, "opened:5 1 2 3 4 5 done"},
		{"resume", five, pdfRequest{From: 4}, "opened:5 4 5 done"},
		{"resume after the last page", five, pdfRequest{From: 6}, "opened:5 done"},
		{"no pages", pdftest.Pages().Table(""), pdfRequest{From: 1}, "opened:0 done"},
		{"with the password", testdata(t, "aes-256-password.pdf"), pdfRequest{From: 1, Password: "user"}, "opened:1 1 done"},
		{"without the password", testdata(t, "aes-256-password.pdf"), pdfRequest{From: 1}, "document is encrypted and needs a password"},
		{"empty", []byte{}, pdfRequest{From: 1}, "input is not a PDF"},
		{"no file", nil, pdfRequest{Path: []byte("/nowhere"), From: 1}, "cannot open the file: no such file or directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := told(serve(t, tt.data, tt.req)); got != tt.want {
				t.Errorf("replies %q, want %q", got, tt.want)
			}
		})
	}
}

func TestF41ChildSaysWhatTheReaderSays(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plain.pdf", "groff.pdf", "ghostscript.pdf", "cairo.pdf", "aes-128.pdf", "rc4-40.pdf"} {
		t.Run(name, func(t *testing.T) {
			data := testdata(t, name)
			replies := serve(t, data, pdfRequest{From: 1})
			doc, err := pdf.Open(strings.NewReader(string(data)), int64(len(data)), pdf.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := replies[0].Opened.Info, documentInfo(doc); cmp.Diff(want, got) != "" {
				t.Errorf("info: -want +got:\n%s", cmp.Diff(want, got))
			}
			for n := 1; n <= doc.NumPages(); n++ {
				page, err := doc.Page(n)
				if err != nil {
					t.Fatal(err)
				}
				want := Record{Page: n, Text: page.Text, Words: page.Words, Characters: page.Characters, Images: page.Images, HasText: page.HasText}
				if diff := cmp.Diff(want, *replies[n].Page); diff != "" {
					t.Errorf("page %d: -want +got:\n%s", n, diff)
				}
			}
		})
	}
}

func TestF41HugeTextOfAPageIsCut(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("word ", 20)
	data := pdftest.Pages(strings.TrimSuffix(strings.Repeat(line+"\n", (5<<20)/len(line)), "\n"), "small").Table("")
	replies := serve(t, data, pdfRequest{From: 1})
	if got := told(replies); got != "opened:2 1 2 done" {
		t.Fatalf("replies %q", got)
	}
	if p := replies[1].Page; len(p.Text) > maxPageText || len(p.Text) < maxPageText-100 || p.Words != len(strings.Fields(p.Text)) || !strings.Contains(p.Warning, "page 1: over a limit: more than 4194304 bytes of text") {
		t.Errorf("text of %d bytes, warning %q", len(p.Text), p.Warning)
	}
	if p := replies[2].Page; p.Warning != "" {
		t.Errorf("warning of the second page: %q", p.Warning)
	}
}

func TestF73ChildThatCannotTalkFails(t *testing.T) {
	t.Parallel()
	if err := ServePDF(strings.NewReader(""), io.Discard); err != nil {
		t.Errorf("no request: %v, want an end in peace", err)
	}
	if err := ServePDF(strings.NewReader("noise\n"), io.Discard); err == nil || !strings.Contains(err.Error(), "read request") {
		t.Errorf("bad request: %v", err)
	}
	if err := ServePDF(iotest.ErrReader(errors.New("cut")), io.Discard); err == nil {
		t.Error("a request that breaks off is no error")
	}
	r, w := io.Pipe()
	_ = r.Close()
	if err := ServePDF(strings.NewReader(`{"path":"L25vd2hlcmU="}`), w); err == nil || !strings.Contains(err.Error(), "write reply") {
		t.Errorf("no parent: %v", err)
	}
}

func FuzzReply(f *testing.F) {
	f.Add(`{"opened":{"pages":2}}` + "\n" + `{"page":{"page":1}}` + "\n" + `{"page":{"page":2}}` + "\n" + `{"done":true}`)
	f.Add(`{"page":{"page":1}}`)
	f.Add(`{"opened":{"pages":-1}}` + "\n" + `{"opened":{"pages":9}}`)
	f.Add(`{"failed":"no"}` + "\nnull\n{}")
	f.Add(`{"opened":{"pages":1,"info":{"created":"2026-01-01T00:00:00Z"}},"page":{"page":1},"done":true}`)
	f.Fuzz(func(t *testing.T, lines string) {
		pages, last, done := -1, 0, false
		c := childReplies{next: 1, out: Sink{
			Open: func(n int, about json.RawMessage) error {
				if pages >= 0 || !json.Valid(about) {
					t.Errorf("opened again, or described by %s", about)
				}
				if pages = n; n < 0 {
					return errors.New("refused by the page loop")
				}
				return nil
			},
			Page: func(r Record) error {
				if r.Page != last+1 || r.Page > pages || done {
					t.Errorf("page %d after %d of %d", r.Page, last, pages)
				}
				last = r.Page
				return nil
			},
		}}
		for line := range strings.Lines(lines) {
			if c.reply([]byte(line)) != nil {
				break
			}
			done = c.done
		}
	})
}

func TestF73CrashIsToldWithoutItsStack(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ words, want string }{
		{"fatal error: runtime: out of memory\n\nruntime stack:\nruntime.throw({0x1, 0x2})\n", "fatal error: runtime: out of memory"},
		{"panic: oops\n\ngoroutine 1 [running]:\nmain.main()\n", "panic: oops"},
		{"fatal error: all asleep\n\ngoroutine 1:\n\nruntime stack:\n", "fatal error: all asleep"},
		{"ink is out", "ink is out"},
	} {
		if got := withoutStack(tt.words); got != tt.want {
			t.Errorf("withoutStack(%q) = %q, want %q", tt.words, got, tt.want)
		}
	}
}
