package command

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"
)

// lateBytes is the most a pipe can hold (/proc/sys/fs/pipe-max-size). What comes
// after that when the group is gone was not written by it.
const lateBytes = 1 << 20

// outlet is our end of a pipe the process writes to. After the end of the
// process it gives what the pipe still holds, and then its end even if a
// descendant that has left the group keeps the pipe open.
type outlet struct {
	f     *os.File
	ended atomic.Bool
	late  int  // bytes read since the end
	done  bool // the end was returned
}

// end says that the process and its group are gone.
func (o *outlet) end() {
	o.ended.Store(true)
	_ = o.f.SetReadDeadline(time.Now().Add(patience)) // pipes have deadlines
}

// Read returns [io.EOF] or no error. It may be called by one goroutine at a time.
func (o *outlet) Read(p []byte) (int, error) {
	if o.done {
		return 0, io.EOF
	}
	n, err := o.f.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		// The deadline may have passed while the caller was busy with what it
		// had read before, so it says nothing about the pipe: once more.
		_ = o.f.SetReadDeadline(time.Now().Add(patience))
		n, err = o.f.Read(p)
	}
	if o.ended.Load() {
		o.late += n
	}
	if err != nil || o.late > lateBytes {
		o.done = true
		return n, io.EOF
	}
	return n, nil
}
