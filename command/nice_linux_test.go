package command_test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfleet/batchfleet/command"
)

func TestG67ProcessesStandBackForOthers(t *testing.T) {
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	own := 20 - raw
	for by, want := range map[int]int{0: own, 3: min(own+3, 19), 100: 19} {
		c := &command.Command{Path: "/bin/sh", Args: []string{"-c", "nice; sh -c nice"}, Env: []string{"PATH=/usr/bin:/bin"}, Limits: command.Limits{Nice: by}}
		got, err := run(t, c)
		if both := fmt.Sprintf("%d %d", want, want); err != nil || strings.Join(got, " ") != both {
			t.Errorf("with %d a process and its child have the niceness %q (%v), want %s", by, got, err, both)
		}
	}
}
