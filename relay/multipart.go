package relay

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/textproto"
	"sync"
)

// content is the body of a request. It can be opened again and again: each attempt sends it from its beginning.
type content struct {
	mediaType string
	length    int64 // bytes
	open      opener
}

type opener func() (io.ReadCloser, error)

// inMemory opens bytes.
func inMemory(b []byte) opener {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
}

func jsonContent(text []byte) content {
	return content{"application/json", int64(len(text)), inMemory(text)}
}

// multipart returns a form with what is told of a task's artifacts, and the artifacts. It holds no file in memory.
func (u *uploads) multipart(t *Task, about []byte) content {
	var text bytes.Buffer
	w := multipart.NewWriter(&text)
	body := content{mediaType: w.FormDataContentType()}
	var parts []opener
	cut := func() { // what was written since the last call is one part
		parts = append(parts, inMemory(bytes.Clone(text.Bytes())))
		body.length += int64(text.Len())
		text.Reset()
	}
	head := func(disposition, mediaType string) {
		// It fails only when a write has failed, and text takes all.
		_, _ = w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {disposition}, "Content-Type": {mediaType}})
	}
	head(`form-data; name="metadata"`, "application/json")
	text.Write(about)
	for _, a := range t.Artifacts {
		head(`form-data; name="file"; filename="`+a.Name+`"`, a.ContentType) // names have only letters, digits and ._-
		cut()
		parts = append(parts, func() (io.ReadCloser, error) { return u.tasks.openChecked(t.ID, a) })
		body.length += a.Size
	}
	_ = w.Close() // the same
	cut()
	body.open = func() (io.ReadCloser, error) { return &sequence{parts: parts}, nil }
	return body
}

// sequence reads parts one after the other, and opens each when it is its turn.
type sequence struct {
	mu    sync.Mutex // net/http closes what another goroutine of it still reads
	parts []opener   // not yet opened
	part  io.ReadCloser
}

// Read implements io.Reader.
func (s *sequence) Read(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if s.part == nil {
			if len(s.parts) == 0 {
				return 0, io.EOF
			}
			if s.part, err = s.parts[0](); err != nil {
				return 0, err
			}
			s.parts = s.parts[1:]
		}
		n, err = s.part.Read(p)
		if err != io.EOF { //nolint:errorlint // a reader returns it as it is
			return n, err
		}
		err = s.part.Close()
		if s.part = nil; n > 0 || err != nil {
			return n, err
		}
	}
}

// Close implements io.Closer. Nothing can be read after it.
func (s *sequence) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts = nil
	if s.part == nil {
		return nil
	}
	part := s.part
	s.part = nil
	return part.Close()
}
