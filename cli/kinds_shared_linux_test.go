package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apiv1 "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pubsub"
)

// leftToOthers is what a worker logs of a job whose kind it does not have.
const leftToOthers = "no handler for this kind, job left to other workers"

// subscribe makes a subscription to the test's topic with a filter.
func (f *testFleet) subscribe(name, filter string) {
	f.t.Helper()
	opts, err := pubsub.Options(f.addr)
	if err != nil {
		f.t.Fatal(err)
	}
	admin, err := apiv1.NewSubscriptionAdminClient(f.t.Context(), opts...)
	if err != nil {
		f.t.Fatal(err)
	}
	defer admin.Close()
	s := &pubsubpb.Subscription{Name: "projects/local-dev/subscriptions/" + name, Topic: testTopic, AckDeadlineSeconds: 600, Filter: filter}
	if _, err := admin.CreateSubscription(f.t.Context(), s); err != nil {
		f.t.Fatal(err)
	}
}

// TestK13K20TheExamplesRunInAFleetWithASubscriptionForAKind has two workers, each with a kinds file and a
// subscription of its own. Each is handed its own kinds only.
func TestK13K20TheExamplesRunInAFleetWithASubscriptionForAKind(t *testing.T) {
	examples(t)
	t.Parallel()
	f := newTestFleet(t)
	f.subscribe("words", `attributes.kind = "ocr"`)
	f.subscribe("pictures", `attributes.kind != "ocr"`)
	workers := map[string]*process{
		"words":    f.start("PUBSUB_SUBSCRIPTION=words", "WORKER_NAME=words", "KINDS_FILE="+someExamples(t, "ocr")),
		"pictures": f.start("PUBSUB_SUBSCRIPTION=pictures", "WORKER_NAME=pictures", "KINDS_FILE="+someExamples(t, "thumbnail", "panorama")),
	}
	submitting := f.environment("KINDS_FILE=" + someExamples(t, "thumbnail", "panorama", "ocr"))
	for _, e := range theExamples {
		t.Run(e.kind, func(t *testing.T) {
			dir := t.TempDir()
			file, err := filepath.Abs(e.file)
			if err != nil {
				t.Fatal(err)
			}
			code, out, errs := output(t, batchfleet(t, submitting, "submit", "--kind", e.kind, "--wait", "--timeout", "2m", "-o", dir, file))
			if code != 0 {
				t.Fatalf("exit code %d: %s%s", code, out, errs)
			}
			e.check(t, dir)
		})
	}
	for name, w := range workers {
		for _, e := range theExamples {
			if e.worker == name {
				w.untilLogged(`"kind":"` + e.kind + `"`)
			}
		}
		if strings.Contains(w.log.String(), leftToOthers) {
			t.Errorf("worker %s was handed a job of another kind", name)
		}
	}
}

// TestK13AWorkerWithoutAKindLeavesItsJobsToOneThatHasIt on the same subscription.
func TestK13AWorkerWithoutAKindLeavesItsJobsToOneThatHasIt(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	plain := f.start("WORKER_NAME=plain")
	var ids []jobs.ID
	send := func(kind jobs.Kind) {
		t.Helper()
		job := jobs.Job{ID: jobs.ID(fmt.Sprintf("%s-%d", kind, len(ids))), Kind: kind, Pages: 1}
		f.send(job)
		ids = append(ids, job.ID)
	}
	send("k")
	plain.untilLogged(leftToOthers)
	f.start("WORKER_NAME=both", "KINDS_FILE="+kindsFile(t, `echo done >"$BATCHFLEET_OUTPUT/out"`, ""))
	for range 4 {
		send("k")
		send("mock")
	}
	// Both have been handed jobs of the kind by now, or never will be. What the first has left comes back after 10 to
	// 60 s; it is not to leave it again and again.
	until(t, time.Minute, "every job has ended or was left", func() bool {
		return !slices.ContainsFunc(ids, func(id jobs.ID) bool {
			return f.state(id) != "completed" && !strings.Contains(plain.log.String(), fmt.Sprintf(`%q,"job":%q`, leftToOthers, id))
		})
	})
	plain.terminate()
	f.untilEnded(5*time.Minute, ids)
	for _, id := range ids {
		e, err := f.status.Get(t.Context(), id)
		if err != nil || e.Status != "completed" {
			t.Errorf("job %s is %+v (%v), want it completed", id, e, err)
		}
		if strings.HasPrefix(string(id), "k-") && f.artifact(id, "out") != "done\n" {
			t.Errorf("job %s has no output", id)
		}
	}
}
