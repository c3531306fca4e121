package cli

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// killedKinds are programs of every manner. Each notes that it runs; the marker is that of the test.
const killedKinds = `
[quick]
command = ["./quick"]
env = ["LEDGER", "MARKER"]
outputs = ["out"]
[slow]
command = ["./slow"]
env = ["LEDGER", "MARKER"]
slots = 2
[forks]
command = ["./forks"]
env = ["LEDGER", "MARKER"]
slots = 3
[fails]
command = ["./fails"]
env = ["LEDGER", "MARKER"]
[stubborn]
command = ["./stubborn"]
env = ["LEDGER", "MARKER"]
slots = 1
`

var killedPrograms = map[string]string{
	"quick": `echo "of $BATCHFLEET_JOB_ID" >"$BATCHFLEET_OUTPUT/out"`,
	"slow":  `for i in 1 2 3 4; do echo "::progress $i/4"; sleep 0.05; done; echo "of $BATCHFLEET_JOB_ID" >"$BATCHFLEET_OUTPUT/out"`,
	"forks": `setsid sleep 100 & sleep 100 & sleep 0.05; echo "of $BATCHFLEET_JOB_ID" >"$BATCHFLEET_OUTPUT/out"`,
	// Not so often that the kind is paused.
	"fails":    `echo "of $BATCHFLEET_JOB_ID" >"$BATCHFLEET_OUTPUT/out"; case $BATCHFLEET_JOB_ID in *[0248]) echo no such model >&2; exit 3;; esac`,
	"stubborn": `trap "" TERM; (trap "" TERM; setsid sleep 100) & sleep 0.2; echo "of $BATCHFLEET_JOB_ID" >"$BATCHFLEET_OUTPUT/out"`,
}

// killedTasks are the tasks of a relay that is killed again and again.
type killedTasks struct {
	*testRelay
	o      *orchestrator
	ids    []string // by number; empty while the task was not accepted
	kinds  []string
	asked  map[int]bool // was asked to be canceled
	ledger string
}

// A relay is killed 20 times, or RELAY_KILLS times, at random moments while 200 tasks, or RELAY_TASKS, are created,
// run, upload and call back. Each ends once, and its programs run twice at most.
func TestR24R25R26R55RelayKilledAtRandomLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
		return otherwise
	}
	kills, tasks := number("RELAY_KILLS", 20), number("RELAY_TASKS", 200)
	r := newTestRelay(t, killedKinds, "--gpus", "none", "--slots", "4", "--max-queued", "10000")
	k := &killedTasks{testRelay: r, o: newOrchestrator(t), ids: make([]string, tasks), asked: map[int]bool{}, ledger: filepath.Join(r.dir, "ledger")}
	k.o.unruly.Store(true)
	marker := fmt.Sprintf("relay-kills-%d", time.Now().UnixNano())
	r.env = []string{"LEDGER=" + k.ledger, "MARKER=" + marker}
	r.flags = append(r.flags, "--orchestrator", k.o.URL)
	for name, script := range killedPrograms {
		r.program(name, `echo "$BATCHFLEET_JOB_ID" >>"$LEDGER"`+"\n"+script)
	}
	for i := range tasks {
		k.kinds = append(k.kinds, []string{"quick", "slow", "forks", "fails", "stubborn"}[i%5])
	}
	next := 0
	for kill := range kills {
		r.start()
		// As many tasks as bring all of them into being while there are kills.
		for until := (kill + 1) * tasks / kills; next < until; next++ {
			if !k.create(next) {
				break
			}
		}
		if kill%3 == 0 && next > 0 {
			k.cancel(rand.IntN(next))
		}
		<-time.After(time.Duration(rand.IntN(400)) * time.Millisecond)
		r.kill()
		if kill%4 == 3 { // and one that dies while it starts
			p := r.launched()
			<-time.After(time.Duration(rand.IntN(150)) * time.Millisecond)
			p.kill()
		}
	}
	k.o.unruly.Store(false)
	r.start()
	for ; next < tasks; next++ {
		until(t, time.Minute, fmt.Sprintf("task %d is created", next), func() bool { return k.create(next) })
	}
	k.account(marker)
	r.stop()
	if left := r.left(); len(left) > 0 {
		t.Errorf("left on disk: %v", left)
	}
}

// create creates a task, and reports whether the relay has accepted it. Who calls again after an error gets the same task.
func (k *killedTasks) create(i int) bool {
	body := fmt.Sprintf(`{"job_id":"job_%d","kind":%q,"options":{"priority":%d},"callback_url":"%s/events"}`, i, k.kinds[i], i%7-3, k.o.URL)
	if rand.IntN(10) == 0 { // a request whose answer is not awaited
		go func() { _, _, _ = k.ask(http.MethodPost, "/v1/tasks", body, "Idempotency-Key", fmt.Sprint("key-", i)) }()
		<-time.After(time.Duration(rand.IntN(5)) * time.Millisecond)
		return false
	}
	status, answer, err := k.ask(http.MethodPost, "/v1/tasks", body, "Idempotency-Key", fmt.Sprint("key-", i))
	if err != nil || status != http.StatusAccepted {
		return false
	}
	k.ids[i] = taskID(k.t, answer)
	return true
}

func (k *killedTasks) cancel(i int) {
	if k.ids[i] != "" {
		k.asked[i] = true
		_, _, _ = k.ask(http.MethodPost, "/v1/tasks/"+k.ids[i]+"/cancel", "") // it may have ended
	}
}

// account waits until all tasks have ended, and looks at all that they have left.
func (k *killedTasks) account(marker string) {
	t := k.t
	t.Helper()
	ran := map[string]int{}
	counts := map[string]int{}
	tasks := map[string]shownTask{}
	if found, _ := filepath.Glob(k.runtime("tasks", "_quarantine", "*")); len(found) > 0 {
		t.Errorf("a task was lost: %v", found)
	}
	for _, id := range k.ids {
		tasks[id] = k.untilStatus(id, "succeeded", "failed", "canceled")
	}
	text, err := os.ReadFile(k.ledger)
	if err != nil {
		t.Fatal(err)
	}
	for id := range strings.FieldsSeq(string(text)) {
		ran[id]++
	}
	for i, id := range k.ids {
		task := tasks[id]
		until(t, 2*time.Minute, "the end of task "+id+" was told", func() bool { return k.o.told(id, task.Status) })
		counts[task.Status+task.code()]++
		wrong := k.o.checkEvents(id, task.Status)
		k.o.mu.Lock()
		uploads, keys := k.o.uploads[id], k.o.keys[id]
		k.o.mu.Unlock()
		for _, files := range uploads {
			if len(files) != 1 || files["out"] != sum("of "+id+"\n") {
				t.Errorf("task %s has uploaded %v", id, files)
			}
		}
		fine := task.Kind == k.kinds[i] && task.JobID == fmt.Sprint("job_", i) && ran[id] <= 2 && wrong == nil && len(keys) <= 1 && keys[id] == len(uploads)
		switch {
		case task.Status == "succeeded":
			fine = fine && len(uploads) > 0 && ran[id] > 0 && task.Progress == 1
		case task.Status == "canceled":
			fine = fine && k.asked[i]
		case task.code() == "INTERRUPTED":
			fine = fine && len(uploads) == 0
		default:
			fine = fine && task.Kind == "fails" && task.code() == "EXEC_FAILED" && len(uploads) == 0
		}
		if !fine {
			t.Errorf("task %d ran %d times, has uploaded %d times with %v, and is %+v %v: %v", i, ran[id], len(uploads), keys, task, task.Error, wrong)
		}
	}
	t.Logf("tasks ended: %v, programs run: %d", counts, len(strings.Fields(string(text))))
	for _, err := range k.o.wrong {
		t.Errorf("the orchestrator was sent: %v", err)
	}
	var all struct{ Tasks map[string]int }
	if err := json.Unmarshal([]byte(k.must(http.StatusOK, http.MethodGet, "/v1/status", "")), &all); err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, n := range all.Tasks {
		total += n
	}
	if total != len(k.ids) || len(tasks) != len(k.ids) {
		t.Errorf("the relay has %d tasks %v, and %d ids were given for %d", total, all.Tasks, len(tasks), len(k.ids))
	}
	until(t, time.Minute, "no process is left", func() bool {
		left := marked("MARKER", marker)
		return len(left) == 0 || len(left) == 1 && left[0] == k.Process.Pid
	})
}
