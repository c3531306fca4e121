package cli

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

func TestF63CtrlCEndsWhatReadsStandardInput(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	cmd := batchfleet(t, nil, "run", "purge", "--data", "@-")
	cmd.Stdin = read
	p := launch(t, cmd)
	read.Close()
	// More than a pipe holds: when it is written the command reads, and so it has been told of signals.
	if _, err := io.WriteString(write, strings.Repeat(" ", 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := p.exitCode(time.Minute); code != 130 || !strings.Contains(p.log.String(), "batchfleet: interrupted") {
		t.Errorf("exit code %d: %s", code, p.log)
	}
}
