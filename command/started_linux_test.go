package command_test

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/command"
)

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestK12StartedComesAfterTheLimitsAndBeforeTheRequest(t *testing.T) {
	var started command.Process
	c := self("echo")
	c.Limits.OpenFiles = 77
	request := strings.NewReader("request\n")
	c.Stdin = readerFunc(func(p []byte) (int, error) {
		if started.PID == 0 {
			t.Error("Stdin is read before Started is called")
		}
		return request.Read(p)
	})
	c.Started = func(p command.Process) error {
		proc := "/proc/" + strconv.Itoa(p.PID)
		limits, err := os.ReadFile(proc + "/limits")
		if err != nil || !strings.Contains(string(limits), " 77 ") {
			t.Errorf("limits when Started is called:\n%s%v", limits, err)
		}
		if want, err := command.StartTime(p.PID); err != nil || p.Start != want || want == 0 {
			t.Errorf("start time %d, %v; want %d", p.Start, err, want)
		}
		env, err := os.ReadFile(proc + "/environ")
		if err != nil || p.Marker == "" || !strings.Contains(string(env), command.Marker+"="+p.Marker) {
			t.Errorf("marker %q, %v; the environment is %q", p.Marker, err, env)
		}
		started = p
		return nil
	}
	if got, err := run(t, c); err != nil || strings.Join(got, "|") != "echo request" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestK12ErrorOfStartedStopsTheProcess(t *testing.T) {
	noRecord := errors.New("cannot store the process")
	pid := 0
	c := self("sleep")
	c.Stdin = readerFunc(func([]byte) (int, error) {
		t.Error("Stdin is read")
		return 0, io.EOF
	})
	c.Started = func(p command.Process) error { pid = p.PID; return noRecord }
	if got, err := run(t, c); !errors.Is(err, noRecord) {
		t.Errorf("got %q, %v; want the error of Started", got, err)
	}
	wantGone(t, pid)
	pid = 0
	if s, err := c.Open(t.Context()); !errors.Is(err, noRecord) {
		t.Errorf("Open = %v, %v; want the error of Started", s, err)
	}
	wantGone(t, pid)
}
