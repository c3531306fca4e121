package outbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/batchfleet/batchfleet/internal/testlog"
)

// childEnv makes the test binary do the part of a test that is killed.
const childEnv = "OUTBOX_TEST_CHILD"

func TestMain(m *testing.M) {
	if what := os.Getenv(childEnv); what != "" {
		child(what)
		return
	}
	goleak.VerifyTestMain(m)
}

// child is the process of a test: it works in the directory named by its argument.
func child(what string) {
	b := newBox(os.Args[1], &testlog.Buffer{})
	if err := b.Open(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	switch what {
	case "killed": // between write and delivery, and during the next write
		if err := errors.Join(b.PutUnsynced(Entry{"c", []byte("3")}, Entry{"e", []byte("5")}), b.Put("a", []byte("1")), b.PutUnsynced(Entry{"d", []byte("4")})); err != nil {
			panic(err)
		}
		go b.Run(context.Background())
		b.Deliver(Item{Try: func(context.Context) error {
			fmt.Println("delivering")
			select {}
		}})
		for {
			if err := b.Put("b", []byte(strings.Repeat("x", 90))); err != nil {
				panic(err)
			}
		}
	case "full": // no file may have more than 50 bytes
		signal.Ignore(syscall.SIGXFSZ)
		if err := errors.Join(b.Check(), b.Put("a", []byte("1"))); err != nil {
			panic(err)
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 50, Max: 50}); err != nil {
			panic(err)
		}
		_, aside := b.KeepAside("dead", "x", make([]byte, 90))
		fmt.Println(b.Put("a", []byte(strings.Repeat("x", 90))))
		fmt.Println(b.Check())
		fmt.Println(aside)
	}
}

func command(t *testing.T, what, dir string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, dir)
	c.Env = append(os.Environ(), childEnv+"="+what)
	c.Stderr = os.Stderr
	return c
}

func TestKilledProcessLosesNothing(t *testing.T) {
	for range 5 { // each time it is killed somewhere else
		dir := filepath.Join(t.TempDir(), "box")
		c := command(t, "killed", dir)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "delivering\n" {
			t.Errorf("the child said %q, %v", line, err)
		}
		if err := newBox(dir, &testlog.Buffer{}).Open(); !errors.Is(err, ErrInUse) {
			t.Errorf("while the child lives: %v", err)
		}
		_ = c.Process.Kill()
		_ = c.Wait() // it was killed
		b, _ := open(t, dir)
		got := map[string]bool{}
		for _, e := range load(t, b) {
			got[e] = true
		}
		whole := "b=" + strings.Repeat("x", 90)
		if !got["a=1"] || !got["c=3"] || !got["d=4"] || !got["e=5"] || len(got) > 5 || len(got) == 5 && !got[whole] || len(names(t, b, "corrupt")) != 0 {
			t.Errorf("left %v", got)
		}
		delivered := make(chan struct{})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { b.Run(ctx); close(done) }()
		b.Deliver(Item{Try: func(context.Context) error {
			close(delivered)
			b.Remove("a")
			return nil
		}})
		select {
		case <-delivered:
		case <-time.After(time.Minute):
			t.Error("it was not delivered")
		}
		stop()
		<-done
		_ = b.Close() // another one is opened
	}
}

func TestFullDiskIsNoticedAndChangesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "box")
	out, err := command(t, "full", dir).Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), "file too large"); n != 3 {
		t.Errorf("of three writes the child said %s", out)
	}
	b, _ := open(t, dir)
	want(t, "entries", load(t, b), "a=1")
	want(t, "kept aside", names(t, b, "dead"))
}
