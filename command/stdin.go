package command

import (
	"fmt"
	"io"
)

// writeStdin copies Stdin to the process. It is no error if the process does not
// read all of it.
func (r *run) writeStdin() {
	defer close(r.stdinDone)
	stdin := &stdinReader{r: r.Stdin}
	b := chunkBuffers.Get().(*[2][chunkBytes]byte) // see New
	// The file without its other methods: it would have a buffer made for itself.
	_, _ = io.CopyBuffer(struct{ io.Writer }{r.stdin}, stdin, b[0][:])
	chunkBuffers.Put(b)
	if stdin.err != nil {
		// The process must not take the end of a truncated request for the end of
		// the request.
		r.stop(fmt.Errorf("read stdin for %s: %w", r.Path, stdin.err))
		return
	}
	_ = r.stdin.Close() // supervise may have closed it
}

// stdinReader keeps an error of a reader apart from one of the writer that it is
// copied to.
type stdinReader struct {
	r   io.Reader
	err error
}

func (s *stdinReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF { // a wrapped EOF is a failure
		s.err = err
	}
	return n, err
}
