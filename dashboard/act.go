package dashboard

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobapi/access"
	"github.com/batchfleet/batchfleet/jobs"
)

// action is something that is done to one job, kind or worker.
type action struct {
	question string // with what it is done to at its end; empty to do it without a question
	button   string
	need     access.Scope
	api      func(scope, id string) string // the path of the API
	back     func(scope, id string) string // the page to show then
	notice   string                        // see [notices]
	danger   bool
}

func ofJob(verb string) func(scope, id string) string {
	return func(scope, id string) string { return pathOf(scope, "jobs", id, verb) }
}

func ofKind(verb string) func(scope, id string) string {
	return func(scope, id string) string { return pathOf(scope, "kinds", id, verb) }
}

func ofWorker(verb string) func(scope, id string) string {
	return func(scope, id string) string { return pathOf(scope, "workers", id, verb) }
}

func toJob(scope, id string) string     { return "/jobs/" + pathOf(scope, id) }
func toKinds(string, string) string     { return "/kinds" }
func toWorkers(string, string) string   { return "/workers" }
func toPage(path, notice string) string { return path + "?notice=" + notice }

var actions = map[string]action{
	"cancel":        {"Cancel job", "Cancel it", access.Operate, ofJob("cancel"), toJob, "canceled", true},
	"retry":         {"Queue job again:", "Queue it again", access.Operate, ofJob("retry"), toJob, "retried", false},
	"pause":         {"", "", access.Operate, ofKind("pause"), toKinds, "paused", false},
	"resume":        {"", "", access.Operate, ofKind("resume"), toKinds, "resumed", false},
	"drain":         {"", "", access.Operate, ofWorker("drain"), toWorkers, "draining", false},
	"resume-worker": {"", "", access.Operate, ofWorker("resume"), toWorkers, "resumed", false},
	"revoke":        {"Lock out worker", "Lock it out", access.Admin, ofWorker("revoke"), toWorkers, "revoked", true},
}

// question is a page that asks before something is changed.
type question struct {
	Title  string
	Text   []string
	Fields []field // that are sent with the answer
	Action string  // where to
	Button string
	Danger bool
	Typed  string // a word that must be typed; empty for none
	Given  string // what was typed
	Inputs []input
	Back   string
	Wrong  string // what the server has said
	Field  string // that is wrong
	Plan   []string
	Ready  bool // there is nothing wrong, so it can be done
}

type field struct{ Name, Value string }

// input is a value that may be changed in a question.
type input struct {
	Name, Label, Value, Hint, Kind string
	Min, Max                       string
}

func (d *Dashboard) form(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return nil, &httpd.StatusError{Status: http.StatusBadRequest, Err: err}
	}
	return r.PostForm, nil
}

// act does what a button asks for, or asks first.
func (d *Dashboard) act(v *visit) error {
	values, err := d.form(v.w, v.r)
	if err != nil {
		return err
	}
	scope, id := values.Get("scope"), values.Get("id")
	a, ok := actions[values.Get("do")]
	if !ok || scope == "" || id == "" {
		return errNoAction
	}
	if a.question != "" && values.Get("sure") != "yes" {
		q := &question{
			Title: a.question + " " + jobs.Clip(id, 128, "…") + "?", Action: "/act", Button: a.button, Danger: a.danger, Back: a.back(scope, id), Ready: true,
			Fields: []field{{"do", values.Get("do")}, {"scope", scope}, {"id", id}, {"sure", "yes"}},
		}
		return d.write(v, &page{Template: "question.html", Title: q.Title, Data: q})
	}
	var answer struct{ Status string }
	if err := v.post(a.api(scope, id), struct{}{}, &answer); err != nil {
		return err
	}
	notice := a.notice
	if notice == "canceled" && answer.Status != jobs.Canceled.String() {
		notice = "canceling"
	}
	http.Redirect(v.w, v.r, toPage(a.back(scope, id), notice), http.StatusSeeOther)
	return nil
}

var errNoAction = &httpd.StatusError{Status: http.StatusBadRequest, Err: errAction}

// perform starts an operation of scope utils and goes to its job. A dry run shows a question in its place.
func (d *Dashboard) perform(v *visit, operation string, request map[string]any, q *question, sure bool) error {
	if !sure {
		request["dryRun"] = true
		var plan struct {
			Steps []struct{ Step, Action, Reason string }
		}
		switch err := v.post(pathOf("utils", operation), request, &plan); {
		case q.refused(err):
		case err != nil:
			return err
		default:
			q.Ready = true
			for _, s := range plan.Steps {
				q.Plan = append(q.Plan, strings.TrimSpace(s.Step+": "+s.Reason))
			}
		}
		return d.ask(v, q)
	}
	var job struct {
		ID string `json:"jobId"`
	}
	switch err := v.post(pathOf("utils", operation), request, &job); {
	case q.refused(err):
		return d.ask(v, q)
	case err != nil:
		return err
	}
	http.Redirect(v.w, v.r, toPage(toJob("utils", job.ID), "started"), http.StatusSeeOther)
	return nil
}

func (d *Dashboard) ask(v *visit, q *question) error {
	p := &page{Template: "question.html", Title: q.Title, Data: q}
	if q.Wrong != "" {
		p.Status = http.StatusBadRequest
	}
	return d.write(v, p)
}

// refused reports whether an error tells what is wrong with a request, and keeps that.
func (q *question) refused(err error) bool {
	s := statusOf(err)
	if s != http.StatusBadRequest && s != http.StatusConflict && s != http.StatusTooManyRequests {
		return false
	}
	q.Wrong, q.Field = refusedField(err)
	q.Ready = s != http.StatusBadRequest
	return true
}
