package gateway_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// copyTree copies files for their owner alone, as an agent makes them: git keeps no modes.
func copyTree(t *testing.T, to, from string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil || d.IsDir() {
			return errors.Join(err, os.MkdirAll(filepath.Join(to, rel), 0o700))
		}
		text, err := os.ReadFile(path)
		return errors.Join(err, os.WriteFile(filepath.Join(to, rel), text, 0o600))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// testdata/agentdir was made by the first version of the agent, which was killed:
// the names and the contents of its files are a format that later versions read.
func TestZ79DirectoryOfAnEarlierVersionIsRead(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		copyTree(t, filepath.Dir(r.dir), filepath.Join("testdata", "agentdir"))
		time.Sleep(2 * time.Minute) // the files were made a minute and a half after the epoch of fake time
		leases := map[string]string{"result": "lease-5-of-result", "failed": "lease-6-of-failed", "running": "lease-7-of-running"}
		for id, lease := range leases {
			r.plane.jobs[id] = &planeJob{
				payload: "{}", status: "started", lease: lease, until: time.Now().Add(time.Hour), acks: map[string]string{}, reaped: map[string]bool{},
			}
		}
		r.handler = untilStopped
		_ = r.work(func() {
			time.Sleep(10 * time.Second)
			r.plane.do(func() { r.plane.queue = nil }) // the failed ones run elsewhere
		})
		said := r.plane.said()
		slices.Sort(said)
		if want := []string{"failed failed QE_CRASHED retry", "failed running WORKER_RESTART retry", "result result"}; !slices.Equal(said, want) {
			t.Errorf("the control plane saw %q, want %q\nlog:\n%s", said, want, r.log)
		}
		if len(r.plane.reports) != 1 || r.plane.reports[0].LeaseID != leases["result"] || *r.plane.reports[0].FreqsCSV != "a,b\n1,2\n" {
			t.Errorf("delivered %+v", r.plane.reports)
		}
		for _, f := range r.plane.failures {
			if f.ErrorCode == "QE_CRASHED" && (f.Traceback != "pw.x: <segfault> & more\n" || f.ErrorMessage != "pw.x has crashed" || !*f.Retryable) {
				t.Errorf("delivered %+v", f)
			}
		}
		if f := r.files("corrupt"); len(f) != 1 || filepath.Base(f[0]) != "00112233445566778899aabbccddeeff.json" {
			t.Errorf("set aside: %v", f)
		}
		if len(r.files("late")) != 1 || len(r.files("rejected")) != 1 {
			t.Errorf("kept aside: %v, %v", r.files("late"), r.files("rejected"))
		}
		// Three notes of before, and two of the failures that run again.
		var noted []jobs.ID
		for _, text := range r.entries() {
			var e struct {
				JobID jobs.ID `json:"job_id"`
				State string  `json:"state"`
			}
			if err := json.Unmarshal([]byte(text), &e); err != nil || e.State != "left" {
				t.Errorf("%s: %v", text, err)
			}
			noted = append(noted, e.JobID)
		}
		slices.Sort(noted)
		if want := []jobs.ID{"failed", "late", "left", "rejected", "running"}; !slices.Equal(noted, want) {
			t.Errorf("notes about %v, want %v", noted, want)
		}
	})
}

// What this version writes is what the first one wrote, to the byte.
func TestZ79EntriesKeepTheirFormat(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.handler = untilStopped
		r.plane.submit("running")
		_ = r.work(func() {
			time.Sleep(time.Second)
			want := `{"version":1,"job_id":"running","lease_id":"lease-1-of-running","lease_ttl_seconds":600,"state":"running","leased_at":"2000-01-01T00:00:00Z"}` + "\n"
			if got := r.entries(); len(got) != 1 || got["7ec16640347477e187206aa22d38f0a2.json"] != want {
				t.Errorf("wrote %v, want %s", got, want)
			}
		})
	})
}
