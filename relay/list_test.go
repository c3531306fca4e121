package relay

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/jobs"
)

func TestR16TasksAreListedInPages(t *testing.T) {
	r := newRig(t)
	var ids []jobs.ID
	for i := range 7 {
		kind := []string{"music", "scene"}[i%2]
		ids = append(ids, r.create(fmt.Sprintf(`{"job_id":"job_%d","kind":%q}`, i/2, kind)))
	}
	if _, err := r.status.Cancel(ids[3]); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(ids)
	list := func(query string) (got []jobs.ID, pages int) {
		t.Helper()
		for cursor := ""; ; pages++ {
			resp := r.call(http.MethodGet, "/v1/tasks?"+query+cursor, "")
			var page struct {
				Tasks []view `json:"tasks"`
				Next  string `json:"next_cursor"`
			}
			if err := json.Unmarshal([]byte(resp.Body), &page); err != nil || resp.Status != http.StatusOK || page.Tasks == nil {
				t.Fatalf("%s: %d %s", query, resp.Status, resp.Body)
			}
			for _, v := range page.Tasks {
				got = append(got, v.ID)
			}
			if page.Next == "" {
				return got, pages + 1
			}
			cursor = "&cursor=" + page.Next
		}
	}
	pick := func(at ...int) (some []jobs.ID) {
		for _, i := range at {
			some = append(some, ids[i])
		}
		return some
	}
	for _, tt := range []struct {
		query string
		want  []jobs.ID
		pages int
	}{
		{"", ids, 1},
		{"limit=7", ids, 1},
		{"limit=6", ids, 2},
		{"limit=1", ids, 7},
		{"limit=200", ids, 1},
		{"status=canceled", pick(3), 1},
		{"status=queued&limit=2", pick(0, 1, 2, 4, 5, 6), 3},
		{"kind=scene&limit=2", pick(1, 3, 5), 2},
		{"kind=scene&status=queued", pick(1, 5), 1},
		{"job_id=job_1", pick(3, 4), 1},
		{"job_id=job", nil, 1},
		{"kind=none", nil, 1},
		{"status=running", nil, 1},
	} {
		if got, pages := list(tt.query); !slices.Equal(got, tt.want) || pages != tt.pages {
			t.Errorf("%s: %v in %d pages, want %v in %d", tt.query, got, pages, tt.want, tt.pages)
		}
	}
	for query, field := range map[string]string{
		"limit=0": "limit", "limit=201": "limit", "limit=x": "limit", "limit=-1": "limit", "status=done": "status", "status=Queued": "status", "cursor=x": "cursor",
		"cursor=" + strings.ToLower(string(ids[0])): "cursor", "x=1": "x", "limit=1&limit=2": "limit", "kind=%zz": "query", "a;b": "query",
	} {
		if resp := r.call(http.MethodGet, "/v1/tasks?"+query, ""); resp.Status != http.StatusBadRequest || resp.field() != field {
			t.Errorf("%s: %d, field %q, want %q: %s", query, resp.Status, resp.field(), field, resp.Body)
		}
	}
}

func TestR16StatusShowsWhatThereIs(t *testing.T) {
	r := newRig(t)
	r.MaxQueued = 9
	r.create(`{"job_id":"a","kind":"scene"}`)
	r.start()
	r.create(`{"job_id":"a","kind":"scene"}`)
	r.create(`{"job_id":"a","kind":"render"}`)
	resp := r.call(http.MethodGet, "/v1/status", "")
	var o overview
	if err := json.Unmarshal([]byte(resp.Body), &o); err != nil || resp.Status != http.StatusOK {
		t.Fatalf("%d %s", resp.Status, resp.Body)
	}
	if o.Tasks["queued"] != 2 || o.Tasks["running"] != 1 || len(o.Tasks) != 6 || o.MaxQueued != 9 || o.Orchestrator || o.Disk.Free <= 0 {
		t.Errorf("%s", resp.Body)
	}
	by := map[jobs.Kind]kindOverview{}
	for _, k := range o.Kinds {
		by[k.Kind] = k
	}
	if by["scene"] != (kindOverview{Kind: "scene", Slots: 1, Queued: 1, Running: 1}) || by["render"] != (kindOverview{Kind: "render", GPUs: 1, Queued: 1}) || len(by) != len(r.Kinds().Kinds) {
		t.Errorf("%s", resp.Body)
	}
}

func TestR23HigherPriorityThenOlderRunsFirst(t *testing.T) {
	r := newRig(t)
	var want []string
	for i, priority := range []string{"", "-100", "100", "0", "1", "-1", "100", "99", ""} {
		options := ""
		if priority != "" {
			options = `,"options":{"priority":` + priority + `}`
		}
		r.create(fmt.Sprintf(`{"job_id":"p_%s.%d","kind":"music"%s}`, priority, i, options))
	}
	want = []string{"p_100.2", "p_100.6", "p_99.7", "p_1.4", "p_.0", "p_0.3", "p_.8", "p_-1.5", "p_-100.1"}
	order := func(r *rig) (got []string) {
		for range want {
			h := r.start()
			got = append(got, r.task(h.id()).JobID)
			if strings.Contains(h.lease.Job.Payload, "priority") {
				t.Errorf("its program is told %s", h.lease.Job.Payload)
			}
		}
		return got
	}
	next := r.again(nil) // as well after a restart
	if got := order(next); !slices.Equal(got, want) {
		t.Errorf("ran in the order %v, want %v", got, want)
	}
	for _, bad := range []string{"1.5", "1.0", "1e1", "101", "-101", `"5"`, "null", "true", "[]", "{}", "99999999999999999999", "1e999"} {
		resp := next.call(http.MethodPost, "/v1/tasks", `{"job_id":"a","kind":"music","options":{"priority":`+bad+`}}`)
		if resp.Status != http.StatusBadRequest || resp.field() != "options.priority" {
			t.Errorf("priority %s: %d %s", bad, resp.Status, resp.Body)
		}
	}
}
