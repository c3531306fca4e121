package jobapitest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// testSelect follows filtered lists: each job that passes comes once, in order, whatever the size of a page, and also while
// others are submitted.
func testSelect(t *testing.T, r Rig) {
	for i := range 9 {
		id := r.Submit("text")
		if i < 4 {
			r.Start(id)
		}
		if i < 3 {
			r.End(id, []jobs.State{jobs.Succeeded, jobs.Failed, jobs.Failed}[i], "no luck")
		}
	}
	made := r.list(t, jobapi.Query{Limit: 200}, nil)
	for name, f := range r.filters(t, made) {
		for _, status := range []jobs.State{0, jobs.Queued, jobs.Failed} {
			var want []string
			for _, i := range made {
				if j := r.get(t, i.ID); f.Job(&j) && (status == 0 || i.Status == status) {
					want = append(want, i.ID)
				}
			}
			for _, limit := range []int{1, 2, 3, 200} {
				q := jobapi.Query{Limit: limit, Status: status, Type: r.Type}
				items := r.selected(t, q, f, limit == 2)
				got := slices.DeleteFunc(idsOf(items), func(id string) bool {
					return !slices.ContainsFunc(made, func(i jobapi.Item) bool { return i.ID == id }) // submitted between pages
				})
				if !slices.Equal(got, want) || !slices.IsSortedFunc(items, newestFirst) {
					t.Errorf("%s, status %d, limit %d: %v, want %v", name, status, limit, got, want)
				}
			}
		}
	}
	for _, cursor := range []string{"~", "~~~", "~1~" + made[0].ID, "~zz~../x~", "~-~a~", "~01~a~", "~1~" + made[0].ID + "~nonsense", "~1zzzzzzzzzzzzzzz~a~"} {
		var bad *jobapi.FieldError
		q := jobapi.Query{Limit: 1, Cursor: cursor}
		if _, err := jobapi.Select(t.Context(), r.Jobs, q, jobapi.Filter{Text: "x"}, false); !errors.As(err, &bad) || bad.Field != "cursor" {
			t.Errorf("cursor %q: %v, want a FieldError of cursor", cursor, err)
		}
	}
}

// filters returns a filter by each field that a filter has. Each passes some of the jobs.
func (r Rig) filters(t *testing.T, made []jobapi.Item) map[string]jobapi.Filter {
	t.Helper()
	one := made[len(made)/2]
	all := map[string]jobapi.Filter{
		"none":      {},
		"since":     {Since: one.CreatedAt.Time},
		"id":        {IDPrefix: one.ID},
		"id prefix": {IDPrefix: one.ID[:1]},
		"text":      {Text: strings.ToUpper(one.ID)},
		"message":   {Text: "NO LUCK"},
		"nothing":   {Text: "there is no such text"},
		"both":      {Since: one.CreatedAt.Time, IDPrefix: one.ID[:1]},
	}
	for _, i := range made {
		if i.Worker != "" {
			all["worker"] = jobapi.Filter{Worker: i.Worker}
		}
		if i.Status == jobs.Failed {
			j := r.get(t, i.ID)
			all["error"] = jobapi.Filter{Error: jobapi.Fingerprint(j.Type, j.Error)}
		}
	}
	return all
}

// selected returns the items of all pages. Between two pages it submits another job.
func (r Rig) selected(t *testing.T, q jobapi.Query, f jobapi.Filter, whole bool) (items []jobapi.Item) {
	t.Helper()
	for page := range 1000 {
		found, err := jobapi.Select(t.Context(), r.Jobs, q, f, whole)
		if err != nil || len(found.Items) > q.Limit || whole && len(found.Jobs) != len(found.Items) {
			t.Fatalf("select %+v %+v: %d items, %d whole, %v", q, f, len(found.Items), len(found.Jobs), err)
		}
		for i, j := range found.Jobs {
			if j.ID != found.Items[i].ID {
				t.Errorf("select %+v: job %d is %s, its item %s", f, i, j.ID, found.Items[i].ID)
			}
		}
		items = append(items, found.Items...)
		if q.Cursor = found.Next; q.Cursor == "" {
			return items
		}
		if page == 0 && q.Limit < 3 {
			r.Submit("text")
		}
	}
	t.Fatalf("select %+v %+v has no last page", q, f)
	return nil
}
