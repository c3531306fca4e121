package jobapitest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

func testPages(t *testing.T, r Rig) {
	var made []string
	for range 7 {
		made = append(made, r.Submit("text"))
	}
	for _, limit := range []int{1, 2, 3, 7, 200} {
		// A job that is submitted between two pages moves no other job.
		items := r.list(t, jobapi.Query{Limit: limit}, func() {
			if limit == 3 {
				r.Submit("text")
			}
		})
		if !slices.IsSortedFunc(items, newestFirst) {
			t.Errorf("limit %d: not the newest first: %+v", limit, items)
		}
		got := slices.DeleteFunc(idsOf(items), func(id string) bool { return !slices.Contains(made, id) })
		if !slices.Equal(sorted(got...), sorted(made...)) {
			t.Errorf("limit %d: listed %v, want %v", limit, got, made)
		}
	}
	for _, cursor := range []string{"x", "nonsense", "\x00"} {
		var bad *jobapi.FieldError
		if _, err := r.Jobs.List(t.Context(), jobapi.Query{Limit: 1, Cursor: cursor}); !errors.As(err, &bad) || bad.Field != "cursor" {
			t.Errorf("cursor %q: %v, want a FieldError of cursor", cursor, err)
		}
	}
}

func testFilters(t *testing.T, r Rig) {
	want := map[jobs.State][]string{}
	for _, status := range []jobs.State{jobs.Succeeded, jobs.Failed, jobs.Canceled, jobs.Running, jobs.Queued} {
		for range 2 {
			id := r.Submit("text")
			want[status], want[0] = append(want[status], id), append(want[0], id)
			if status == jobs.Queued {
				continue
			}
			r.Start(id)
			if status == jobs.Canceled {
				if _, err := r.Jobs.Cancel(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
			if status != jobs.Running {
				r.End(id, status, "text")
			}
		}
	}
	for status, ids := range want {
		for _, q := range []jobapi.Query{{Limit: 1}, {Limit: 200}, {Limit: 1, Type: r.Type}, {Limit: 200, Type: r.Type}} {
			q.Status = status
			items := r.list(t, q, nil)
			if got := idsOf(items); !slices.Equal(sorted(got...), sorted(ids...)) || !slices.IsSortedFunc(items, newestFirst) {
				t.Errorf("%+v: listed %v, want %v", q, got, ids)
			}
			for _, i := range items {
				if status != 0 && i.Status != status || i.Type != r.Type {
					t.Errorf("%+v: listed %+v", q, i)
				}
			}
		}
	}
	for _, typ := range []string{r.Type + "x", "none", "none.such", ".", r.Type + "\x00"} {
		page, err := r.Jobs.List(t.Context(), jobapi.Query{Limit: 200, Type: typ})
		if err != nil || len(page.Items) != 0 || page.Next != "" {
			t.Errorf("type %q: %+v, %v; want no jobs", typ, page, err)
		}
	}
}

func testGet(t *testing.T, r Rig) {
	a, b, c := r.Submit("text"), r.Submit("text"), r.Submit("text")
	most := []string{b}
	for i := range jobapi.MaxGet - 2 {
		most = append(most, fmt.Sprintf("unknown-%d", i))
	}
	for _, tt := range []struct{ ids, want []string }{
		{nil, nil},
		{[]string{"unknown"}, nil},
		{[]string{a, b, c}, []string{a, b, c}},
		{[]string{c, "unknown", "", "a/../b", a, "x\x00"}, []string{c, a}},
		{append(most, a), []string{b, a}},
	} {
		found, err := r.Jobs.Get(t.Context(), tt.ids)
		var got []string
		for _, j := range found {
			got = append(got, j.ID)
		}
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("get %.100q: %v, %v; want %v", tt.ids, got, err, tt.want)
		}
	}
}
