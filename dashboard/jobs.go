package dashboard

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// filter is what jobs are looked for by, as in the URL of the page and in the query of the API.
type filter struct {
	Scope                                              string
	State, Kind, Worker, Error, Since, Until, Text, ID string
}

// facets are the parameters of a filter: their names here, and in the API.
var facets = []struct {
	name, api, label string
	of               func(*filter) *string
}{
	{"state", "status", "state", func(f *filter) *string { return &f.State }},
	{"kind", "kind", "kind", func(f *filter) *string { return &f.Kind }},
	{"worker", "worker", "worker", func(f *filter) *string { return &f.Worker }},
	{"error", "error", "error", func(f *filter) *string { return &f.Error }},
	{"since", "since", "since", func(f *filter) *string { return &f.Since }},
	{"until", "until", "until", func(f *filter) *string { return &f.Until }},
	{"q", "q", "text", func(f *filter) *string { return &f.Text }},
	{"id", "id_prefix", "id", func(f *filter) *string { return &f.ID }},
}

func (v *visit) filter(values url.Values) filter {
	f := filter{Scope: values.Get("scope")}
	if f.Scope == "" {
		f.Scope = v.mainScope()
	}
	for _, facet := range facets {
		*facet.of(&f) = jobs.Clip(values.Get(facet.name), 1000, "")
	}
	return f
}

// values returns the filter as it stands in a URL of the dashboard.
func (f *filter) values() url.Values {
	values := url.Values{"scope": {f.Scope}}
	for _, facet := range facets {
		if s := *facet.of(f); s != "" {
			values.Set(facet.name, s)
		}
	}
	return values
}

// query returns the filter for the API.
func (f *filter) query() url.Values {
	values := url.Values{}
	for _, facet := range facets {
		if s := *facet.of(f); s != "" {
			values.Set(facet.api, s)
		}
	}
	return values
}

// chip is a part of the filter that can be taken away.
type chip struct{ Label, Value, Without string }

func (f *filter) chips() (all []chip) {
	for _, facet := range facets {
		if s := *facet.of(f); s != "" {
			rest := f.values()
			rest.Del(facet.name)
			all = append(all, chip{facet.label, s, "/jobs?" + rest.Encode()})
		}
	}
	return all
}

// list is what the page of jobs shows.
type list struct {
	filter
	Tabs     []tab
	Chips    []chip
	Kinds    []string
	Radios   []radio
	Items    []jobapi.Item
	Next     string // a URL; empty on the last page
	Previous string // a URL; empty on the first
	Limit    int
	Wrong    string // what the API has said about the filter
	Field    string // of the filter that is wrong
	Cancel   string // a URL to cancel all that match; empty if the visitor may not
	Retry    string
}

type tab struct {
	Name, URL string
	Here      bool
}

type radio struct {
	State string
	Here  bool
}

// maxBack is how many earlier pages a URL knows.
const maxBack = 50

const (
	pageSize = 50
	maxPage  = 200
)

func showJobs(v *visit) (*page, error) {
	values := v.r.URL.Query()
	l := &list{filter: v.filter(values), Limit: pageSize}
	for _, state := range append([]string{""}, stateWords...) {
		l.Radios = append(l.Radios, radio{state, state == l.State})
	}
	l.Chips = l.chips()
	for _, s := range v.Scopes {
		l.Tabs = append(l.Tabs, tab{s.Name, "/jobs?scope=" + url.QueryEscape(s.Name), s.Name == l.Scope})
	}
	if n, err := strconv.Atoi(values.Get("limit")); err == nil && n > 0 {
		l.Limit = min(n, maxPage)
	}
	p := &page{Template: "jobs.html", Title: "Jobs", Nav: "jobs", Data: l, Find: l.Text}
	if err := l.load(v, values); err != nil {
		return nil, err
	}
	if l.Wrong != "" {
		p.Status = http.StatusBadRequest
	}
	if v.runs("cancel") && l.Scope != "system" && l.Scope != "utils" {
		l.Cancel = bulkURL("cancel", &l.filter)
	}
	if v.runs("retry") && v.scope(l.Scope).can("retry") {
		l.Retry = bulkURL("retry", &l.filter)
	}
	return p, nil
}

func (l *list) load(v *visit, values url.Values) error {
	var found jobapi.Page
	var answer struct {
		Items []jobapi.Item `json:"items"`
		Next  string        `json:"nextCursor"`
	}
	query := l.query()
	query.Set("limit", strconv.Itoa(l.Limit))
	cursor := values.Get("cursor")
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	switch err := v.get(pathOf(l.Scope, "jobs"), query, &answer); {
	case statusOf(err) == http.StatusBadRequest:
		l.Wrong, l.Field = refusedField(err)
		for _, facet := range facets {
			if facet.api == l.Field {
				l.Field = facet.name
			}
		}
	case err != nil:
		return err
	}
	found.Items, found.Next = answer.Items, answer.Next
	l.Items = found.Items
	l.pages(values, cursor, found.Next)
	if kinds, err := v.kinds(l.Scope); err == nil {
		for _, k := range kinds {
			l.Kinds = append(l.Kinds, k.Name)
		}
	}
	return nil
}

// pages makes the links to the next and the previous page. The cursors of earlier pages are in the URL, too; that of the first is empty.
func (l *list) pages(values url.Values, cursor, next string) {
	link := func(cursor string, back []string) string {
		to := l.values()
		if l.Limit != pageSize {
			to.Set("limit", strconv.Itoa(l.Limit))
		}
		if cursor != "" {
			to.Set("cursor", cursor)
		}
		if len(back) > 0 {
			to["back"] = back
		}
		return "/jobs?" + to.Encode()
	}
	back := values["back"]
	if cursor != "" {
		earlier, rest := "", back
		if n := len(back); n > 0 {
			earlier, rest = back[n-1], back[:n-1]
		}
		l.Previous = link(earlier, rest)
	}
	if next != "" {
		back = append(slices.Clone(back), cursor)
		l.Next = link(next, back[max(0, len(back)-maxBack):])
	}
}

// refusedField returns what is wrong with a request, and in which field.
func refusedField(err error) (message, field string) {
	e, ok := refusalOf(err)
	if !ok {
		return "", ""
	}
	field, _ = e.Details["field"].(string)
	return e.Message, field
}

// find goes to the job with that id, or to the list of what matches.
func find(v *visit) error {
	q := jobs.Clip(v.r.URL.Query().Get("q"), 200, "")
	to := "/jobs"
	if id, err := jobs.ParseID(q); err == nil {
		for _, s := range v.Scopes {
			var j jobapi.Job
			if err := v.get(pathOf(s.Name, "jobs", string(id)), nil, &j); err == nil {
				to = "/jobs/" + pathOf(s.Name, string(id))
				break
			} else if !missing(err) {
				return err
			}
		}
	}
	if to == "/jobs" && q != "" {
		to += "?q=" + url.QueryEscape(q)
	}
	http.Redirect(v.w, v.r, to, http.StatusSeeOther)
	return nil
}
