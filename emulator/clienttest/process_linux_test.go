package clienttest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/batchfleet/batchfleet/internal/testrun"
)

// A process is `batchfleet emulator` as users run it.
type process struct {
	rig
	cmd    *exec.Cmd
	stderr bytes.Buffer
	ended  chan struct{}
}

// build makes the binary once for all tests. TestMain removes it.
var build = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(scratch, "batchfleet")
	cmd := exec.CommandContext(context.Background(), "go", "build", "-o", binary, "github.com/batchfleet/batchfleet/cmd/batchfleet")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build batchfleet: %w\n%s", err, out)
	}
	return binary, nil
})

// startProcess runs the emulator with topicName and subName until the test ends.
func startProcess(t *testing.T) *process {
	t.Helper()
	testrun.Long(t, "it starts a process")
	testrun.Once(t, "the process is built without it")
	binary := must(build())(t)
	// Not the test's context: goroutines asks the process at the end.
	cmd := exec.CommandContext(context.Background(), binary, "emulator", "--addr", "127.0.0.1:0",
		"--project", "test", "--topic", "jobs", "--subscription", "jobs")
	p := &process{cmd: cmd, ended: make(chan struct{})}
	cmd.Env = append(os.Environ(), "GOTRACEBACK=all")
	cmd.Stderr = &p.stderr
	stdout := must(cmd.StdoutPipe())(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	_, addr, ok := strings.Cut(strings.TrimSpace(line), "emulator listens on ")
	if err != nil || !ok {
		t.Fatalf("emulator said %q, %v", line, err)
	}
	p.addr = addr
	go func() {
		_ = cmd.Wait() // killed, at the end
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.ended
	})
	return p
}

// rest waits until the process uses no CPU for a while, and no thread of it waits
// for one: what it had to do is done.
func (p *process) rest(t *testing.T) {
	t.Helper()
	used := func() int {
		text := must(os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/stat"))(t)
		_, after, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(after) // from the third of proc(5) on
		return must(strconv.Atoi(fields[11]))(t) + must(strconv.Atoi(fields[12]))(t)
	}
	isReady := func() bool { // on a busy machine it may get no CPU for seconds
		threads := must(filepath.Glob("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/task/*/stat"))(t)
		return slices.ContainsFunc(threads, func(path string) bool {
			text, _ := os.ReadFile(path) // the thread may have ended
			return bytes.Contains(text, []byte(") R "))
		})
	}
	ctx := soon(t)
	for before, quiet := -2, 0; quiet < 3; {
		now := used()
		if quiet++; now > before+1 || isReady() { // a hundredth of a second
			quiet = 0
		}
		before = now
		select {
		case <-ctx.Done():
			t.Fatal("the process does not come to rest")
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// goroutines ends the process and returns how many it had, and where they
// were started.
func (p *process) goroutines(t *testing.T) (int, string) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	wait(t, p.ended)
	text := p.stderr.String()
	origins := map[string]int{}
	for line := range strings.Lines(text) {
		if from, ok := strings.CutPrefix(line, "created by "); ok {
			from, _, _ = strings.Cut(from, " in goroutine")
			origins[from]++
		}
	}
	return strings.Count(text, "\ngoroutine "), fmt.Sprint(origins)
}

// memory returns the resident memory in bytes.
func (p *process) memory(t *testing.T) int {
	t.Helper()
	text := must(os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/status"))(t)
	_, after, _ := strings.Cut(string(text), "VmRSS:")
	kb := must(strconv.Atoi(strings.Fields(after)[0]))(t)
	return kb << 10
}

// files returns how many file descriptors are open.
func (p *process) files(t *testing.T) int {
	t.Helper()
	return len(must(os.ReadDir("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/fd"))(t))
}

// connect opens a connection that the test's end closes.
func (p *process) connect(t *testing.T) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(soon(t), "tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// A h2 is an HTTP/2 connection. The test writes every frame of it.
type h2 struct {
	net.Conn
	*http2.Framer
	headers bytes.Buffer
	enc     *hpack.Encoder
	out     *bufio.Writer
}

// connect2 shakes hands and reads no frames.
func (p *process) connect2(t *testing.T) *h2 {
	t.Helper()
	c := &h2{Conn: p.connect(t)}
	c.out = bufio.NewWriter(c.Conn)
	c.Framer = http2.NewFramer(c.out, c.Conn)
	c.enc = hpack.NewEncoder(&c.headers)
	_, _ = c.out.WriteString(http2.ClientPreface)
	c.check(t, c.WriteSettings())
	c.check(t, c.out.Flush())
	return c
}

func (c *h2) check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open begins a call on a stream.
func (c *h2) open(stream uint32, method string, extra ...hpack.HeaderField) error {
	c.headers.Reset()
	for _, f := range append([]hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: method},
		{Name: ":authority", Value: "x"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
	}, extra...) {
		if err := c.enc.WriteField(f); err != nil {
			return err
		}
	}
	block := c.headers.Bytes()
	const most = 16 << 10
	first := true
	for first || len(block) > 0 {
		n := min(len(block), most)
		var err error
		if first {
			err = c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block[:n], EndHeaders: n == len(block)})
		} else {
			err = c.WriteContinuation(stream, n == len(block), block[:n])
		}
		if err != nil {
			return err
		}
		first, block = false, block[n:]
	}
	return nil
}

// discard reads whatever comes, so that the server never has to wait for us.
func (c *h2) discard() { go func() { _, _ = io.Copy(io.Discard, c.Conn) }() }
