package operations

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// modes sets the modes of directories of the storage.
func (r *rig) modes(of map[string]fs.FileMode) {
	r.Helper()
	for name, mode := range of {
		if err := os.Chmod(filepath.Join(r.dir, name), mode); err != nil {
			r.Error(err)
		}
	}
}

func TestJPurgeGoesPastWhatItMayNotTouch(t *testing.T) {
	t.Parallel()
	if !asStranger(t) {
		return
	}
	r := newRig(t)
	var keep []string
	for _, name := range []string{"fixed/pages.jsonl", "fixed/result.json", "half/parts/1", "hidden/result.json", "partly/parts/1", "partly/result.json"} {
		r.put("results/"+name, 9*day)
		keep = append(keep, "results/"+name)
	}
	r.put("results/half/result.json", 9*day)
	open := map[string]fs.FileMode{}
	for _, dir := range []string{"fixed", "hidden", "half/parts", "partly/parts"} {
		open["results/"+dir] = 0o700
	}
	// Other results are before, between and behind them, in whatever order that is.
	old := func() {
		for c := 'a'; c <= 'z'; c++ {
			r.put("results/"+string(c)+"/result.json", 9*day)
		}
	}
	old()
	t.Cleanup(func() {
		if t.Failed() { // so that they can be deleted
			r.modes(open)
		}
	})
	r.modes(map[string]fs.FileMode{"results/fixed": 0o555, "results/hidden": 0, "results/half/parts": 0o555, "results/partly/parts": 0})

	// Only trying tells what may not be deleted.
	plan := r.plan("purge", `{"dryRun":true,"olderThanDays":2}`)
	if !strings.HasPrefix(plan[0], "delete run: would delete 28 results, 30 objects, ") || !strings.HasSuffix(plan[0], "; left alone: 2 not permitted") {
		t.Errorf("plan %q", plan)
	}
	j := r.do("purge", `{"olderThanDays":2}`)
	if j.err != nil || !strings.HasPrefix(j.text(), `{"jobs":26,"objects":26,`) || !strings.Contains(j.text(), `"notPermitted":4,`) || !strings.HasSuffix(j.lines[0], "; left alone: 4 not permitted") {
		t.Errorf("%q, result %s", j.lines, j.text())
	}
	for _, dir := range []string{"fixed", "hidden", "half", "partly"} {
		if n := strings.Count(j.log.String(), "left alone results/"+dir+"/: "); n != 1 {
			t.Errorf("%s is named %d times in the log:\n%s", dir, n, j.log.String())
		}
	}
	old()
	for range 26 { // what stays does not count against the limit
		if j := r.do("purge", `{"olderThanDays":2,"limit":1}`); j.err != nil || !strings.HasPrefix(j.text(), `{"jobs":1,`) {
			t.Fatalf("%q, result %s", j.lines, j.text())
		}
	}
	r.modes(open)
	if got := r.stored(); !slices.Equal(got, keep) {
		t.Errorf("left are\n%q, want\n%q", got, keep)
	}
	if j := r.do("purge", `{"olderThanDays":2}`); j.err != nil || len(r.stored()) > 0 {
		t.Errorf("once it may: %v, left are %q", j.err, r.stored())
	}
}

func TestJPurgeNamesOnlySomeOfWhatItMayNotTouch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 3 * maxDenied {
		r.put(fmt.Sprintf("results/job-%d/result.json", i), 9*day)
	}
	r.Storage = &brokenStore{Store: r.Storage, delete: func(string) error { return fs.ErrPermission }}
	j := r.do("purge", `{"olderThanDays":2}`)
	if lines := strings.Count(j.log.String(), "\n"); j.err != nil || lines != maxDenied+1 || !strings.HasSuffix(j.log.String(), "more are not named\n") {
		t.Errorf("%v, %d lines:\n%s", j.err, lines, j.log.String())
	}
}
