package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
)

// gatewayCommands runs commands against a gateway with the test's kinds.
type gatewayCommands struct {
	*testGateway

	url, store, kinds string
	env               []string
}

func newGatewayCommands(t *testing.T) *gatewayCommands {
	t.Helper()
	addr := freeAddr(t)
	c := &gatewayCommands{testGateway: newTestGateway(t), url: "http://" + addr, store: t.TempDir()}
	c.upperFile()
	c.kinds = c.write("kinds.toml", upperKind+"[need]\ncommand = [\"true\"]\n[need.params.bytes]\ntype = \"integer\"\nrequired = true\n[one]\ncommand = [\"true\", \"--in={input}\"]\n")
	c.startGateway(addr, c.withKinds(c.kinds, c.store)...)
	return c
}

// ways are how commands reach the gateway: through its server with its admin token, or directly by its Redis and its storage.
func (c *gatewayCommands) ways(test func(name string)) {
	c.env = c.environment("BATCHFLEET_API="+c.url, "BATCHFLEET_TOKEN_FILE="+filepath.Join(c.dir, "admin.token"))
	test("through its server")
	c.env = c.environment(c.atRedis(c.withKinds(c.kinds, c.store)...)...)
	test("directly")
}

func (c *gatewayCommands) runWith(code int, says, stdin string, args ...string) string {
	c.t.Helper()
	return (&commands{testFleet: &testFleet{t: c.t}, env: c.env}).runWith(code, says, stdin, args...)
}

func (c *gatewayCommands) run(code int, says string, args ...string) string {
	c.t.Helper()
	return c.runWith(code, says, "", args...)
}

func TestK19SubmitToAGateway(t *testing.T) {
	t.Parallel()
	testrun.Once(t, "what the commands start has race tests of its own")
	c := newGatewayCommands(t)
	c.startAgent("a", c.url, c.enrolled("a"), "KINDS_FILE="+c.kinds)
	file, other := c.write("a.txt", "some text"), c.write("b.txt", "other text")
	submit := func(more ...string) []string {
		return append([]string{"submit", "--scope", "gateway", "--kind", "upper"}, more...)
	}
	c.ways(func(way string) {
		for _, tt := range []struct {
			name, stdin, want string
			args              []string
		}{
			{"a file", "", "SOME TEXT?", []string{"--param", "suffix=?", file}},
			{"standard input", "piped", "PIPED!", []string{"--input", "-"}},
			{"several inputs", "and piped", "SOME TEXTOTHER TEXTAND PIPED!", []string{"--input", file, "--input", other, "--input", "-"}},
			{"no input", "", "none", []string{"--params", c.write("p.json", `{"suffix":"none"}`)}},
		} {
			out := t.TempDir()
			c.runWith(0, filepath.Join(out, "upper.txt"), tt.stdin, submit(append(tt.args, "--wait", "-o", out)...)...)
			if text, err := os.ReadFile(filepath.Join(out, "upper.txt")); err != nil || string(text) != tt.want {
				t.Errorf("%s, %s: made %q, %v; want %q", way, tt.name, text, err, tt.want)
			}
		}
		var in wire.InputResponse
		c.call(http.MethodPost, c.url+"/calc/upper/inputs", "", map[string]any{"a": 1}, &in)
		c.run(0, "", submit("--input", in.Input, "--input", file)...)
		// The same command again is the same job, although its files are uploaded again.
		key := strings.ReplaceAll(way, " ", "-")
		both := submit("--idempotency-key", key+"-both", "--input", file, "--input", other)
		if first, again := c.run(0, "", both...), c.run(0, "", both...); again != first || first == "" {
			t.Errorf("%s: jobs %q and %q of one key", way, first, again)
		}
		first := c.run(0, "", submit("--idempotency-key", key, file)...)
		if again := c.run(0, "", submit("--idempotency-key", key, file)...); again != first || first == "" {
			t.Errorf("%s: jobs %q and %q of one key", way, first, again)
		}
		c.run(2, "--idempotency-key: this idempotency key was used", submit("--idempotency-key", key, "--param", "suffix=?", file)...)
		c.run(0, "succeeded", "watch", first)
		c.run(0, "upper.txt", "result", "--list", first)
		c.run(0, "SOME TEXT!", "result", "--text", first)
	})
}

// TestK19RetryOfAJobOfAGateway fails a job in place of a worker.
func TestK19RetryOfAJobOfAGateway(t *testing.T) {
	t.Parallel()
	testrun.Once(t, "what the commands start has race tests of its own")
	c := newGatewayCommands(t)
	c.ways(func(way string) {
		id := c.run(0, "", "submit", "--scope", "gateway", "--kind", "upper", "--param", "suffix=x")
		c.run(1, "Only a job that has failed can run again; this one is queued", "retry", id)
		payload, err := c.queue.Payload(t.Context(), jobs.ID(id))
		if err != nil {
			t.Fatal(err)
		}
		lease := func() queue.Grant {
			t.Helper()
			g, err := c.queue.Lease(t.Context(), queue.Caller{Worker: "me"}, queue.LeaseRequest{Renews: true, Kinds: []jobs.Kind{"upper"}})
			if err != nil || string(g.Job) != id || g.Payload != payload {
				t.Fatalf("%s: leased %+v, %v; want job %s with %s", way, g, err, id, payload)
			}
			return g
		}
		end := func(g queue.Grant) {
			t.Helper()
			if _, err := c.queue.Fail(t.Context(), queue.Caller{Worker: "me", Kind: "upper"}, g.Job, g.LeaseID, queue.Failure{Code: "X", Message: "no luck", RetryPolicy: queue.Final}); err != nil {
				t.Fatal(err)
			}
		}
		end(lease())
		c.run(1, "no luck", "result", id)
		dlq := func(code int, says, what string, more ...string) {
			t.Helper()
			c.run(code, says, append([]string{"dlq", what, "--scope", "gateway", "--kind", "upper"}, more...)...)
		}
		dlq(0, "upper", "list")
		dlq(0, `"suffix":"x"`, "show", id)
		dlq(0, id+"  would be redriven", "redrive", "--dry-run")
		c.run(2, "--scope gateway needs one of the kinds file", "dlq", "list", "--scope", "gateway")
		c.run(2, "--kind is for --scope gateway", "dlq", "list", "--scope", "zpe", "--kind", "upper")
		c.run(0, "no dead letters", "dlq", "list", "--scope", "gateway", "--kind", "need")
		c.run(0, "", "retry", id)
		c.run(0, "queued", "get", id)
		end(lease())
		dlq(0, id+"  redriven", "redrive")
		end(lease()) // once: nothing else waits
		dlq(0, id+"  purged", "purge", "--yes", id)
		if g, err := c.queue.Lease(t.Context(), queue.Caller{Worker: "me"}, queue.LeaseRequest{Renews: true, Kinds: []jobs.Kind{"upper"}}); err != nil || g.Job != "" {
			t.Errorf("%s: leased %+v, %v; want no second message", way, g, err)
		}
	})
}

func TestK19SubmitToAGatewaySaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	testrun.Once(t, "what the commands start has race tests of its own")
	c := newGatewayCommands(t)
	file, large, most := c.write("a.txt", "some text"), c.write("large.txt", strings.Repeat("x", 2001)), c.write("most.txt", strings.Repeat("x", 1992))
	c.ways(func(way string) {
		for _, tt := range []struct {
			says string
			args []string
		}{
			{"params.fail", []string{"--kind", "upper", "--param", "fail=many", file}},
			{"params.none", []string{"--kind", "upper", "--param", "none=1", file}},
			{"params.bytes", []string{"--kind", "need"}},
			{"--kind: ", []string{"--kind", "lower", file}},
			{"of a kind of its kinds file", []string{"--kind", "pdf", file}},
			{"of a kind of its kinds file", []string{file}},
			{"a gateway makes the ids of its jobs", []string{"--kind", "upper", "--id", "mine", file}},
			{"--input: they have 2001 bytes together, and at most 2000 are allowed (max_input of kind upper)", []string{"--kind", "upper", "--input", most, "--input", file}},
			{"--input: there is no upload such as number 2", []string{"--kind", "upper", "--input", file, "--input", "uploads/a.pdf"}},
			{"has {input} within an argument, so a job has one, and not 2", []string{"--kind", "one", "--input", file, "--input", file}},
			{"--input: there is no such upload", []string{"--kind", "upper", "--input", "uploads/a.pdf"}},
			{"input larger than 2000 bytes (max_input of kind upper)", []string{"--kind", "upper", large}},
			{"input larger than 2000 bytes (max_input of kind upper)", []string{"--kind", "upper", "--input", "-"}},
		} {
			c.runWith(2, tt.says, strings.Repeat("x", 2001), append([]string{"submit", "--scope", "gateway"}, tt.args...)...)
		}
		c.run(2, "want fleet, gateway or zpe", "submit", "--scope", "system", "--kind", "upper", file)
		c.run(2, "kind zpe is scope zpe", "submit", "--scope", "fleet", "--kind", "zpe", file)
		if keys, err := c.rdb.Keys(t.Context(), "zpe:status:*").Result(); err != nil || len(keys) > 0 {
			t.Errorf("%s: queued %v, %v", way, keys, err)
		}
	})
	c.env = c.environment(c.atRedis()...)
	c.run(2, "is in no kinds file here", "submit", "--scope", "gateway", "--kind", "upper", file)
}
