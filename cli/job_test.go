package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/cli/program"
)

// jobAnswers runs job commands against a server that answers so, by the path below
// /api/v1, or that with its query. An answer {"error":503, is a refusal, and what is no JSON a stream.
func jobAnswers(t *testing.T, answers map[string]string) (run func(args ...string) (code int, stdout, stderr string)) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, media := http.StatusOK, "application/json"
		path := strings.TrimPrefix(r.URL.Path, "/api/v1/")
		text, ok := answers[path+"?"+r.URL.RawQuery]
		if !ok {
			text, ok = answers[path]
		}
		if !ok {
			status, text = http.StatusNotFound, `{"error":{"code":"NOT_FOUND","message":"No such job","details":{}}}`
		} else if n, err := fmt.Sscanf(text, `{"error":%d,`, &status); n == 1 && err == nil {
			text = `{"error":{"code":"` + map[int]string{403: "FORBIDDEN", 503: "UNAVAILABLE"}[status] + `","message":"so it is","details":{}}}`
		} else if !strings.HasPrefix(text, "{") {
			media = "text/event-stream"
		}
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(s.Close)
	return func(args ...string) (int, string, string) {
		var stdout, stderr bytes.Buffer
		root := rootCommand()
		root.SetArgs(append([]string{"job", "--api", s.URL}, args...))
		root.SetOut(&stdout)
		root.SetErr(&stderr)
		err := root.ExecuteContext(t.Context())
		coded := program.ExitError{}
		if err != nil && !errors.As(err, &coded) {
			t.Fatal(err)
		}
		if err != nil {
			fmt.Fprintln(&stderr, err)
		}
		return coded.Code, stdout.String(), strings.ReplaceAll(stderr.String(), s.URL, "URL")
	}
}

const aJob = `{"jobId":"a","scope":"fleet","type":"fleet.pdf","status":"running","createdAt":"2026-01-23T09:00:00.000Z"}`

func TestJ07ListSaysHowToGoOn(t *testing.T) {
	run := jobAnswers(t, map[string]string{
		"fleet/jobs": `{"items":[` + aJob + `],"nextCursor":"c1$"}`,
		"utils/jobs": `{"items":[]}`,
	})
	for _, tt := range []struct {
		name, args, want string
	}{
		{"with the flags that were given", "list --scope fleet --status running --limit 7 --json", "more: batchfleet job list --scope fleet --api URL --json --limit 7 --status running --cursor 'c1$'\n"},
		{"in the scope of a type", "list --type fleet.pdf", "more: batchfleet job list --scope fleet --api URL --type fleet.pdf --cursor 'c1$'\n"},
		{"of all scopes", "list --status running", "more: batchfleet job list --scope fleet --api URL --status running --cursor 'c1$'\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, _, stderr := run(strings.Fields(tt.args)...)
			if code != 0 || stderr != tt.want {
				t.Errorf("exit code %d, stderr %q, want %q", code, stderr, tt.want)
			}
		})
	}
}

// TestJ07ListOfAllScopesGoesOnWhereEachWasCut gives the next page of each scope, with none of its jobs
// left out.
func TestJ07ListOfAllScopesGoesOnWhereEachWasCut(t *testing.T) {
	item := func(scope, id, created string) string {
		return fmt.Sprintf(`{"jobId":%q,"scope":%q,"type":"x.y","status":"queued","createdAt":"2026-01-23T09:00:%s.000Z"}`, id, scope, created)
	}
	run := jobAnswers(t, map[string]string{
		"fleet/jobs?limit=3":  `{"items":[` + item("fleet", "f1", "09") + "," + item("fleet", "f2", "04") + "," + item("fleet", "f3", "03") + `],"nextCursor":"f3"}`,
		"fleet/jobs?limit=1":  `{"items":[` + item("fleet", "f1", "09") + `],"nextCursor":"f1"}`,
		"zpe/jobs?limit=3":    `{"items":[` + item("zpe", "z1", "08") + "," + item("zpe", "z2", "07") + "," + item("zpe", "z3", "02") + `],"nextCursor":"z3"}`,
		"zpe/jobs?limit=2":    `{"items":[` + item("zpe", "z1", "08") + "," + item("zpe", "z2", "07") + `],"nextCursor":"z2"}`,
		"utils/jobs?limit=3":  `{"items":[` + item("utils", "u1", "01") + `]}`,
		"system/jobs?limit=3": `{"items":[]}`,
	})
	code, stdout, stderr := run("list", "--limit", "3", "--json")
	if n := strings.Count(stdout, "\n"); code != 0 || n != 3 {
		t.Errorf("exit code %d, %d jobs, want 3\n%s", code, n, stdout)
	}
	const want = "more: batchfleet job list --scope utils --api URL --json --limit 3\n" +
		"more: batchfleet job list --scope fleet --api URL --json --limit 3 --cursor f1\n" +
		"more: batchfleet job list --scope zpe --api URL --json --limit 3 --cursor z2\n"
	if stderr != want {
		t.Errorf("it says\n%swant\n%s", stderr, want)
	}
}

func TestJ10FollowedLogLooksAsTheOther(t *testing.T) {
	run := jobAnswers(t, map[string]string{
		"fleet/jobs/a":        aJob,
		"fleet/jobs/a/events": "event: log\ndata: {\"lines\":[{\"time\":\"2026-01-23T09:00:00.000Z\",\"text\":\"one\"}]}\nid: 1\n\nevent: end\n\n",
	})
	if code, stdout, stderr := run("logs", "-f", "a"); code != 0 || stdout != "one\n" {
		t.Errorf("exit code %d: %q, %s", code, stdout, stderr)
	}
}

func TestF63WatchSaysOnceWhyAJobHasFailed(t *testing.T) {
	failed := strings.Replace(aJob, `"running"`, `"failed","error":{"code":"FAILED","message":"no PDF","details":{}}`, 1)
	run := jobAnswers(t, map[string]string{"fleet/jobs/a": failed, "fleet/jobs/a/events": "event: job\ndata: " + failed + "\nid: 1\n\nevent: end\n\n"})
	code, stdout, stderr := run("watch", "a")
	if code != 1 || !strings.HasSuffix(stdout, "failed    0/0  no PDF\n") || stderr != "job a failed\n" {
		t.Errorf("exit code %d: %q, and then %q", code, stdout, stderr)
	}
	code, stdout, stderr = run("watch", "--json", "a")
	if code != 1 || !strings.Contains(stdout, `"code":"FAILED","message":"no PDF"`) || stderr != "job a failed: no PDF\n" {
		t.Errorf("as JSON: exit code %d: %q, and then %q", code, stdout, stderr)
	}
}

func TestJ09JobCommandsSayWhatTheyWanted(t *testing.T) {
	run := jobAnswers(t, map[string]string{
		"utils/purge":        `{"error":403,`,
		"system/start":       `{"error":503,`,
		"utils/redrive":      `<html>`,
		"utils/submit-batch": `{"jobId":"b"}`,
	})
	for _, tt := range []struct {
		args  string
		code  int
		want  string
		never string
	}{
		{"get a", 1, "get job a: no such job", ""},
		{"watch a", 1, "watch job a: no such job", ""},
		{"logs a", 1, "read log of job a: no such job", ""},
		{"cancel a", 1, "cancel job a: no such job", ""},
		{"cancel a --scope zpe", 1, "cancel job a: scope zpe has no such job", ""},
		{"run purge", 2, "run utils.purge: FORBIDDEN: so it is", "--api"},
		{"run start", 3, "UNAVAILABLE: so it is", "--api"},
		{"run redrive", 3, "--api (or BATCHFLEET_API) says where", ""},
	} {
		t.Run(tt.args, func(t *testing.T) {
			code, _, stderr := run(strings.Fields(tt.args)...)
			if code != tt.code || !strings.Contains(stderr, tt.want) || tt.never != "" && strings.Contains(stderr, tt.never) {
				t.Errorf("exit code %d: %s, want %d and %q", code, stderr, tt.code, tt.want)
			}
		})
	}
}

func TestJ01JobCommandsWarnOfATokenThatOthersMayRead(t *testing.T) {
	run := jobAnswers(t, map[string]string{"utils/jobs": `{"items":[]}`})
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("bft_canary\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := run("list", "--token-file", file); code != 0 || stderr != "" {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := run("list", "--token-file", file)
	if want := "other users of this machine may read a token: " + file + " has mode -rw-r-----; chmod 600"; code != 0 || !strings.Contains(stderr, want) || strings.Contains(stderr, "canary") {
		t.Errorf("exit code %d: %s, want %q", code, stderr, want)
	}
}

func TestJ01NamesOfTokensAreArguments(t *testing.T) {
	for _, args := range [][]string{
		{"token", "new", "--file", "tokens", "--name", "a b", "--scope", "read"},
		{"token", "new", "--file", "tokens", "--name", "a", "--scope", "root"},
		{"token", "revoke", "--file", "tokens", "a b"},
	} {
		root := rootCommand()
		root.SetArgs(args)
		err := root.ExecuteContext(t.Context())
		if coded := (program.ExitError{}); !errors.As(err, &coded) || coded.Code != program.Usage {
			t.Errorf("%q: %v, want exit code 2", args, err)
		}
	}
}
