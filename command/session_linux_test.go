package command_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/command"
)

// clerk answers a line with its id and the line, then "end"; some lines it takes
// for orders.
const clerk = `while read -r line; do
	case $line in
	flood) yes 12345678 | head -c 100000;;
	leave) exit 0;;
	break) exit 7;;
	complain) echo "ink is low" >&2;;
	hang) read -r line;;
	esac
	echo "$$ $line"; echo end
done`

func openClerk(t *testing.T, limits command.Limits) *command.Session {
	t.Helper()
	c := command.Command{Path: "/bin/sh", Args: []string{"-c", clerk}, Env: []string{"PATH=/usr/bin:/bin"}, Limits: limits}
	s, err := c.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// ask returns the lines of an answer before its end.
func ask(ctx context.Context, s *command.Session, request string, wall time.Duration) (said []string, err error) {
	err = s.Do(ctx, []byte(request+"\n"), wall, func(line []byte) (bool, error) {
		if string(line) == "end" {
			return true, nil
		}
		said = append(said, string(line))
		return false, nil
	})
	return said, err
}

func TestF77SessionAnswersManyRequests(t *testing.T) {
	s := openClerk(t, command.Limits{OutputBytes: 40}) // less than what all answers take
	var pids []string
	for range 50 {
		said, err := ask(t.Context(), s, "hello", time.Minute)
		if err != nil || len(said) != 1 || !strings.HasSuffix(said[0], " hello") || !s.Idle() {
			t.Fatalf("said %q, %v, idle %t", said, err, s.Idle())
		}
		pids = append(pids, said[0])
	}
	if pids[0] != pids[49] {
		t.Errorf("from %s to %s", pids[0], pids[49])
	}
	if cpu, memory, err := s.Usage(); err != nil || cpu <= 0 || memory < int64(os.Getpagesize()) {
		t.Errorf("spent %s and %d bytes, %v", cpu, memory, err)
	}
	s.Close()
	if said, err := ask(t.Context(), s, "hello", 0); err == nil {
		t.Errorf("a closed session says %q", said)
	}
}

func TestF77SessionEndsWithARequestThatIsNotAnswered(t *testing.T) {
	errBoss := errors.New("no time")
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(errBoss)
	tests := []struct {
		request string
		ctx     context.Context
		wall    time.Duration
		want    string
	}{
		{"break", t.Context(), 0, "exit status 7"},
		{"leave", t.Context(), 0, ""},
		{"flood", t.Context(), 0, "wrote too much (limit: 50000 bytes of output)"},
		{"hang", t.Context(), time.Second, "took too long (limit: 1s)"},
		{"hang", canceled, 0, "no time"},
	}
	for _, tt := range tests {
		t.Run(tt.request+" "+tt.want, func(t *testing.T) {
			t.Parallel()
			s := openClerk(t, command.Limits{OutputBytes: 50000})
			_, err := ask(tt.ctx, s, tt.request, tt.wall)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if s.Idle() {
				t.Error("it waits for another request")
			}
		})
	}
}

// TestF77LateStopOfARequestMeetsNoOther: the stop has begun when the answer is whole,
// and takes effect whenever its goroutine runs.
func TestF77LateStopOfARequestMeetsNoOther(t *testing.T) {
	s := openClerk(t, command.Limits{})
	ctx, cancel := context.WithCancel(t.Context())
	err := s.Do(ctx, []byte("hello\n"), time.Minute, func(line []byte) (bool, error) {
		last := string(line) == "end"
		if last {
			cancel()
		}
		return last, nil
	})
	if err != nil || s.Idle() {
		t.Errorf("%v, idle %t; want the answer, and that no other request gets one", err, s.Idle())
	}
}

func TestF77SessionThatWasKilledOrComplainsIsNotIdle(t *testing.T) {
	s := openClerk(t, command.Limits{})
	_, err := ask(t.Context(), s, "complain", 0)
	if err != nil {
		t.Fatal(err)
	}
	awaitBusy(t, s)

	s = openClerk(t, command.Limits{})
	said, err := ask(t.Context(), s, "hello", 0)
	if err != nil || !s.Idle() {
		t.Fatal(said, err)
	}
	pid, _, _ := strings.Cut(said[0], " ")
	if err := syscall.Kill(number(pid), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitBusy(t, s)
	if _, err := ask(t.Context(), s, "hello", 0); err == nil || !strings.Contains(err.Error(), "signal 9") {
		t.Errorf("ask a killed process: %v", err)
	}
}

func awaitBusy(t *testing.T, s *command.Session) {
	t.Helper()
	for end := time.Now().Add(time.Minute); s.Idle(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is idle")
		}
	}
}
