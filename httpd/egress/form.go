package egress

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/textproto"
	"sync"
)

// Content is what a request sends. It can be opened again and again: each attempt sends it from its beginning.
type Content struct {
	MediaType string
	Length    int64 // bytes
	Open      func() (io.ReadCloser, error)
}

// Bytes returns a content that is in memory.
func Bytes(mediaType string, text []byte) Content {
	return Content{mediaType, int64(len(text)), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }}
}

// Part is a part of a form: a field, or a file if it has the name of one.
type Part struct {
	Field, File string
	Content
}

// Form returns a form (multipart/form-data) with these parts, in their order. A part is opened when those before it are
// read, so that a form of large files takes no more memory than one of small files.
func Form(parts ...Part) Content {
	var between bytes.Buffer // what stands before the next part
	w := multipart.NewWriter(&between)
	form := Content{MediaType: w.FormDataContentType()}
	var all []Content
	add := func(c Content) {
		all = append(all, c)
		form.Length += c.Length
	}
	for _, p := range parts {
		disposition := fmt.Sprintf("form-data; name=%q", p.Field)
		if p.File != "" {
			disposition = multipart.FileContentDisposition(p.Field, p.File)
		}
		// It fails only when a write has failed, and a buffer takes all.
		_, _ = w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {disposition}, "Content-Type": {p.MediaType}})
		add(Bytes("", bytes.Clone(between.Bytes())))
		add(p.Content)
		between.Reset()
	}
	_ = w.Close() // the same
	add(Bytes("", between.Bytes()))
	form.Open = func() (io.ReadCloser, error) { return &sequence{rest: all}, nil }
	return form
}

// sequence reads contents one after the other, and opens each when it is its turn.
type sequence struct {
	mu   sync.Mutex // net/http closes what another goroutine of it still reads
	rest []Content  // not yet opened
	open io.ReadCloser
}

// Read implements io.Reader.
func (s *sequence) Read(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if s.open == nil {
			if len(s.rest) == 0 {
				return 0, io.EOF
			}
			if s.open, err = s.rest[0].Open(); err != nil {
				return 0, err
			}
			s.rest = s.rest[1:]
		}
		n, err = s.open.Read(p)
		if err != io.EOF { //nolint:errorlint // a reader returns it as it is
			return n, err
		}
		err = s.open.Close()
		if s.open = nil; n > 0 || err != nil {
			return n, err
		}
	}
}

// Close implements io.Closer. Nothing can be read after it.
func (s *sequence) Close() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open != nil {
		err = s.open.Close()
	}
	s.rest, s.open = nil, nil
	return err
}
