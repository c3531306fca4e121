package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// A reader is a program that writes the text of a document to its standard
// output, with a form feed after each page.
type reader struct {
	name    string
	command func(ctx context.Context, d document) *exec.Cmd
}

var (
	ours = reader{"ours", func(ctx context.Context, d document) *exec.Cmd {
		cmd := ownCommand(ctx, "read-pdf", d.path)
		cmd.Env = append(os.Environ(), passwordVar+"="+d.password)
		return cmd
	}}
	pdftotext = reader{"pdftotext", func(ctx context.Context, d document) *exec.Cmd {
		return exec.CommandContext(ctx, "pdftotext", "-enc", "UTF-8", "-upw", d.password, d.path, "-")
	}}
	mutool = reader{"mutool", func(ctx context.Context, d document) *exec.Cmd {
		return exec.CommandContext(ctx, "mutool", "draw", "-q", "-F", "text", "-p", d.password, "-o", "-", d.path)
	}}
)

// needTools returns an error that names the packages of the missing tools.
func needTools() error {
	var missing []error
	for _, tool := range [][2]string{{"pdftotext", "poppler-utils"}, {"pdfinfo", "poppler-utils"}, {"mutool", "mupdf-tools"}} {
		if _, err := exec.LookPath(tool[0]); err != nil {
			missing = append(missing, fmt.Errorf("no %s: install %s", tool[0], tool[1]))
		}
	}
	return errors.Join(missing...)
}

// toolVersion returns what a tool calls itself.
func toolVersion(ctx context.Context, tool string) (string, error) {
	said, err := exec.CommandContext(ctx, tool, "-v").CombinedOutput()
	line, _, _ := strings.Cut(string(said), "\n")
	if line == "" {
		return "", fmt.Errorf("ask for the version of %s: %w", tool, err)
	}
	return line, nil
}

// A reading is what came of reading a document with a program.
type reading struct {
	text      []byte
	stderr    []byte
	summary   *summary // of our reader, nil when it crashed or was stopped
	cpu, wall time.Duration
	hung      bool // it was stopped at the limit
	err       error
}

// maxOutput bounds the text of a document, in bytes: more than any book has.
const maxOutput = 512 << 20

// read runs a reader for at most limit. out gets its output; nil keeps it in
// the reading.
func (r reader) read(ctx context.Context, d document, limit time.Duration, out io.Writer) reading {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var text, stderr cappedBuffer
	cmd := r.command(limited, d)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, &stderr, time.Second
	if out == nil {
		cmd.Stdout = &text
	}
	start := time.Now()
	err := cmd.Run()
	got := reading{text: text.Bytes(), stderr: stderr.Bytes(), wall: time.Since(start), err: err, hung: limited.Err() != nil && ctx.Err() == nil}
	if cmd.ProcessState != nil {
		got.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	last := bytes.LastIndexByte(bytes.TrimSpace(stderr.Bytes()), '\n') + 1
	if s := new(summary); json.Unmarshal(stderr.Bytes()[last:], s) == nil {
		got.summary = s
	}
	return got
}

// A cappedBuffer refuses to hold more than maxOutput.
type cappedBuffer struct{ bytes.Buffer }

func (b *cappedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxOutput {
		return 0, fmt.Errorf("more than %d bytes", maxOutput)
	}
	return b.Buffer.Write(p)
}

// pages splits the output of a reader into pages.
func pages(text []byte) [][]byte {
	split := bytes.Split(text, []byte{'\f'})
	return split[:len(split)-1] // behind the last form feed is nothing
}
