package egress_test

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/httpd/egress"
)

// part is a content that knows whether it is open.
type part struct {
	io.Reader
	open *int
}

func (p part) Close() error {
	*p.open--
	return nil
}

func TestR51AFormHasAtMostOneFileOpen(t *testing.T) {
	open := 0
	files := []egress.Part{{Field: "about", Content: egress.Bytes("text/plain", []byte("two files"))}}
	for _, name := range []string{"a.txt", `quo"te.txt`} {
		files = append(files, egress.Part{Field: "file", File: name, Content: egress.Content{MediaType: "text/x", Length: 4, Open: func() (io.ReadCloser, error) {
			if open++; open > 1 {
				t.Errorf("%d files are open", open)
			}
			return part{strings.NewReader("text"), &open}, nil
		}}})
	}
	form := egress.Form(files...)
	for range 2 { // it can be sent again
		body, err := form.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(body)
		if err != nil || int64(len(text)) != form.Length || open != 0 {
			t.Fatalf("%d bytes, want %d; %d files are open; %v", len(text), form.Length, open, err)
		}
		_, params, err := mime.ParseMediaType(form.MediaType)
		if err != nil {
			t.Fatal(err)
		}
		read, err := multipart.NewReader(strings.NewReader(string(text)), params["boundary"]).ReadForm(1 << 20)
		if err != nil || read.Value["about"][0] != "two files" || len(read.File["file"]) != 2 || read.File["file"][1].Filename != `quo"te.txt` || read.File["file"][1].Size != 4 {
			t.Errorf("read %+v, %v", read, err)
		}
	}
}

func TestR51AFormThatIsNotReadToItsEndIsClosed(t *testing.T) {
	open := 0
	form := egress.Form(egress.Part{Field: "file", File: "a", Content: egress.Content{Length: 1 << 20, Open: func() (io.ReadCloser, error) {
		open++
		return part{strings.NewReader(strings.Repeat("x", 1<<20)), &open}, nil
	}}})
	body, err := form.Open()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, body, form.Length/2); err != nil || open != 1 {
		t.Fatalf("%d files are open, %v", open, err)
	}
	if err := body.Close(); err != nil || open != 0 {
		t.Errorf("%d files are open, %v", open, err)
	}
	if n, err := body.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("read %d bytes of what is closed, %v", n, err)
	}
}
