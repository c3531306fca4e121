package jobapitest

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// Rig is an empty [jobapi.Jobs] and the other side of it: what submits and runs
// its jobs. Text given to it may hold a secret.
type Rig struct {
	Jobs jobapi.Jobs
	Type string // of all jobs that Submit makes

	Submit func(text string) (id string)                   // makes a queued job; its author writes text where an author can
	Start  func(id string)                                 // starts a job; the suite starts the oldest queued one
	Report func(id, text string)                           // the worker of a running job reports text: a message and a log line
	End    func(id string, status jobs.State, text string) // ends a running job; Canceled only after Jobs.Cancel
}

// Jobs runs the tests of the contract of [jobapi.Jobs]. Each gets a rig of its own.
func Jobs(t *testing.T, open func(*testing.T) Rig) {
	t.Helper()
	for _, tt := range []struct {
		name string
		run  func(*testing.T, Rig)
	}{
		{"list has the newest first, in pages", testPages},
		{"list filters by status and type", testFilters},
		{"select filters a list and loses no job", testSelect},
		{"get keeps the order asked for", testGet},
		{"log answers its queries", testLog},
		{"log positions never repeat", testPositions},
		{"cancel depends on the status", testCancel},
		{"unknown jobs do not exist", testUnknown},
		{"version changes with what is shown", testVersions},
		{"secrets are not shown", testSecrets},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, open(t)) })
	}
}

// get returns a job after [Check].
func (r Rig) get(t *testing.T, id string) jobapi.Job {
	t.Helper()
	found, err := r.Jobs.Get(t.Context(), []string{id})
	if err != nil || len(found) != 1 || found[0].ID != id {
		t.Fatalf("get %s: %+v, %v", id, found, err)
	}
	Check(t, found[0])
	return found[0]
}

// list returns the items of all pages, each checked against its job. It calls
// between, if not nil, after each page.
func (r Rig) list(t *testing.T, q jobapi.Query, between func()) (items []jobapi.Item) {
	t.Helper()
	for range 1000 {
		page, err := r.Jobs.List(t.Context(), q)
		if err != nil || len(page.Items) > q.Limit {
			t.Fatalf("list %+v: %d items, %v", q, len(page.Items), err)
		}
		for _, item := range page.Items {
			j := r.get(t, item.ID)
			got, err := json.Marshal(item)
			want, err2 := json.Marshal(j.Item())
			if err != nil || err2 != nil || string(got) != string(want) {
				t.Errorf("list shows %s, get %s; %v, %v", got, want, err, err2)
			}
		}
		items = append(items, page.Items...)
		if q.Cursor = page.Next; q.Cursor == "" {
			return items
		}
		if between != nil {
			between()
		}
	}
	t.Fatalf("list %+v has no last page", q)
	return nil
}

func idsOf(items []jobapi.Item) []string {
	var ids []string
	for _, i := range items {
		ids = append(ids, i.ID)
	}
	return ids
}

// newestFirst is the order of a list.
func newestFirst(a, b jobapi.Item) int {
	return cmp.Or(b.CreatedAt.Compare(a.CreatedAt.Time), strings.Compare(b.ID, a.ID))
}

func sorted(ids ...string) []string { return slices.Sorted(slices.Values(ids)) }
