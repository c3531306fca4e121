package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/batchfleet/batchfleet/internal/testrun"
)

// TestF63WithoutPubSubACommandSaysWhatToDo and ends with exit code 3, also if it is an operation that
// the command runs itself.
func TestF63WithoutPubSubACommandSaysWhatToDo(t *testing.T) {
	testrun.Long(t, "it starts processes")
	t.Parallel()
	rds := miniredis.RunT(t)
	env := []string{
		"REDIS_HOST=" + rds.Host(), "REDIS_PORT=" + rds.Port(), "LOCAL_STORAGE_PATH=" + t.TempDir(), "GCP_PROJECT_ID=p",
		"PUBSUB_EMULATOR_HOST=127.0.0.1:1", "DEAD_LETTER_TOPIC=dead",
	}
	file := filepath.Join(t.TempDir(), "in.pdf")
	if err := os.WriteFile(file, []byte("%PDF-1.4"), 0o600); err != nil {
		t.Fatal(err)
	}
	const do = "batchfleet: start the emulator (batchfleet emulator), or set PUBSUB_EMULATOR_HOST to where it is\n"
	for _, args := range []string{"run start", "run start --json", "run start --dry-run", "run redrive", "submit " + file, "dlq list", "dlq redrive"} {
		code, stdout, stderr := output(t, batchfleet(t, env, strings.Fields(args)...))
		if all := stdout + stderr; code != 3 || !strings.HasSuffix(stderr, do) || !strings.Contains(all, "cannot reach Pub/Sub at 127.0.0.1:1: connection refused") || strings.Contains(all, "rpc error") {
			t.Errorf("batchfleet %s: exit code %d\n%s%s", args, code, stdout, stderr)
		}
	}
}

// TestF63WithoutRedisSubmitStoresNothing and names the Redis.
func TestF63WithoutRedisSubmitStoresNothing(t *testing.T) {
	t.Parallel()
	c := newCommands(t)
	code, _, stderr := output(t, batchfleet(t, append(c.env, "REDIS_HOST=127.0.0.1", "REDIS_PORT=1"), "submit", c.write("a.pdf", "%PDF")))
	if stored := c.uploads(); code != 3 || len(stored) > 0 || !strings.Contains(stderr, "reach redis at 127.0.0.1:1 db 0: ") {
		t.Errorf("exit code %d, stored %v\n%s", code, stored, stderr)
	}
}

// TestF63AnInterruptedDrainSaysThatWorkersStillTakeNoJobs because that outlives the command.
func TestF63AnInterruptedDrainSaysThatWorkersStillTakeNoJobs(t *testing.T) {
	t.Parallel()
	rds := miniredis.RunT(t)
	drain := launch(t, batchfleet(t, []string{"REDIS_HOST=" + rds.Host(), "REDIS_PORT=" + rds.Port(), "LOCAL_STORAGE_PATH=" + t.TempDir(), "GCP_PROJECT_ID=p", "PUBSUB_EMULATOR_HOST=127.0.0.1:1"}, "run", "drain"))
	drain.untilLogged("wait: ") // for 15 s at least, until all workers must know
	code, _ := drain.terminate()
	const want = "batchfleet: interrupted; the operation ran in this command, and is canceled; workers still take no jobs: `batchfleet run start` lets them\n"
	if log := drain.log.String(); code != 130 || !strings.HasSuffix(log, want) {
		t.Errorf("exit code %d\n%s", code, log)
	}
}
