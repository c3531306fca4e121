package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
)

// hostileParam is what params of a job of kind say, whose param text may be long, can be.
type hostileParam struct {
	name, params string
	refused      string // what says why; empty if they are fine, and the program gets the text as it is
}

// hostileParams is no variable: every process of these tests would make half a million names before it begins.
func hostileParams() []hostileParam {
	return []hostileParam{
		{"an option", `{"text":"-rf"}`, "params.text"},
		{"a command", `{"text":"$(touch pwned); ` + "`touch pwned`" + ` && rm -rf . | tee pwned > pwned"}`, ""},
		{"line ends", `{"text":"a\nb\r\n\n::progress 9/9\n"}`, ""},
		{"quotes", `{"text":"' \" \\ {input} {{ %s %n"}`, ""},
		{"control characters", `{"text":"\u001b]0;x\u0007\u001b[2J\u202e"}`, ""},
		{"a NUL byte", `{"text":"a\u0000b"}`, "params.text"},
		{"another type", `{"text":{"text":"x"}}`, "params.text"},
		{"an unknown name", `{"text":"x","../x":"y"}`, "../x"},
		{"a name twice", `{"text":"x","text":"y"}`, ""},
		{"a text that is too long", `{"text":"` + strings.Repeat("x", 70_000) + `"}`, "params.text"},
		{"a megabyte", `{"text":"` + strings.Repeat("x", 1<<20) + `"}`, "bytes"},
		{"half a million names", manyNames(500_000), ""},
		{"no object", `["-rf"]`, ""},
		{"lists in lists", `{"text":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, "params.text"},
	}
}

func manyNames(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":0`, i)
	}
	return "{" + b.String()[1:] + "}"
}

// fine are those that run.
var fine = map[string]bool{"a command": true, "line ends": true, "quotes": true, "control characters": true}

func TestK03HostileParamsAtEveryDoor(t *testing.T) {
	t.Parallel()
	testrun.Once(t, "what the commands start has race tests of its own")
	c := newCommands(t)
	file := kindsFile(t, `printf %s "$1" >"$BATCHFLEET_OUTPUT/out"`, "")
	toml := "[say]\ncommand = [\"./k.sh\", \"{params.text}\"]\n[say.params.text]\ntype = \"string\"\nmax_length = 65536\n"
	if err := os.WriteFile(file, []byte(toml), 0o600); err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	c.env = c.environment("KINDS_FILE="+file, "WORK_DIR="+work)
	c.start("KINDS_FILE="+file, "WORK_DIR="+work, "WORKER_SLOTS=4")
	g := &testGateway{t: t, redis: c.redis, rdb: c.rdb, queue: queue.New(c.rdb, queue.DefaultRules), dir: t.TempDir()}
	tokens := filepath.Join(g.dir, "tokens")
	_, token, _ := g.runCommand(nil, "token", "new", "--file", tokens, "--name", "me", "--scope", "operate")
	addr := freeAddr(t)
	g.startProcess(append(c.env, "SPOOL_DIR="+t.TempDir()), "gateway", "--addr", addr, "--job-tokens-file", tokens)
	g.untilReadyz(addr, http.StatusOK)

	// Each returns the id of a job, or why there is none.
	post := func(url, token, body string) (id, refusal string) {
		t.Helper()
		r, err := g.request(http.MethodPost, "http://"+addr+url, token, body)
		if err != nil {
			return "", err.Error() // the rest of a long body was not read
		}
		if r.status != http.StatusOK && r.status != http.StatusCreated && r.status != http.StatusAccepted {
			if r.status/100 != 4 {
				t.Errorf("answered %d %s", r.status, r.body)
			}
			return "", string(r.body)
		}
		var a struct {
			API     string `json:"jobId"`
			Gateway string `json:"job_id"`
		}
		if err := json.Unmarshal(r.body, &a); err != nil {
			t.Errorf("answered %s", r.body)
		}
		return a.API + a.Gateway, ""
	}
	doors := map[string]func(id, params string) (string, string){
		"submit": func(id, params string) (string, string) {
			code, _, stderr := output(t, batchfleet(t, c.env, "submit", "--kind", "say", "--id", id, "--params", c.write("params.json", params)))
			if code == 0 {
				return id, ""
			}
			if code != 2 {
				t.Errorf("exit code %d: %s", code, stderr)
			}
			return "", stderr
		},
		"Job API": func(_, params string) (string, string) {
			return post("/api/v1/fleet/jobs", strings.TrimSpace(token), `{"kind":"say","params":`+params+`}`)
		},
		"gateway": func(_, params string) (string, string) { return post("/calc/say/jobs", "", `{"params":`+params+`}`) },
		"message": func(id, params string) (string, string) {
			c.sendRaw(fmt.Sprintf(`{"job_id":%q,"kind":"say","params":%s}`, id, params))
			until(t, time.Minute, "job "+id+" has ended", func() bool { return c.state(jobs.ID(id)) == "completed" || c.state(jobs.ID(id)) == "failed" })
			e, err := c.status.Get(t.Context(), jobs.ID(id))
			if err != nil {
				t.Fatal(err)
			}
			if e.Status == "completed" {
				return id, ""
			}
			return "", e.ErrorMsg
		},
	}
	all := hostileParams()
	for door, enter := range doors {
		for i, h := range all {
			id, refusal := enter(fmt.Sprintf("%s-%d", strings.ReplaceAll(door, " ", ""), i), h.params)
			switch {
			case fine[h.name] != (id != ""):
				t.Errorf("%s, %s: job %q, refused with %.300q", door, h.name, id, refusal)
			case id == "":
				if len(refusal) > 3000 || !strings.Contains(refusal, h.refused) {
					t.Errorf("%s, %s: refused with %.300q, want it short and with %q", door, h.name, refusal, h.refused)
				}
			case door != "gateway": // where nothing runs it here
				c.untilState(time.Minute, jobs.ID(id), "completed")
				var params struct{ Text string }
				if err := json.Unmarshal([]byte(h.params), &params); err != nil {
					t.Fatal(err)
				}
				if got := c.artifact(jobs.ID(id), "out"); got != params.Text {
					t.Errorf("%s, %s: the program got %q, want %q", door, h.name, got, params.Text)
				}
			}
		}
	}
	for _, dir := range []string{work, c.dir, c.testFleet.dir} {
		_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error {
			if strings.HasPrefix(filepath.Base(path), "pwned") {
				t.Errorf("a value was run: there is %s", path)
			}
			return nil
		})
	}
}
