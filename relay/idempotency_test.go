package relay

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
)

func TestR10ARequestThatIsMadeAgainMakesNoOtherTask(t *testing.T) {
	r := newRig(t)
	const body = `{"job_id":"job_1","kind":"motion","input":{"prompt":"x"},"options":{"fps":24}}`
	again := func(body, key string) response {
		return r.call(http.MethodPost, "/v1/tasks", body, "Idempotency-Key", key)
	}
	first := again(body, "key-1")
	if first.Status != http.StatusAccepted || first.Header.Get("Idempotency-Replayed") != "" {
		t.Fatalf("%d %s", first.Status, first.Body)
	}
	id := jobs.ID(strings.TrimPrefix(first.Header.Get("Location"), "/v1/tasks/"))
	check := func(what, body string) {
		t.Helper()
		resp := again(body, "key-1")
		if resp.Status != http.StatusAccepted || resp.Body != first.Body || resp.Header.Get("Location") != first.Header.Get("Location") || resp.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s: %d %v %s", what, resp.Status, resp.Header, resp.Body)
		}
	}
	check("made again", body)
	check("with other blanks", strings.ReplaceAll(body, ":", " : "))
	for what, other := range map[string]string{"another job": strings.Replace(body, "job_1", "job_2", 1), "other options": strings.Replace(body, "24", "25", 1)} {
		if resp := again(other, "key-1"); resp.Status != http.StatusUnprocessableEntity || resp.code() != "IDEMPOTENCY_MISMATCH" {
			t.Errorf("%s: %d %s", what, resp.Status, resp.Body)
		}
	}
	r.MaxQueued = 1
	check("with a full queue", body)
	known := r.Kinds
	r.Kinds = func() *kinds.Set { return &kinds.Set{} }
	check("with its kind gone from the file", body)
	r.Kinds = known
	r.MaxQueued = 1000
	if _, err := r.status.Cancel(id); err != nil {
		t.Fatal(err)
	}
	check("when the task has ended", body)
	next := r.again(nil)
	r = next
	check("after a restart", body)
	if resp := again(strings.Replace(body, "24", "25", 1), "key-1"); resp.Status != http.StatusUnprocessableEntity {
		t.Errorf("another body after a restart: %d", resp.Status)
	}
	// One job may have several tasks, with and without keys.
	ids := map[jobs.ID]bool{id: true, r.create(body): true, r.create(body): true, r.create(body, "Idempotency-Key", "key-2"): true}
	if len(ids) != 4 {
		t.Errorf("one job has tasks %v", ids)
	}
	for name, keys := range map[string][]string{"empty": {""}, "too long": {strings.Repeat("k", 129)}, "with a blank": {"a b"}, "not ASCII": {"é"}, "two": {"a", "b"}} {
		header := []string{}
		for _, key := range keys {
			header = append(header, "Idempotency-Key", key)
		}
		if resp := r.call(http.MethodPost, "/v1/tasks", body, header...); resp.Status != http.StatusBadRequest || resp.field() != "Idempotency-Key" {
			t.Errorf("key %s: %d %s", name, resp.Status, resp.Body)
		}
	}
}

func TestR10ManyAtOnceMakeOneTask(t *testing.T) {
	r := newRig(t)
	var mu sync.Mutex
	answers := map[string]int{}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			resp := r.call(http.MethodPost, "/v1/tasks", `{"job_id":"a","kind":"music"}`, "Idempotency-Key", "one")
			mu.Lock()
			defer mu.Unlock()
			if resp.Status == http.StatusConflict {
				answers[resp.code()]++
				return
			}
			answers[fmt.Sprint(resp.Status, resp.Body)]++
		})
	}
	all.Wait()
	conflicts := answers["CONFLICT"]
	delete(answers, "CONFLICT")
	if len(answers) != 1 || r.tasks.count(Queued) != 1 {
		t.Errorf("%v and %d conflicts, %d tasks", answers, conflicts, r.tasks.count(Queued))
	}
}

// A key whose request has failed is free.
func TestR10AFailureIsNotKept(t *testing.T) {
	r := newRig(t)
	r.MaxQueued = 0
	const body = `{"job_id":"a","kind":"music"}`
	if resp := r.call(http.MethodPost, "/v1/tasks", body, "Idempotency-Key", "one"); resp.Status != http.StatusTooManyRequests {
		t.Fatalf("%d %s", resp.Status, resp.Body)
	}
	r.MaxQueued = 1
	r.create(body, "Idempotency-Key", "one")
}
