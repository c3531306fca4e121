package cli

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

const submittedKinds = `
[thumbnail]
command = ["thumbnail", "{params.dpi}", "{input}"]
[thumbnail.params.dpi]
type = "integer"
default = 60
min = 10
max = 600

[report]
command = ["report", "{params.month}", "{params.draft}"]
[report.params.month]
type = "string"
required = true
[report.params.draft]
type = "boolean"
default = false
`

// commands runs commands of one fleet.
type commands struct {
	*testFleet
	dir string // of their files
	env []string
}

func newCommands(t *testing.T) *commands {
	t.Helper()
	c := &commands{testFleet: newTestFleet(t), dir: t.TempDir()}
	c.env = c.environment("KINDS_FILE=" + c.write("kinds.toml", submittedKinds))
	return c
}

func (c *commands) write(name, text string) (file string) {
	c.t.Helper()
	file = filepath.Join(c.dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return file
}

// run runs a command that must end with this exit code and say this on either stream. It returns its output.
func (c *commands) run(code int, says string, args ...string) string {
	c.t.Helper()
	return c.runWith(code, says, "", args...)
}

func (c *commands) runWith(code int, says, stdin string, args ...string) string {
	c.t.Helper()
	cmd := batchfleet(c.t, c.env, args...)
	cmd.Stdin = strings.NewReader(stdin)
	got, stdout, stderr := output(c.t, cmd)
	if got != code || !strings.Contains(stdout+stderr, says) {
		c.t.Errorf("%s\nexit code %d, want %d and %q\n%s%s", strings.Join(args, " "), got, code, says, stdout, stderr)
	}
	return strings.TrimSpace(stdout)
}

// uploads returns the objects that were stored as inputs, with their content.
func (c *commands) uploads() map[string]string {
	c.t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(c.testFleet.dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasPrefix(name, "uploads/") {
			return err
		}
		text, err := fs.ReadFile(os.DirFS(c.testFleet.dir), name)
		all[name] = string(text)
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return all
}

// published returns how many messages the queue has been given.
func (c *commands) published() int { return int(c.emulator.Stats()[0].Published) }

func TestK19SubmitSaysWhatIsWrongBeforeItStoresAnything(t *testing.T) {
	t.Parallel()
	c := newCommands(t)
	pdf, params := c.write("a.pdf", "%PDF"), c.write("params.json", `{"dpi": 700}`)
	for _, tt := range []struct {
		says string
		args []string
	}{
		{"params.dpi is 7: must be from 10 to 600", []string{"--kind", "thumbnail", "--param", "dpi=7", pdf}},
		{"params.dpi is 700", []string{"--kind", "thumbnail", "--params", params, pdf}},
		{"params.dpi", []string{"--kind", "thumbnail", "--param", "dpi=many", pdf}},
		{"params.dip", []string{"--kind", "thumbnail", "--param", "dip=70", pdf}},
		{"params.month", []string{"--kind", "report"}},
		{`--param is "dpi": want NAME=VALUE`, []string{"--kind", "thumbnail", "--param", "dpi", pdf}},
		{"--param dpi is given twice", []string{"--kind", "thumbnail", "--param", "dpi=70", "--param", "dpi=80", pdf}},
		{"--params: want an object in JSON", []string{"--kind", "report", "--params", pdf}},
		{"--params: want the name of a file: --param NAME=VALUE gives a single one", []string{"--kind", "report", "--params", `{"month":"may"}`}},
		{"--params: documents have none", []string{"--kind", "pdf", "--param", "dpi=70", pdf}},
		{"the command of kind thumbnail names its input", []string{"--kind", "thumbnail"}},
		{"a job of kind pdf needs the name of an object", []string{"--kind", "pdf"}},
		{"--input: ", []string{"--kind", "thumbnail", "--input", "uploads/none.pdf"}},
		{"--input is for one job without a FILE", []string{"--kind", "thumbnail", "--input", pdf, pdf}},
		{"FILE is missing", nil},
		{"for one job, and there are several files", []string{"--kind", "thumbnail", "--id", "x", pdf, pdf}},
		{"two ways to name a job", []string{"--kind", "thumbnail", "--id", "x", "--idempotency-key", "k", pdf}},
		{"--idempotency-key: must be 1 to 255 visible ASCII", []string{"--kind", "thumbnail", "--idempotency-key", "a b", pdf}},
		{"--idempotency-key is empty", []string{"--kind", "thumbnail", "--idempotency-key", "", pdf}},
		{"--id: job id", []string{"--kind", "thumbnail", "--id", "a/b", pdf}},
		{"cannot both be standard input", []string{"--kind", "thumbnail", "--params", "-", "--input", "-"}},
		{"give --wait, too", []string{"--kind", "thumbnail", "-o", c.dir, pdf}},
		{"in no kinds file here, and no worker runs it", []string{"--kind", "thumbnial", pdf}},
		{"--kind is missing: jobs of scope gateway are of a kind of its kinds file", []string{"--scope", "gateway", pdf}},
		{"what a job of kind zpe is asked for is in its FILE", []string{"--kind", "zpe", "--param", "a=1", pdf}},
	} {
		c.run(2, tt.says, append([]string{"submit"}, tt.args...)...)
	}
	c.run(2, "kinds.bad:1", "submit", "--kinds", c.write("kinds.bad", "[[["), "--kind", "report")
	if all, n := c.uploads(), c.published(); len(all) > 0 || n > 0 {
		t.Errorf("stored %v, published %d, want nothing", all, n)
	}
}

func TestK19SubmitTakesTheOnlyKindOfItsFile(t *testing.T) {
	t.Parallel()
	c := newCommands(t)
	pdf, one := c.write("a.pdf", "%PDF"), c.write("one.toml", "[only]\ncommand = [\"true\"]\n")
	id := c.run(0, "no worker of the fleet has kind only yet: `batchfleet worker --kinds FILE` starts one", "submit", "--kinds", one, pdf)
	c.run(0, "kind        only\n", "get", id)
	c.run(2, "kinds: name with --kind the one for this job, such as --kind thumbnail", "submit", "--kinds", filepath.Join(c.dir, "kinds.toml"), pdf)
}

func TestK19SubmitTakesInputFromWhereItIs(t *testing.T) {
	t.Parallel()
	c := newCommands(t)
	pdf := c.write("a.pdf", "%PDF")
	if err := os.MkdirAll(filepath.Join(c.testFleet.dir, "uploads"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.testFleet.dir, "uploads", "there.pdf"), []byte("there"), 0o600); err != nil {
		t.Fatal(err)
	}
	const no = "no worker of the fleet has kind" // a note: a worker may come later
	for _, tt := range []struct {
		name, stdin string
		args        []string
		input       string // its content; empty for none
	}{
		{"a file", "", []string{"--kind", "thumbnail", "--param", "dpi=300", pdf}, "%PDF"},
		{"a file as input", "", []string{"--kind", "thumbnail", "--input", pdf}, "%PDF"},
		{"standard input", "piped", []string{"--kind", "thumbnail", "--input", "-"}, "piped"},
		{"an object", "", []string{"--kind", "thumbnail", "--input", "uploads/there.pdf"}, "there"},
		{"none", "", []string{"--kind", "report", "--param", "month=2026-11"}, ""},
		{"none, params from standard input", `{"month": "2026-11"}`, []string{"--kind", "report", "--params", "-", "--param", "draft=true"}, ""},
	} {
		id := c.runWith(0, no, tt.stdin, append([]string{"submit"}, tt.args...)...)
		e, err := c.status.Get(t.Context(), jobs.ID(id))
		if err != nil || e.State() != jobs.Queued || string(e.Detail.Kind) != tt.args[1] {
			t.Errorf("%s: job %q is %+v, %v", tt.name, id, e, err)
			continue
		}
		if got := c.uploads()[e.Detail.Input]; got != tt.input {
			t.Errorf("%s: input %q has %q, want %q", tt.name, e.Detail.Input, got, tt.input)
		}
	}
	if n := c.published(); n != 6 {
		t.Errorf("%d messages, want 6", n)
	}
}

func TestK19SubmitWithAKeyCanBeRunAgain(t *testing.T) {
	t.Parallel()
	c := newCommands(t)
	pdf := c.write("a.pdf", "%PDF")
	for _, tt := range []struct {
		name, stdin, other string // other: another standard input
		args, differ       []string
		stored             int
	}{
		{"a file", "", "", []string{"--kind", "thumbnail", "--idempotency-key", "k1", pdf}, []string{"--kind", "thumbnail", "--idempotency-key", "k1", "--param", "dpi=70", pdf}, 1},
		{"standard input", "piped", "piped, too", []string{"--kind", "thumbnail", "--idempotency-key", "k2", "--input", "-"}, []string{"--kind", "thumbnail", "--idempotency-key", "k2", "--input", "-"}, 1},
		{"no input", "", "", []string{"--kind", "report", "--param", "month=1", "--idempotency-key", "k3"}, []string{"--kind", "mock", "--idempotency-key", "k3"}, 0},
	} {
		before, sent := len(c.uploads()), c.published()
		id := c.runWith(0, "", tt.stdin, append([]string{"submit"}, tt.args...)...)
		if again := c.runWith(0, "", tt.stdin, append([]string{"submit"}, tt.args...)...); again != id || id == "" {
			t.Errorf("%s: job %q, and then %q", tt.name, id, again)
		}
		c.runWith(2, "--idempotency-key: this idempotency key was used for a job of another kind", tt.other, append([]string{"submit"}, tt.differ...)...)
		if stored, published := len(c.uploads())-before, c.published()-sent; stored != tt.stored || published != 1 {
			t.Errorf("%s: stored %d, published %d; want %d and 1", tt.name, stored, published, tt.stored)
		}
	}
	// The file is compared by what is in it.
	c.write("a.pdf", "%PDF-2")
	c.run(2, "was used for a job of another kind", "submit", "--kind", "thumbnail", "--idempotency-key", "k1", pdf)
}

func TestK19SubmitRefusesAnIDThatIsInUse(t *testing.T) {
	t.Parallel()
	c := newCommands(t)
	pdf := c.write("a.pdf", "%PDF")
	if id := c.run(0, "", "submit", "--kind", "thumbnail", "--id", "mine", pdf); id != "mine" {
		t.Errorf("id %q", id)
	}
	before := c.uploads()
	c.write("a.pdf", "another")
	c.run(1, "there is a job mine already: it is queued", "submit", "--kind", "thumbnail", "--id", "mine", pdf)
	c.run(0, "", "cancel", "mine")
	c.run(1, "there is a job mine already: it is canceled", "submit", "--kind", "thumbnail", "--id", "mine", pdf)
	if after := c.uploads(); fmt.Sprint(before) != fmt.Sprint(after) || c.published() != 1 {
		t.Errorf("stored %v, was %v; published %d", after, before, c.published())
	}
}

func TestK19SubmitLeavesNoUploadWhenRedisIsAway(t *testing.T) {
	t.Parallel()
	c := newCommands(t)
	pdf := c.write("a.pdf", "%PDF")
	c.redis.Kill()
	for _, args := range [][]string{{pdf}, {"--kind", "pdf", pdf}} {
		c.run(3, "connection refused", append([]string{"submit"}, args...)...)
	}
	if all := c.uploads(); len(all) > 0 {
		t.Errorf("left over: %v", all)
	}
}

func TestK19SubmitWaitsAndFetchesWhatJobsHaveMade(t *testing.T) {
	t.Parallel()
	c := newCommands(t)
	c.start("MOCK_PAGES=1", "MOCK_PAGE_SECONDS=0.01")
	a, b := c.write("a.pdf", "%PDF"), c.write("b.pdf", "%PDF")
	one, two := filepath.Join(c.dir, "one"), filepath.Join(c.dir, "two")
	c.run(0, filepath.Join(one, "result.json"), "submit", "--kind", "mock", "--wait", "-o", one, a)
	out := c.run(0, "", "submit", "--kind", "mock", "--wait", "--json", "-o", two, a, b)
	for line := range strings.Lines(out) {
		var j jobapi.Job
		if err := json.Unmarshal([]byte(line), &j); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if _, err := os.Stat(filepath.Join(two, j.ID, "result.json")); err != nil {
			t.Error(err)
		}
	}
	if n := strings.Count(out, "\n") + 1; n != 2 {
		t.Errorf("%d lines: %s", n, out)
	}
}

func TestK19SubmitThroughAServer(t *testing.T) {
	t.Parallel()
	c := newCommands(t)
	g := &testGateway{t: t, redis: c.redis, rdb: c.rdb, queue: queue.New(c.rdb, queue.DefaultRules), dir: t.TempDir()}
	tokens := filepath.Join(g.dir, "tokens")
	_, token, _ := g.runCommand(nil, "token", "new", "--file", tokens, "--name", "me", "--scope", "operate")
	addr := freeAddr(t)
	g.startProcess(c.env, "gateway", "--addr", addr, "--job-tokens-file", tokens)
	g.untilReadyz(addr, http.StatusOK)
	c.start("MOCK_PAGES=1", "MOCK_PAGE_SECONDS=0.01")
	// This end knows no kinds file, no Redis and no storage.
	c.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "BATCHFLEET_API=http://" + addr, "BATCHFLEET_TOKEN_FILE=" + c.write("token", token)}
	id := c.run(0, "", "submit", "--kind", "report", "--param", "month=2026-11", "--idempotency-key", "k")
	if again := c.run(0, "", "submit", "--kind", "report", "--param", "month=2026-11", "--idempotency-key", "k"); again != id || id == "" {
		t.Errorf("jobs %q and %q", id, again)
	}
	c.run(2, "--idempotency-key: this idempotency key was used", "submit", "--kind", "report", "--param", "month=2026-12", "--idempotency-key", "k")
	c.run(2, "params.dpi is 7: must be from 10 to 600", "submit", "--kind", "thumbnail", "--param", "dpi=7", "--input", "uploads/a.pdf")
	c.run(2, "--input: ", "submit", "--kind", "thumbnail", "--input", "uploads/a.pdf")
	c.run(2, "--input: a document has one, and not 2", "submit", "--kind", "mock", "--input", "uploads/a.pdf", "--input", "uploads/b.pdf")
	c.run(2, "its --input is an object of the server's storage", "submit", "--kind", "thumbnail", "--input", "uploads/a.pdf", "--input", "-")
	c.run(0, "mine", "submit", "--kind", "mock", "--id", "mine")
	c.run(1, "there is a job mine already", "submit", "--kind", "mock", "--id", "mine")
	c.run(2, "a job of the fleet needs --kind", "submit", "--input", "uploads/a.pdf")
	dir := filepath.Join(c.dir, "out")
	c.run(0, filepath.Join(dir, "result.json"), "submit", "--kind", "mock", "--wait", "-o", dir)
	if n := len(c.uploads()); n > 0 {
		t.Errorf("%d uploads", n)
	}
}

// TestK19ParamsWithoutAKindsFile are what they look like.
func TestK19ParamsWithoutAKindsFile(t *testing.T) {
	for text, want := range map[string]string{
		"300": "300", "-1.5": "-1.5", "1e3": "1e3", "true": "true", "false": "false", "null": `"null"`, "": `""`, "A4": `"A4"`, `"x"`: `"\"x\""`,
		"007": `"007"`, "0x10": `"0x10"`, "NaN": `"NaN"`, "[1]": `"[1]"`, "{}": `"{}"`, "a=b": `"a=b"`, " 1": `" 1"`, "-": `"-"`, "1e": `"1e"`, "1-2": `"1-2"`,
	} {
		got, err := valueOf(nil, "x", text)
		if err != nil || string(got) != want {
			t.Errorf("%q is %s, %v; want %s", text, got, err, want)
		}
	}
	a := asked{params: []string{"dpi=300", "page=A4"}, paramsFile: filepath.Join(t.TempDir(), "p.json")}
	if err := os.WriteFile(a.paramsFile, []byte(`{"dpi": 60, "color": true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := a.paramsOf(t.Context(), nil); err != nil || string(got) != `{"color":true,"dpi":300,"page":"A4"}` {
		t.Errorf("%s, %v", got, err)
	}
}

func TestK19OneTextIsFoundAmongArtifacts(t *testing.T) {
	j := jobapi.Job{ID: "x"}
	of := func(names ...string) (files []jobapi.Artifact) {
		for _, name := range names {
			files = append(files, jobapi.ArtifactOf(name, 1))
		}
		return files
	}
	for _, tt := range []struct {
		files []jobapi.Artifact
		want  string // empty for an error
	}{
		{of("result.json", "words.txt", "page.png"), "words.txt"},
		{of("result.json", "words.txt", "log.txt"), "words.txt"},
		{of("result.json", "a.txt", "b.csv"), ""},
		{of("result.json", "page.png"), ""},
	} {
		if got, err := (&connection{}).onlyText(j, tt.files); got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("of %v: %q, %v; want %q", tt.files, got, err, tt.want)
		}
	}
	for name, want := range map[string]bool{"a.txt": true, "result.json": true, "pages.jsonl": true, "page.png": false, "x": false} {
		if got := isText(jobapi.ArtifactOf(name, 1)); got != want {
			t.Errorf("%s is text: %t", name, got)
		}
	}
}
