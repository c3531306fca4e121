package relay

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redact"
	"github.com/batchfleet/batchfleet/safefile"
)

// taskLogs are the logs of the programs, a file for each task: a line of RFC 3339 time, two blanks and text. Neither
// secrets nor the prompt of the task are in them.
type taskLogs struct {
	dir *directory

	mu      sync.Mutex
	prompts map[jobs.ID]*redact.Passage // of the tasks that run
}

const (
	maxTaskLog = 5_000_000  // bytes
	promptMark = "[prompt]" // stands where a prompt was
	logFull    = "... the log of this task is full, further lines are left out"
)

// hide makes the logs of a task leave its prompt out.
func (l *taskLogs) hide(id jobs.ID, prompt string) {
	filter := redact.NewPassage(prompt, promptMark, jobs.Visible)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.prompts[id] = filter
}

// forget ends hide.
func (l *taskLogs) forget(id jobs.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.prompts, id)
}

// clean returns a text that a program has written as it may be kept.
func (l *taskLogs) clean(id jobs.ID, text string) string {
	l.mu.Lock()
	prompt := l.prompts[id]
	l.mu.Unlock()
	return redact.Text(strings.ReplaceAll(prompt.Remove(text), l.dir.path+string(filepath.Separator), "")) // where the relay is on its machine is no one else's business
}

// withoutPrompts returns a text without the prompts of all tasks that run.
func (l *taskLogs) withoutPrompts(text string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, prompt := range l.prompts {
		text = prompt.Remove(text)
	}
	return text
}

// write appends lines to a task's log.
func (l *taskLogs) write(id jobs.ID, lines []string) (err error) {
	f, err := l.open(id)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	room := maxTaskLog - size
	if room <= 0 {
		return nil
	}
	var b bytes.Buffer
	now := jobapi.LineTime(time.Now())
	for _, line := range lines {
		b.WriteString(now + l.clean(id, line) + "\n")
		if int64(b.Len()) > room {
			b.WriteString(now + logFull + "\n")
			break
		}
	}
	_, err = f.Write(b.Bytes())
	return err
}

// open opens the log of a task, to append to it. What has taken the place of the file goes to the quarantine: the task
// could not run without a log.
func (l *taskLogs) open(id jobs.ID) (*os.File, error) {
	path := l.dir.logFile(id)
	f, err := safefile.OpenOrMake(path)
	if err == nil {
		return f, nil
	}
	if info, statErr := os.Lstat(path); statErr != nil || info.Mode().IsRegular() {
		return nil, err
	}
	l.dir.quarantine(path, err)
	return safefile.OpenOrMake(path)
}

// read returns a part of a task's log; of one that has none, nothing. The position of a line is that of its first byte,
// from 1.
func (l *taskLogs) read(id jobs.ID, q jobapi.LogQuery) (jobapi.Log, error) {
	text, err := safefile.Read(l.dir.logFile(id), maxTaskLog+2*jobs.MaxLine)
	if errors.Is(err, fs.ErrNotExist) {
		return jobapi.Log{}, nil
	}
	if err != nil {
		return jobapi.Log{}, err
	}
	after := 0
	if q.After != "" {
		if after, err = strconv.Atoi(q.After); err != nil || after < 0 {
			return jobapi.Log{}, &jobapi.FieldError{Field: "after", Problem: "no line has this position"}
		}
	}
	var log jobapi.Log
	var shown jobapi.ShownLines
	pos := 1
	for line := range strings.Lines(string(text)) {
		at, rest, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		when, err := time.Parse(time.RFC3339Nano, at)
		if !ok || err != nil {
			rest = line
		}
		rest = shown.Next(rest)
		if pos > after && !when.Before(q.Since) {
			log.Lines = append(log.Lines, jobapi.Line{Pos: strconv.Itoa(pos), Time: when, Text: rest})
		}
		pos += len(line)
	}
	switch n := len(log.Lines) - q.Tail; {
	case n <= 0:
	case q.After != "":
		log.Lines = log.Lines[:q.Tail]
	default:
		log.Lines = log.Lines[n:]
	}
	return log, nil
}
