package command

import (
	"fmt"
	"io"
	"sync"
)

// Stream is one of the two outputs of a process.
type Stream uint8

// The streams.
const (
	Stdout Stream = iota + 1
	Stderr
)

// String returns the name, "stdout" or "stderr".
func (s Stream) String() string {
	switch s {
	case Stdout:
		return "stdout"
	case Stderr:
		return "stderr"
	}
	return fmt.Sprintf("stream(%d)", uint8(s))
}

// outputLog makes lines for Command.Output. It is not for concurrent use.
type outputLog struct {
	line        func(stream Stream, line []byte, cut bool) error
	overwritten func(stream Stream, line []byte) error
	limit       int64 // bytes of both streams; 0 for no limit
	written     int64 // bytes of both streams
	dropped     int64 // bytes that came after limit
	streams     [Stderr + 1]splitter
}

func newOutputLog(c *Command) outputLog {
	s := splitter{max: c.Limits.lineBytes(), lenient: true}
	return outputLog{
		line: c.Output, overwritten: c.Overwritten, limit: c.Limits.OutputBytes,
		streams: [...]splitter{Stdout: s, Stderr: s},
	}
}

// write passes the lines that p finishes.
func (o *outputLog) write(stream Stream, p []byte) error {
	kept := p
	if o.limit > 0 {
		kept = p[:min(int64(len(p)), max(0, o.limit-o.written))]
	}
	o.written += int64(len(p))
	lines, pass := o.lines(stream)
	if err := lines.write(kept, pass); err != nil {
		return err
	}
	over := p[len(kept):]
	if len(over) == 0 {
		return nil
	}
	o.dropped += int64(len(over))
	return lines.flush(over[0] != '\n' && over[0] != '\r', pass)
}

// end passes the unfinished line at the end of a stream.
func (o *outputLog) end(stream Stream) error {
	lines, pass := o.lines(stream)
	return lines.flush(false, pass)
}

func (o *outputLog) lines(stream Stream) (*splitter, func([]byte, bool) error) {
	lines := &o.streams[stream]
	return lines, func(line []byte, cut bool) error {
		if o.overwritten != nil && lines.bareCR && !cut {
			return o.overwritten(stream, line)
		}
		return o.line(stream, line, cut)
	}
}

// chunk is what was read from a stream at once; nil at its end.
type chunk struct {
	stream Stream
	data   []byte
}

// readOutput reads the output to its end and passes it to Line, Output or Chunk.
// The error is theirs, or a limitError.
func (r *run) readOutput() error {
	if !r.inChunks() {
		return r.readLines(func() bool { return false })
	}
	for r.streams > 0 {
		c := <-r.chunks
		if c.data == nil {
			r.streams--
		}
		if err := r.passChunk(c); err != nil {
			return err
		}
	}
	return nil
}

// inChunks reports whether the output is read for Output or Chunk.
func (r *run) inChunks() bool { return r.Output != nil || r.Chunk != nil }

func (r *run) passChunk(c chunk) error {
	switch {
	case r.Chunk == nil && c.data == nil:
		return r.log.end(c.stream)
	case r.Chunk == nil:
		return r.log.write(c.stream, c.data)
	case c.data == nil:
		return nil
	}
	return r.Chunk(c.stream, c.data)
}

// discardOutput reads what is left of the output.
func (r *run) discardOutput() {
	if !r.inChunks() {
		_, _ = io.Copy(io.Discard, r.stdout) // its errors are the end
	}
	for r.streams > 0 {
		if c := <-r.chunks; c.data == nil {
			r.streams--
		}
	}
}

const chunkBytes = 16 << 10

// chunkBuffers are used again: a program that says little ends sooner than they are made.
var chunkBuffers = sync.Pool{New: func() any { return new([2][chunkBytes]byte) }}

// sendChunks reads a stream to its end for Output or Chunk. While one buffer is being
// handled, the other is filled: the receiver takes a chunk when it has done with
// the one before.
func (r *run) sendChunks(stream Stream, p *pipeReader) {
	b := chunkBuffers.Get().(*[2][chunkBytes]byte) // see New
	defer chunkBuffers.Put(b)                      // who takes the end of the stream has done with the chunks before
	buf, next := b[0][:], b[1][:]
	for {
		n, err := p.Read(buf)
		if stream == Stderr {
			r.keepStderr(buf[:n])
		}
		if n > 0 {
			r.chunks <- chunk{stream, buf[:n]}
			buf, next = next, buf
		}
		if err != nil {
			r.chunks <- chunk{stream, nil}
			return
		}
	}
}

// readLines reads stdout and passes its lines to Line, until its end, or until
// enough returns true between two lines. The error is that of Line or a
// limitError.
func (r *run) readLines(enough func() bool) error {
	if r.buf == nil {
		r.buf = make([]byte, 32<<10)
	}
	pass := func(line []byte, _ bool) error { return r.Line(line) }
	for !enough() || len(r.splitter.rest) > 0 {
		n, readErr := r.stdout.Read(r.buf)
		if err := r.countOutput(n); err != nil {
			return err
		}
		if r.Line != nil {
			err := r.splitter.write(r.buf[:n], pass)
			if err == errLineTooLong { //nolint:errorlint // never wrapped
				return &limitError{OverOutput, fmt.Sprintf("%d bytes a line", r.splitter.max)}
			}
			if err != nil {
				return err
			}
		}
		if readErr != nil {
			return nil //nolint:nilerr // io.EOF, and never another
		}
	}
	return nil
}

// readStderr reads stderr to its end and keeps its tail.
func (r *run) readStderr() {
	buf := make([]byte, 4<<10)
	for {
		n, readErr := r.stderr.Read(buf)
		r.keepStderr(buf[:n])
		if err := r.countOutput(n); err != nil {
			r.stop(err)
		}
		if readErr != nil {
			return
		}
	}
}

func (r *run) keepStderr(p []byte) {
	_, _ = r.tail.Write(p) // never fails
	if len(p) > 0 {
		r.wroteStderr.Store(true)
	}
}

// countOutput adds n bytes to the output and returns a limitError if that is too
// much.
func (r *run) countOutput(n int) error {
	if written := r.written.Add(int64(n)); r.Limits.OutputBytes > 0 && written > r.Limits.OutputBytes {
		return &limitError{OverOutput, fmt.Sprintf("%d bytes of output", r.Limits.OutputBytes)}
	}
	return nil
}
