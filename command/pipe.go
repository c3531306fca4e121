package command

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"
)

// maxPipeBytes is the most a pipe can hold (/proc/sys/fs/pipe-max-size). What is
// read beyond that after the end of the group was not written by the group.
const maxPipeBytes = 1 << 20

// What this process does with its end of a pipe.
const (
	reading = 0
	writing = 1
)

// pipeReader reads a pipe that the process writes to. After the end of the
// process it returns what the pipe still holds and then [io.EOF], even if a
// descendant that has left the group keeps the pipe open.
type pipeReader struct {
	f     *os.File
	ended atomic.Bool // the process and its group are gone
	late  int         // bytes read since then
	eof   bool        // the end was returned
}

// processEnded tells the reader that the process and its group are gone.
func (p *pipeReader) processEnded() {
	p.ended.Store(true)
	_ = p.f.SetReadDeadline(time.Now().Add(exitWait)) // pipes have deadlines
}

// Read returns [io.EOF] or no error. It may be called by one goroutine at a time.
func (p *pipeReader) Read(b []byte) (int, error) {
	if p.eof {
		return 0, io.EOF
	}
	n, err := p.f.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		// The deadline may have passed while the caller was busy with what it
		// had read before. So the pipe may not be empty: read it once more.
		_ = p.f.SetReadDeadline(time.Now().Add(exitWait))
		n, err = p.f.Read(b)
	}
	if p.ended.Load() {
		p.late += n
	}
	if err != nil || p.late > maxPipeBytes {
		p.eof = true
		return n, io.EOF
	}
	return n, nil
}
