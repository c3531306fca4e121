package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/status/redistest"
)

// testGateway is a real Redis, to which gateway and agent processes are added.
type testGateway struct {
	t     *testing.T
	redis *redistest.Server
	rdb   *redis.Client
	queue *queue.Queue // to look with; what is tested are the processes
	dir   string       // holds admin.token

	client http.Client // that makes the requests
}

const testAdmin = "admin-token-of-the-tests-0123456789"

// h2Payload is the job of the acceptance test.
const h2Payload = `{"structure":{"cell_angstrom":6.5,"atoms":[{"element":"H","position":[3.25,3.25,2.87405]},{"element":"H","position":[3.25,3.25,3.62595]}]}}`

func newTestGateway(t *testing.T) *testGateway {
	t.Helper()
	testrun.Long(t, "it starts processes")
	g := &testGateway{t: t, redis: redistest.New(t), dir: t.TempDir()}
	g.rdb = g.redis.Client()
	g.queue = queue.New(g.rdb, queue.DefaultRules)
	g.write("admin.token", testAdmin+"\n")
	return g
}

// write writes a file that only its owner may read.
func (g *testGateway) write(name, text string) string {
	g.t.Helper()
	path := filepath.Join(g.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
	return path
}

// freeAddr returns an address without a listener.
func freeAddr(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t))
}

func (g *testGateway) environment(extra ...string) []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + g.t.TempDir(), "TMPDIR=" + g.t.TempDir(),
	}, extra...)
}

// atRedis returns settings that name the Redis of the gateway, and more.
func (g *testGateway) atRedis(extra ...string) []string {
	return append([]string{"REDIS_HOST=" + g.redis.Host, fmt.Sprintf("REDIS_PORT=%d", g.redis.Port)}, extra...)
}

// runningGateway returns one with a process, and its URL.
func runningGateway(t *testing.T, extra ...string) (g *testGateway, url string) {
	t.Helper()
	g = newTestGateway(t)
	addr := freeAddr(t)
	g.startGateway(addr, extra...)
	return g, "http://" + addr
}

// startGateway starts a gateway on addr with short leases, and waits until it is
// ready. Later settings win.
func (g *testGateway) startGateway(addr string, extra ...string) *process {
	g.t.Helper()
	env := g.environment(g.atRedis(append([]string{"LEASE_TTL=" + gatewayLease.String(), "REAP_INTERVAL=1s", "LEASE_SKEW=500ms"}, extra...)...)...)
	p := g.startProcess(env, "gateway", "--addr", addr, "--admin-token-file", filepath.Join(g.dir, "admin.token"))
	g.untilReadyz(addr, http.StatusOK)
	return p
}

// startAgent starts a worker that leases from url. Its state is in agents/name.
func (g *testGateway) startAgent(name, url, tokenFile string, extra ...string) *process {
	g.t.Helper()
	env := g.environment(append([]string{
		"SOURCE=" + url, "WORKER_TOKEN_FILE=" + tokenFile, "AGENT_DIR=" + filepath.Join(g.dir, "agents", name),
		"PROCESSOR=mock", "MOCK_PAGES=0", "MOCK_PAGE_SECONDS=0",
	}, extra...)...)
	return g.startProcess(env, "worker")
}

func (g *testGateway) startProcess(env []string, args ...string) *process {
	g.t.Helper()
	return launch(g.t, batchfleet(g.t, env, args...))
}

// runCommand runs batchfleet to its end and returns its exit code and output.
func (g *testGateway) runCommand(env []string, args ...string) (code int, stdout, stderr string) {
	g.t.Helper()
	return output(g.t, batchfleet(g.t, g.environment(env...), args...))
}

// register makes a worker, as its owner does, and returns its token file.
func (g *testGateway) register(url, name string) (tokenFile string) {
	g.t.Helper()
	tokenFile = filepath.Join(g.dir, name+".token")
	code, _, stderr := g.runCommand(nil, "worker", "register", "--gateway", url, "--enroll-token-file", g.enrollFile(url, name), "--token-file", tokenFile, "--name", name)
	if code != 0 {
		g.t.Fatalf("register: exit code %d: %s", code, stderr)
	}
	return tokenFile
}

type reply struct {
	status int
	header http.Header
	body   []byte
}

// request makes a call with a JSON body, none if nil, and with further headers.
func (g *testGateway) request(method, url, token string, body any, headers ...string) (reply, error) {
	var in io.Reader
	if body != nil {
		text, ok := body.(string)
		if !ok {
			b, err := json.Marshal(body)
			if err != nil {
				return reply{}, err
			}
			text = string(b)
		}
		in = strings.NewReader(text)
	}
	ctx, cancel := context.WithTimeout(g.t.Context(), 60*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, in)
	if err != nil {
		return reply{}, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, text}, err
}

// call makes a call that must succeed. One that only reads is made again while
// Redis does not answer in time.
func (g *testGateway) call(method, url, token string, body, into any) {
	g.t.Helper()
	r, err := g.request(method, url, token, body)
	for deadline := time.Now().Add(time.Minute); method == http.MethodGet && err == nil && r.status == http.StatusServiceUnavailable && time.Now().Before(deadline); {
		<-time.After(100 * time.Millisecond)
		r, err = g.request(method, url, token, body)
	}
	if err != nil || r.status != http.StatusOK {
		g.t.Fatalf("%s %s: %d %s %v", method, url, r.status, r.body, err)
	}
	if into != nil {
		if err := json.Unmarshal(r.body, into); err != nil {
			g.t.Fatalf("%s %s answered %s: %v", method, url, r.body, err)
		}
	}
}

func (g *testGateway) submit(url, payload string) string {
	g.t.Helper()
	var a wire.SubmitResponse
	g.call(http.MethodPost, url+wire.PathJobs, "", payload, &a)
	return a.JobID
}

func (g *testGateway) job(url, id string) (a wire.JobResponse) {
	g.t.Helper()
	g.call(http.MethodGet, url+wire.PathJobs+"/"+id, "", nil, &a)
	return a
}

func (g *testGateway) untilStatus(limit time.Duration, url, id, want string) {
	g.t.Helper()
	until(g.t, limit, fmt.Sprintf("job %s %s", id, want), func() bool { return g.job(url, id).Status == want })
}

// gatewayLease is how long a lease of a gateway lasts unless a test says more.
const gatewayLease = 6 * time.Second

// endLease makes the lease of a job be over.
func (g *testGateway) endLease(id string) {
	g.t.Helper()
	if n, err := g.rdb.ZAdd(g.t.Context(), "zpe:lease:index", redis.Z{Score: 1, Member: id}).Result(); err != nil || n != 0 {
		g.t.Fatal(n, err)
	}
	if err := g.rdb.HSet(g.t.Context(), "zpe:lease:"+id, "expires_at", "1").Err(); err != nil {
		g.t.Fatal(err)
	}
}

// hastenRetries makes delayed jobs due, which would wait for 20 s and more.
func (g *testGateway) hastenRetries() error {
	ids, err := g.rdb.ZRange(g.t.Context(), "zpe:delay", 0, -1).Result()
	for _, id := range ids {
		err = errors.Join(err, g.rdb.ZAddXX(g.t.Context(), "zpe:delay", redis.Z{Score: 1, Member: id}).Err())
	}
	return err
}

// tokenOf reads a token file that holds nothing else.
func (g *testGateway) tokenOf(file string) string {
	g.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		g.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// TestZ48WaitersLeaveRoomForOthers holds half as many connections as requests may
// wait for a job, which is more than a server of package httpd takes as a rule.
func TestZ48WaitersLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	g := newTestGateway(t)
	addr := freeAddr(t)
	g.startGateway(addr)
	besideConnections(t, addr, 5000)
}

// besideConnections asks for /healthz on n+1 connections. All of them stay open.
func besideConnections(t *testing.T, addr string, n int) {
	t.Helper()
	const limit = time.Minute // less than an idle connection is kept for
	for i := range n + 1 {
		c, err := (&net.Dialer{Timeout: limit}).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(limit))
		if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("connection %d: %v, %v", i, resp, err)
		}
		_ = resp.Body.Close()
	}
}
