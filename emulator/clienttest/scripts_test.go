package clienttest

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/internal/testrun"
)

// scenarios are what every client must be able to do. clients.py and
// clients.mjs hold one function of each name.
var scenarios = []string{
	// The longest first: they wait for leases to end.
	"client_extends", "extend", "restart",
	"publish_and_pull", "stream_with_room_for_one", "stream_many", "large", "batch",
	"update_with_mask", "lists", "detach", "delete_while_streaming",
	"nack", "order", "order_at_once", "filter", "dead_letter", "seek", "snapshot", "exactly_once",
}

func TestE03PythonClient(t *testing.T) {
	t.Parallel()
	python := installed(t, "CLIENTTEST_PYTHON", "venv/bin/python")
	runScenarios(t, python, "clients.py")
}

func TestE03NodeClient(t *testing.T) {
	t.Parallel()
	modules := installed(t, "CLIENTTEST_NODE_MODULES", "node_modules")
	runScenarios(t, "node", "clients.mjs",
		"CLIENTTEST_NODE_MODULES="+modules,
		"METADATA_SERVER_DETECTION=none") // the client would look for Google's cloud around it
}

// installed returns the path in the environment variable, or else what setup.sh
// has installed. Where there is neither the test is skipped, or fails in CI.
func installed(t *testing.T, variable, path string) string {
	t.Helper()
	if given := os.Getenv(variable); given != "" {
		return given
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "batchfleet", "clienttest")
	// setup.sh writes what it installed when it is done.
	have, err := os.ReadFile(filepath.Join(dir, "pins"))
	if err == nil && bytes.Equal(have, pins(t)) {
		return filepath.Join(dir, path)
	}
	const advice = "the pinned client is not installed: run emulator/clienttest/setup.sh %s, or set %s"
	if os.Getenv("CI") != "" {
		t.Fatalf(advice, dir, variable)
	}
	t.Skipf(advice, dir, variable)
	return ""
}

// pins is what setup.sh is to install.
func pins(t *testing.T) []byte {
	t.Helper()
	var all []byte
	for _, name := range []string{"requirements.txt", "package-lock.json"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	return all
}

// runScenarios runs each scenario of a script in a process of its own, all
// beside each other on one server; the one that restarts it has another.
func runScenarios(t *testing.T, interpreter, script string, env ...string) {
	t.Helper()
	testrun.Long(t, "it starts processes")
	testrun.Once(t, "the tests of the Go client make the same calls at the same time")
	shared := start(t)
	for _, scenario := range scenarios {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			r := shared
			if scenario == "restart" {
				r = start(t)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 80*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, interpreter, script, scenario)
			cmd.Env = append(os.Environ(), append(env, "PUBSUB_EMULATOR_HOST="+r.addr)...)
			if err := r.talk(t, cmd); err != nil {
				for _, st := range r.Stats() {
					if strings.HasSuffix(st.Subscription, "-"+scenario) {
						t.Logf("the server has %+v", st)
					}
				}
				t.Fatal(err)
			}
		})
	}
}

// talk runs a script, restarts the server when it asks for that, and shows what
// it says when it fails.
func (r *rig) talk(t *testing.T, cmd *exec.Cmd) error {
	t.Helper()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdin := must(cmd.StdinPipe())(t)
	stdout := must(cmd.StdoutPipe())(t)
	if err := cmd.Start(); err != nil {
		return err
	}
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if lines.Text() == "restart" {
			r.restart(t)
			if _, err := io.WriteString(stdin, "restarted\n"); err != nil {
				t.Error(err)
			}
		}
	}
	err := cmd.Wait()
	if err != nil {
		t.Logf("%s", stderr.String())
	}
	return err
}

func TestE03Celery(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it starts processes")
	testrun.Once(t, "the tests of the Go client make the same calls at the same time")
	python := installed(t, "CLIENTTEST_PYTHON", "venv/bin/python")
	r := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 80*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "celery_tasks.py")
	cmd.Env = append(os.Environ(), "PUBSUB_EMULATOR_HOST="+r.addr)
	if err := r.talk(t, cmd); err != nil {
		t.Fatal(err)
	}
}
