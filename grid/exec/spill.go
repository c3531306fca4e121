package exec

import (
	"bytes"
	"os"
)

// spill is a writer to memory and, when that is too much, to a file.
type spill struct {
	limit int
	temp  func() (*os.File, error)
	buf   bytes.Buffer
	file  *os.File
}

func (s *spill) Write(p []byte) (int, error) {
	if s.file == nil && s.buf.Len()+len(p) <= s.limit {
		return s.buf.Write(p)
	}
	if s.file == nil {
		var err error
		if s.file, err = s.temp(); err != nil {
			return 0, err
		}
		if _, err := s.file.Write(s.buf.Bytes()); err != nil {
			return 0, err
		}
		s.buf = bytes.Buffer{}
	}
	return s.file.Write(p)
}

// toFile makes sure that what was written is in the file, and closes it.
func (s *spill) toFile() (path string, err error) {
	if s.file == nil {
		s.limit = -1
		if _, err := s.Write(nil); err != nil {
			return "", err
		}
	}
	return s.file.Name(), s.file.Close()
}

// remove deletes the file.
func (s *spill) remove() {
	if s.file != nil {
		_ = s.file.Close() // perhaps again
		_ = os.Remove(s.file.Name())
	}
}
