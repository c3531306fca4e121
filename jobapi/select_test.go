package jobapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/access"
	"github.com/batchfleet/batchfleet/jobs"
)

// fleetOf returns a server of scope fleet with jobs of one kind; some have failed.
func fleetOf(n int) (*jobapi.Server, *fakeJobs) {
	s := newFakeJobs()
	for i := range n {
		state := jobs.Queued
		if i%10 == 3 {
			state = jobs.Failed
		}
		s.put(fmt.Sprintf("job_%05d", i), "fleet.pdf", state)
	}
	for i := range s.all {
		if j := &s.all[i]; j.Status == jobs.Failed {
			j.Error = &jobapi.Error{Code: "FAILED", Message: fmt.Sprintf("page %d of \"x.pdf\" is broken", i)}
			j.Worker = "w1"
		}
	}
	return &jobapi.Server{Scopes: []jobapi.Scope{{Name: "fleet", Jobs: s, Cancel: access.Operate, Create: access.Operate}}}, s
}

func TestD31ListsTakeFilters(t *testing.T) {
	s, of := fleetOf(60)
	g := serve(t, s)
	print := jobapi.Fingerprint("fleet.pdf", of.all[3].Error)
	for _, tt := range []struct {
		query string
		items int
		whole bool
	}{
		{"kind=pdf&limit=200", 60, false},
		{"kind=zpe", 0, false},
		{"worker=w1", 6, false},
		{"worker=w2", 0, false},
		{"id_prefix=job_0001", 10, false},
		{"id_prefix=job_00013", 1, false},
		{"error=" + print, 6, false},
		{"error=" + print + "&full=true", 6, true},
		{"error=0123456789abcdef", 0, false},
		{"q=IS%20BROKEN", 6, false},
		{"q=job_00007", 1, false},
		{"since=2026-01-23T09:00:55Z", 5, false},
		{"since=2026-01-23T11:00:55%2B02:00", 5, false},
		{"since=3650d", 50, false},
		{"since=1h", 0, false},
		{"status=failed&worker=w1&since=2026-01-23T09:00:20Z&q=page", 4, false},
		{"full=true&limit=3", 3, true},
		{"full=false&limit=3", 3, false},
	} {
		a := g.ask(t, "GET /api/v1/fleet/jobs?"+tt.query, "")
		if got := strings.Count(a.body, `"jobId"`); a.status != 200 || got != tt.items || strings.Contains(a.body, `"steps"`) != tt.whole {
			t.Errorf("%s: %d, %d items, want %d; %.200s", tt.query, a.status, got, tt.items, a.body)
		}
	}
}

func TestD31FiltersThatCannotBeAreRefusedByName(t *testing.T) {
	s, _ := fleetOf(3)
	g := serve(t, s)
	long := strings.Repeat("ä", 201)
	for field, values := range map[string][]string{
		"kind":      {"", "a/b", "%3Cb%3E", "a%00", strings.Repeat("k", 65)},
		"worker":    {"", strings.Repeat("w", 257), "%ff"},
		"id_prefix": {"", "-a", "a/b", "a%0Ab", "%3Cscript%3E", strings.Repeat("a", 129)},
		"error":     {"", "abc", "0123456789ABCDEF", "0123456789abcdeg", strings.Repeat("0", 17)},
		"since":     {"", "yesterday", "1", "-1h", "24", "7w", "99999d", "1e9d", "-1d", "2026-01-23", "999999h", "%3Cb%3E"},
		"until":     {"", "tomorrow", "-7d", "0x1d"},
		"q":         {"", long, strings.Repeat("x", 201), "%ff%fe"},
		"full":      {"", "1", "yes"},
		"cursor":    {"", "x", "~", "~1~a", "~1~a~x", "~1~..~", "~1~%3Cb%3E~", "~zzzzzzzzzzzzzzzzzz~a~", strings.Repeat("9", 513)},
	} {
		for _, value := range values {
			query := field + "=" + value
			if field != "q" {
				query += "&q=x"
			}
			a := g.ask(t, "GET /api/v1/fleet/jobs?"+query, "")
			if a.status != 400 || a.code() != "INVALID_ARGUMENT" || a.detail("field") != field || strings.Contains(a.body, "<") {
				t.Errorf("%.60s: %d %s", query, a.status, a.body)
			}
		}
	}
	if a := g.ask(t, "GET /api/v1/fleet/jobs?kind=pdf&type=fleet.pdf", ""); a.status != 400 || a.detail("field") != "kind" {
		t.Errorf("kind and type: %d %s", a.status, a.body)
	}
	if a := g.ask(t, "GET /api/v1/fleet/jobs?q="+strings.Repeat("x", 1<<20), ""); a.status != 431 && a.status != 400 {
		t.Errorf("a query of 1 MB: %d %.200s", a.status, a.body)
	}
}

func TestD31OneCallLooksAtAThousandJobsAndTheNextGoesOn(t *testing.T) {
	_, all := fleetOf(2500)
	q, f := jobapi.Query{Limit: 50}, jobapi.Filter{IDPrefix: "job_00000"}
	calls, found := 0, jobapi.Selected{Next: "0"}
	for ; found.Next != ""; calls++ {
		var err error
		if found, err = jobapi.Select(t.Context(), all, q, f, false); err != nil {
			t.Fatal(err)
		}
		q.Cursor = found.Next
	}
	if calls != 3 || len(found.Items) != 1 || all.called("List") != 13 {
		t.Errorf("%d calls, %d lists, found %+v; want 3, 13 and one job", calls, all.called("List"), found)
	}
	if all.called("Get") != 0 {
		t.Error("jobs were read for a filter that items can be judged by")
	}
}

func TestD31AFilteredPageGoesOnBehindAJobThatIsGone(t *testing.T) {
	_, all := fleetOf(100)
	q, f := jobapi.Query{Limit: 3}, jobapi.Filter{Text: "broken"}
	var got []string
	for {
		found, err := jobapi.Select(t.Context(), all, q, f, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range found.Items {
			got = append(got, i.ID)
		}
		if q.Cursor = found.Next; q.Cursor == "" {
			break
		}
		all.remove(got[len(got)-1])
	}
	if want := []string{"job_00093", "job_00083", "job_00073", "job_00063", "job_00053", "job_00043", "job_00033", "job_00023", "job_00013", "job_00003"}; !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}
