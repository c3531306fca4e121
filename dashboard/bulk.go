package dashboard

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/batchfleet/batchfleet/httpd"
)

var errAction = errors.New("this is nothing that can be done")

// bulkForm is what all jobs that match a filter are asked for: the filter stands in one field, as in the URL of the list.
type bulkForm struct {
	do, filter string
	values     url.Values // of the filter
	numbers    map[string]string
}

// bulkNumbers are the brakes of an operation on many jobs: their names in the API, labels, defaults and limits.
var bulkNumbers = []input{
	{"ratePerSecond", "Jobs a second", "50", "", "number", "1", "1000"},
	{"maxJobs", "Jobs at most", "1000000", "", "number", "1", "1000000"},
	{"stopAfterErrors", "Stop after errors", "20", "", "number", "1", "1000"},
}

// bulk asks about all jobs that match, and starts what was confirmed.
func (d *Dashboard) bulk(v *visit) error {
	sent := v.r.URL.Query()
	if v.r.Method == http.MethodPost {
		var err error
		if sent, err = d.form(v.w, v.r); err != nil {
			return err
		}
	}
	b := &bulkForm{do: sent.Get("do"), filter: sent.Get("filter"), numbers: map[string]string{}}
	var err error
	if b.values, err = url.ParseQuery(b.filter); err != nil || b.do != "cancel" && b.do != "retry" {
		return errNoAction
	}
	f := v.filter(b.values)
	request := map[string]any{"scope": f.Scope}
	for name, values := range f.query() {
		request[name] = values[0]
	}
	q := b.question(&f)
	for i, n := range bulkNumbers {
		if given := sent.Get(n.Name); given != "" {
			q.Inputs[i].Value = given
		}
		number, err := strconv.ParseInt(q.Inputs[i].Value, 10, 64)
		if err != nil {
			q.Wrong, q.Field = "Invalid "+n.Name+": want a number", n.Name
			return d.ask(v, q)
		}
		request[n.Name] = number
	}
	return d.perform(v, b.do, request, q, v.r.Method == http.MethodPost && sent.Get("sure") == "yes" && sent.Get("count-first") == "")
}

func (b *bulkForm) question(f *filter) *question {
	q := &question{
		Title: "Cancel all jobs that match?", Action: "/bulk", Button: "Cancel them", Danger: true, Back: "/jobs?" + f.values().Encode(),
		Fields: []field{{"do", b.do}, {"filter", f.values().Encode()}, {"sure", "yes"}}, Inputs: append([]input(nil), bulkNumbers...),
	}
	if b.do == "retry" {
		q.Title, q.Button, q.Danger = "Queue all jobs again that match?", "Queue them again", false
	}
	parts := []string{"scope " + f.Scope}
	for _, c := range f.chips() {
		parts = append(parts, c.Label+" "+c.Value)
	}
	q.Text = []string{"Jobs of " + strings.Join(parts, ", ") + "."}
	return q
}

// redrive asks how dead letters are to be queued again, and starts that.
func (d *Dashboard) redrive(v *visit) error {
	return d.operation(v, "redrive", &question{
		Title: "Queue the jobs of dead letters again?", Button: "Queue them again", Action: "/failed/redrive", Back: "/failed",
		Text: []string{"The oldest first. It stops by itself when jobs fail again with the same error."},
		Inputs: []input{
			{"reason", "Only where the reason contains", "", "Empty for any", "text", "", ""},
			{"count", "Dead letters at most", "0", "0 for all", "number", "0", "10000"},
			{"ratePerSecond", "Jobs a second", "10", "", "number", "1", "1000"},
			{"stopAfter", "Stop after so many of the same error", "3", "0 for any number", "number", "0", "10000"},
		},
	})
}

// purge asks which results are to be deleted, and for a word to be typed.
func (d *Dashboard) purge(v *visit) error {
	return d.operation(v, "purge", &question{
		Title: "Delete old results?", Button: "Delete them", Danger: true, Action: "/failed/purge", Back: "/failed", Typed: "purge",
		Text: []string{"What jobs have left in the storage is deleted, for good, where nothing was added to it for so long."},
		Inputs: []input{
			{"olderThanDays", "Older than, in days", "30", "", "number", "1", "3650"},
			{"limit", "Jobs at most", "100000", "", "number", "1", "1000000"},
		},
	})
}

// operation asks for the values of an operation, counts by a dry run what it would do, and starts it once that was confirmed.
func (d *Dashboard) operation(v *visit, name string, q *question) error {
	sent := url.Values{}
	if v.r.Method == http.MethodPost {
		var err error
		if sent, err = d.form(v.w, v.r); err != nil {
			return err
		}
	}
	q.Fields = []field{{"sure", "yes"}}
	q.Given = sent.Get("typed")
	request := map[string]any{}
	for i, in := range q.Inputs {
		if sent.Has(in.Name) {
			q.Inputs[i].Value = sent.Get(in.Name)
		}
		value := q.Inputs[i].Value
		if in.Kind == "text" {
			if value != "" {
				request[in.Name] = value
			}
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			q.Wrong, q.Field = "Invalid "+in.Name+": want a number", in.Name
			return d.ask(v, q)
		}
		request[in.Name] = number
	}
	sure := sent.Get("sure") == "yes" && sent.Get("count-first") == ""
	if sure && q.Typed != "" && q.Given != q.Typed {
		q.Wrong, q.Field, q.Ready = "Type the word "+q.Typed+" to confirm", "typed", true
		return d.ask(v, q)
	}
	return d.perform(v, name, request, q, sure)
}

// only lets a handler run where the visitor may start an operation.
func only(operation string, handle func(*visit) error) func(*visit) error {
	return func(v *visit) error {
		if !v.runs(operation) {
			return &httpd.StatusError{Status: http.StatusForbidden, Err: errMayNot}
		}
		return handle(v)
	}
}

var errMayNot = errors.New("your token may not do this here, or this server cannot do it")

// bulkURL is the page that asks about all jobs that match a filter.
func bulkURL(do string, f *filter) string {
	return "/bulk?" + url.Values{"do": {do}, "filter": {f.values().Encode()}}.Encode()
}
