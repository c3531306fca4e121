package relay

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// filled makes the directory of a relay with many tasks that have ended, 10 000 or RELAY_BENCH_TASKS.
func filled(b *testing.B) (base string, n int) {
	b.Helper()
	n = 10_000
	if more, err := strconv.Atoi(os.Getenv("RELAY_BENCH_TASKS")); err == nil {
		n = more
	}
	base = b.TempDir()
	r := setup(b, base)
	if err := r.Open(b.Context()); err != nil {
		b.Fatal(err)
	}
	began := time.Now().Add(-time.Hour).UTC()
	for i := range n {
		at := began.Add(time.Duration(i) * time.Millisecond)
		t := &Task{
			SchemaVersion: schemaVersion, ID: newID(at), JobID: fmt.Sprint("job_", i), Kind: "music", State: Succeeded, Progress: 1, Attempt: 1, Sequence: 4,
			CreatedAt: at, StartedAt: at, UploadingAt: at, FinishedAt: at, Prompt: promptOf("a prompt"), KeyHash: hashOf(fmt.Sprint(i)), BodyHash: hashOf("body"),
			Callback:  Callback{URL: "https://orchestrator.example.com/events", Events: allEvents},
			Artifacts: []Artifact{{Name: "out.mp4", ContentType: "video/mp4", Size: 1 << 20, SHA256: hashOf("a")}},
		}
		text, err := json.Marshal(t)
		if err == nil {
			err = os.Mkdir(r.tasks.dir.of(t.ID), 0o700)
		}
		if err == nil {
			err = os.WriteFile(r.tasks.dir.of(t.ID, taskFile), text, 0o600)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		b.Fatal(err)
	}
	return base, n
}

func BenchmarkStart(b *testing.B) {
	base, n := filled(b)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for b.Loop() {
		r := setup(b, base)
		if err := r.Open(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		b.ReportMetric(float64(heap()-before)/float64(n), "heap-B/task")
		if got := r.tasks.count(Succeeded); got != n {
			b.Fatalf("%d tasks, want %d", got, n)
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func BenchmarkList(b *testing.B) {
	base, _ := filled(b)
	r := setup(b, base).open()
	for _, path := range []string{"/v1/tasks", "/v1/tasks?limit=200", "/v1/tasks?status=queued", "/v1/tasks?job_id=job_1", "/v1/status"} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				if resp := r.call(http.MethodGet, path, ""); resp.Status != http.StatusOK {
					b.Fatal(resp)
				}
			}
		})
	}
}
