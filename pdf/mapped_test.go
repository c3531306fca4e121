package pdf_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfleet/batchfleet/pdf"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

func TestF70OpenFileReadsWhatOpenReads(t *testing.T) {
	for _, name := range []string{"groff.pdf", "cairo.pdf", "aes-256.pdf"} {
		d, err := pdf.OpenFile(filepath.Join("testdata", name), pdf.Options{})
		if err != nil {
			t.Fatal(err)
		}
		same := open(t, fixture(t, name), pdf.Options{})
		got, _ := d.Page(1)
		want, _ := same.Page(1)
		if diff := cmp.Diff(want, got); diff != "" || d.NumPages() != same.NumPages() {
			t.Errorf("%s: %d pages, want %d; page 1: -Open +OpenFile:\n%s", name, d.NumPages(), same.NumPages(), diff)
		}
		if diff := cmp.Diff(same.Info(), d.Info()); diff != "" {
			t.Errorf("%s: info: -Open +OpenFile:\n%s", name, diff)
		}
		if err := errors.Join(d.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestF70OpenFileSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tests := []struct {
		name, path string
		want       error
		says       string
	}{
		{"missing", filepath.Join(dir, "missing"), fs.ErrNotExist, "missing"},
		{"empty", write("empty", ""), pdf.ErrNotPDF, "empty"},
		{"text", write("text", "hello"), pdf.ErrNotPDF, "not a PDF"},
		{"a directory", dir, nil, "not a regular file"},
	}
	for _, tt := range tests {
		_, err := pdf.OpenFile(tt.path, pdf.Options{})
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %v, want %v that says %q", tt.name, err, tt.want, tt.says)
		}
	}
}

func TestF70FileCutWhileItIsReadFailsItsPagesOnly(t *testing.T) {
	b := pdftest.Pages("one", "two")
	trailer := fmt.Sprintf("/Info %d 0 R", b.Add("<</Title (gone)>>"))
	b.Set(1, "<</Type /Catalog /Pages 2 0 R /Outlines %d 0 R>>", b.Add("<</First 99 0 R>>"))
	path := filepath.Join(t.TempDir(), "document")
	if err := os.WriteFile(path, b.Table(trailer), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := pdf.OpenFile(path, pdf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	for p, err := range d.Pages(1, 2) {
		if err == nil || !strings.Contains(err.Error(), "panic") {
			t.Errorf("page %d of a deleted file: %q, %v", p.Number, p.Text, err)
		}
	}
	if info, outline := d.Info(), d.Outline(); info.Title != "" || outline != nil {
		t.Errorf("of a deleted file: %+v, %v", info, outline)
	}
}
