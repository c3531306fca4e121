package processor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/command"
	"github.com/batchfleet/batchfleet/jobs"
)

// maxStderr is how many bytes a program may write to stderr. For a damaged
// document poppler may write a line for every object.
const maxStderr = 64 << 20

// errTruncated is the error of a program's output that ended too early. If the
// program failed, its exit error is returned instead.
var errTruncated = errors.New("output ended in the middle")

// runProgram runs one of poppler's programs and calls read with its stdout, at
// most limit bytes of it. When read returns, the program is stopped if it still
// runs; the error is that of read, or a [*programError]. Damage that the program
// reports on stderr is added to damage.
//
// The program is in the process group of this process, has its limits and ends
// with it, so stopping this process stops the program, too. That is why it is not run
// by package command.
func runProgram(path string, args []string, limit int64, damage *damageLog, read func(io.Reader) error) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	runtime.LockOSThread() // to the kernel, the thread that starts it is its parent
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = []string{"LC_ALL=C", command.Marker + "=" + os.Getenv(command.Marker)}
	cmd.SysProcAttr = killWithParent()
	cmd.WaitDelay = time.Second
	stderr := programStderr{damage: damage}
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start %s: %w", filepath.Base(path), err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", filepath.Base(path), err)
	}
	readErr := read(&limitedReader{r: stdout, name: filepath.Base(path), left: limit, limit: limit})
	truncated := errors.Is(readErr, errTruncated)
	if readErr != nil && !truncated {
		stop()
	}
	err = cmd.Wait()
	damage.endLine()
	exit := (*exec.ExitError)(nil)
	switch {
	case stderr.size > maxStderr:
		return fmt.Errorf("%s wrote more than %d bytes to stderr", filepath.Base(path), maxStderr)
	case readErr != nil && !truncated:
		return readErr
	case errors.As(err, &exit):
		return &programError{name: filepath.Base(path), state: exit.String(), stderr: string(stderr.tail)}
	case err != nil:
		return fmt.Errorf("run %s: %w", filepath.Base(path), err)
	default:
		return readErr
	}
}

// programError describes how a program ended that did not exit with 0.
type programError struct {
	name   string
	state  string // "exit status 1", "signal: killed"
	stderr string // the end of what it wrote to stderr
}

func (e *programError) Error() string {
	text := fmt.Sprintf("%s ended: %s", e.name, e.state)
	if last := e.lastLine(); last != "" {
		text += ": " + last
	}
	return text
}

// lastLine returns the last line of stderr as valid UTF-8, short enough for an error.
func (e *programError) lastLine() string {
	text := strings.TrimSpace(strings.ToValidUTF8(e.stderr, ""))
	return jobs.Clip(text[strings.LastIndex(text, "\n")+1:], 300, "")
}

// reports returns whether the program wrote text to stderr.
func (e *programError) reports(text string) bool { return strings.Contains(e.stderr, text) }

// limitedReader fails when a program writes too much.
type limitedReader struct {
	r           io.Reader
	name        string
	left, limit int64 // bytes
}

func (l *limitedReader) Read(b []byte) (int, error) {
	n, err := l.r.Read(b)
	if l.left -= int64(n); l.left < 0 {
		return 0, fmt.Errorf("%s wrote more than %d bytes", l.name, l.limit)
	}
	return n, err
}

// programStderr looks for damage in what is written to it and keeps the end.
type programStderr struct {
	damage *damageLog
	tail   []byte
	size   int64
}

const stderrTailBytes = 4 << 10

func (s *programStderr) Write(p []byte) (int, error) {
	if s.size += int64(len(p)); s.size > maxStderr {
		return 0, errors.New("too much on stderr")
	}
	s.damage.add(p)
	s.tail = append(s.tail, p[max(0, len(p)-stderrTailBytes):]...)
	if len(s.tail) > 2*stderrTailBytes { // so that bytes are moved rarely
		s.tail = append(s.tail[:0], s.tail[len(s.tail)-stderrTailBytes:]...)
	}
	return len(p), nil
}
