package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

func TestRelayCommandsTellOfItsTasks(t *testing.T) {
	t.Parallel()
	var refuses atomic.Bool
	refuses.Store(true)
	o := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if refuses.Load() {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	t.Cleanup(o.Close)
	r := newLifeRelay(t, "--orchestrator", o.URL, "--max-bytes", "1")
	r.start()
	says := func(want int, text string, args ...string) {
		t.Helper()
		if code, out, errs := r.command(args...); code != want || !strings.Contains(out+errs, text) {
			t.Errorf("relay %v: exit code %d, want %d and %q:\n%s%s", args, code, want, text, out, errs)
		}
	}
	made, held := r.create("make"), r.create("hold")
	if task := r.untilStatus(made, "failed"); task.code() != "UPLOAD_FAILED" {
		t.Errorf("an upload that is refused: %+v", task.Error)
	}
	r.has("began")
	says(0, made, "list")
	says(0, held, "list", "--state", "running")
	if _, out, _ := r.command("list", "--state", "running"); strings.Contains(out, made) {
		t.Errorf("a task that has failed is listed as running:\n%s", out)
	}
	says(0, "UPLOAD_FAILED", "show", made)
	says(0, "says", "logs", made)
	says(1, "no such job", "logs", "task_01KDZ3NDEKTSV4RRFFQ69G5FAV")
	says(0, "0 tasks deleted", "gc") // its artifacts were not delivered
	refuses.Store(false)
	says(0, made, "retry-upload", made)
	r.untilStatus(made, "succeeded")
	says(1, "", "retry-upload", made)
	says(0, held, "cancel", held)
	r.untilStatus(held, "canceled")
	says(1, "", "cancel", held)
	says(0, "2 tasks deleted", "gc")
	r.must(http.StatusNotFound, http.MethodGet, "/v1/tasks/"+made, "")
	r.stop()
	says(3, "relay", "list") // it does not run
}
