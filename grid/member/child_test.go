package member_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/member"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

// childEnv makes the test binary a worker: its value is the address of a leader and a directory.
const childEnv = "GRID_MEMBER_TEST_CHILD"

func child() {
	addr, dir, _ := strings.Cut(os.Getenv(childEnv), " ")
	log := slog.New(slog.NewTextHandler(os.Stdout, nil))
	m := &member.Member{Leaders: []string{addr}, MaxParallel: 2, Dir: dir, Log: log}
	if err := m.Open(context.Background()); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	go m.Run(context.Background())
	w := &worker.Worker{Source: m, Status: m, Log: log, Pools: []worker.Pool{{Slots: 2}}, Handlers: map[jobs.Kind]worker.Handler{
		member.Kind: m.Handler(handler(answer)),
	}}
	_ = w.Run(context.Background())
}

// door is a leader on loopback. It hands what it is sent to the test.
type door struct {
	*testing.T
	net.Listener
	frames chan wire.Frame
	conn   *link.Conn // the newest connection
}

func openDoor(t *testing.T) *door {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return &door{T: t, Listener: l, frames: make(chan wire.Frame, 100)}
}

// welcome waits for a worker and greets it, and returns its hello.
func (d *door) welcome() wire.Capability {
	d.Helper()
	conn, err := d.Accept()
	if err != nil {
		d.Fatal(err)
	}
	c := link.New(conn, link.Options{})
	d.conn = c
	var receiving sync.WaitGroup
	receiving.Go(func() {
		for {
			f, err := c.Receive()
			if err != nil {
				return
			}
			d.frames <- f
		}
	})
	d.Cleanup(func() { c.Abort(nil); receiving.Wait() })
	var hello wire.Capability
	if err := json.Unmarshal(d.next(wire.HelloWorker).Payload, &hello); err != nil {
		d.Fatal(err)
	}
	d.send(wire.Frame{Type: wire.Welcome, Payload: must(wire.WelcomeInfo{Proto: 2, Features: features})})
	return hello
}

func (d *door) send(f wire.Frame) {
	d.Helper()
	if err := d.conn.Send(f); err != nil {
		d.Fatal(err)
	}
}

// next waits for a frame of a type; others are dropped.
func (d *door) next(what wire.Type) wire.Frame {
	d.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case f := <-d.frames:
			if f.Type == what {
				return f
			}
		case <-late:
			d.Fatalf("no %s has come", what)
		}
	}
}

func TestG56KilledWorkerDeliversAfterRestart(t *testing.T) {
	dir := t.TempDir()
	d := openDoor(t)
	env := append(os.Environ(), childEnv+"="+d.Addr().String()+" "+dir)
	start := func() (kill func()) {
		var out bytes.Buffer
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env, cmd.Stdout, cmd.Stderr = env, &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill = sync.OnceFunc(func() {
			_ = cmd.Process.Signal(syscall.SIGKILL)
			_ = cmd.Wait() // it was killed
			if t.Failed() {
				t.Log(out.String())
			}
		})
		t.Cleanup(kill)
		return kill
	}
	kill := start()
	d.welcome()
	d.send(assignment(1, 11))
	want(t, "first", text(d.next(wire.AckJob)), "AckJob 1 as 11 OK 4") // which is not acknowledged

	second := exec.CommandContext(t.Context(), os.Args[0])
	second.Env = env
	if out, err := second.CombinedOutput(); err == nil || !strings.Contains(string(out), "another process uses the directory") {
		t.Errorf("a second worker in the same directory: %v\n%s", err, out)
	}

	kill()
	kill = start()
	want(t, "the hello of the next process", runningText(d.welcome().Running), " 1 as 11")
	want(t, "its result", text(d.next(wire.AckJob)), "AckJob 1 as 11 OK 4")
	d.send(wire.Frame{Type: wire.ResultAck, Payload: wire.AppendGUIDs(nil, id(1))})
	d.send(assignment(2, 12)) // when it has ended, the ResultAck has been read
	want(t, "the next job", text(d.next(wire.AckJob)), "AckJob 2 as 12 OK 4")
	d.send(wire.Frame{Type: wire.ResultAck, Payload: wire.AppendGUIDs(nil, id(2))})
	d.send(assignment(3, 13))
	d.next(wire.AckJob)
	kill()
	kill = start()
	want(t, "the hello of the last process", runningText(d.welcome().Running), " 3 as 13")
	kill()
}
