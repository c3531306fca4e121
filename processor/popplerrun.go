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
)

// maxComplaints is how many bytes a program may write to stderr. Damaged
// documents make poppler complain of every object.
const maxComplaints = 64 << 20

// errCutOff says that a program's output ended too early. How the program ended
// says more, if it failed.
var errCutOff = errors.New("output ended in the middle")

// runProgram runs one of poppler's programs and lets read read its stdout, at
// most limit bytes of it. When read returns, the program is stopped if it still
// runs; the error is that of read, or a [*programError]. What the program writes
// to stderr goes to said, too.
//
// The program is of the process group, the limits and the fate of this process,
// so whoever stops this process stops it too.
func runProgram(path string, args []string, limit int64, said *damageReports, read func(io.Reader) error) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	runtime.LockOSThread() // to the kernel, the thread that starts it is its parent
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = []string{"LC_ALL=C", command.Marker + "=" + os.Getenv(command.Marker)}
	cmd.SysProcAttr = dieWithParent()
	cmd.WaitDelay = time.Second
	stderr := complaints{said: said}
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start %s: %w", filepath.Base(path), err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", filepath.Base(path), err)
	}
	readErr := read(&limited{r: stdout, name: filepath.Base(path), left: limit, most: limit})
	cutOff := errors.Is(readErr, errCutOff)
	if readErr != nil && !cutOff {
		stop()
	}
	err = cmd.Wait()
	said.end()
	exit := (*exec.ExitError)(nil)
	switch {
	case stderr.size > maxComplaints:
		return fmt.Errorf("%s wrote more than %d bytes to stderr", filepath.Base(path), maxComplaints)
	case readErr != nil && !cutOff:
		return readErr
	case errors.As(err, &exit):
		return &programError{name: filepath.Base(path), state: exit.String(), words: string(stderr.tail)}
	case err != nil:
		return fmt.Errorf("run %s: %w", filepath.Base(path), err)
	default:
		return readErr
	}
}

// programError says how a program ended that did not exit with 0.
type programError struct {
	name  string
	state string // "exit status 1", "signal: killed"
	words string // the end of what it wrote to stderr
}

func (e *programError) Error() string {
	text := fmt.Sprintf("%s ended: %s", e.name, e.state)
	if last := e.last(); last != "" {
		text += ": " + last
	}
	return text
}

// last returns the last line of words as valid UTF-8, short enough for an error.
func (e *programError) last() string {
	text := strings.TrimSpace(strings.ToValidUTF8(e.words, ""))
	return clip(text[strings.LastIndex(text, "\n")+1:], 300)
}

// says reports whether the program said something.
func (e *programError) says(text string) bool { return strings.Contains(e.words, text) }

// limited ends a program that writes too much.
type limited struct {
	r          io.Reader
	name       string
	left, most int64
}

func (l *limited) Read(b []byte) (int, error) {
	n, err := l.r.Read(b)
	if l.left -= int64(n); l.left < 0 {
		return 0, fmt.Errorf("%s wrote more than %d bytes", l.name, l.most)
	}
	return n, err
}

// complaints passes on what is written to it and keeps the end.
type complaints struct {
	said *damageReports
	tail []byte
	size int64
}

const keptComplaints = 4 << 10

func (c *complaints) Write(p []byte) (int, error) {
	if c.size += int64(len(p)); c.size > maxComplaints {
		return 0, errors.New("too much on stderr")
	}
	c.said.add(p)
	c.tail = append(c.tail, p[max(0, len(p)-keptComplaints):]...)
	if len(c.tail) > 2*keptComplaints { // so that bytes are moved seldom
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-keptComplaints:]...)
	}
	return len(p), nil
}
