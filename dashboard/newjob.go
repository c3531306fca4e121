package dashboard

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/access"
)

// newJob is the form of a new job.
type newJob struct {
	Scopes   []tab
	Several  bool // scopes
	Kinds    []tab
	Scope    string
	Kind     string
	About    string // of the kind
	Known    bool   // which parameters there are
	Params   []param
	Raw      string // the parameters as JSON, where that is not known
	Input    string // none, optional, one or many
	Inputs   string // names of objects, one a line
	Upload   bool
	Key      string // Idempotency-Key: sent twice, it is the same job
	Wrong    string // what is wrong beside the fields
	WrongIn  string // what is wrong with the inputs
	WrongRaw string
	Curl     string // all of the command but its body
	Body     string // of the command, quoted for a shell
	CurlFile string // the command that uploads a file
	Cloned   string // the job it is made after
	NotShown bool   // the parameters of that job are not on record here
}

func showNew(v *visit) (*page, error) {
	query := v.r.URL.Query()
	n, err := v.newJob(query.Get("scope"), query.Get("kind"), query.Get("clone"))
	if err != nil {
		return nil, err
	}
	return n.page(v), nil
}

func (n *newJob) page(v *visit) *page {
	n.command(v)
	n.Several = len(n.Scopes) > 1
	p := &page{Template: "new.html", Title: "New job", Nav: "new", Data: n}
	if n.Wrong != "" || n.WrongIn != "" || n.WrongRaw != "" {
		p.Status = http.StatusBadRequest
	}
	for _, f := range n.Params {
		if f.Wrong != "" {
			p.Status = http.StatusBadRequest
		}
	}
	return p
}

// newJob returns the form of a kind, empty or with the request of another job in it.
func (v *visit) newJob(scopeName, kindName, clone string) (*newJob, error) {
	n := &newJob{Scope: scopeName, Kind: kindName, Key: rand.Text(), Cloned: clone, Input: "optional"}
	for i := range v.Scopes {
		s := &v.Scopes[i]
		if !s.can("submit") {
			continue
		}
		if n.Scope == "" {
			n.Scope = s.Name
		}
		n.Scopes = append(n.Scopes, tab{s.Name, "/new?scope=" + url.QueryEscape(s.Name), s.Name == n.Scope})
	}
	s := v.scope(n.Scope)
	if !v.may(access.Operate) || s != nil && !s.can("submit") || n.Scope != "" && s == nil {
		return nil, &httpd.StatusError{Status: http.StatusForbidden, Err: errMayNot}
	}
	if s == nil {
		return n, nil // no scope takes jobs
	}
	var request json.RawMessage
	if clone != "" {
		var j jobapi.Job
		if err := v.get(pathOf(n.Scope, "jobs", clone), nil, &j); err != nil {
			return nil, err
		}
		n.Kind, request = strings.TrimPrefix(j.Type, n.Scope+"."), j.Request
	}
	kinds, err := v.kinds(n.Scope)
	if err != nil {
		return nil, err
	}
	n.Upload = s.can("upload")
	n.choose(kinds)
	if request != nil {
		n.fill(request)
	}
	return n, nil
}

// choose makes the fields of the kind that was chosen, or of the first.
func (n *newJob) choose(kinds []kind) {
	if n.Kind == "" && len(kinds) > 0 {
		n.Kind = kinds[0].Name
	}
	for _, k := range kinds[:min(len(kinds), maxShown)] {
		n.Kinds = append(n.Kinds, tab{k.Name, "/new?" + url.Values{"scope": {n.Scope}, "kind": {k.Name}}.Encode(), k.Name == n.Kind})
		if k.Name == n.Kind {
			n.About, n.Input = k.Description, k.Input
			n.Params, n.Known = paramsOf(k.Params)
		}
	}
}

// fill puts the request of another job into the form.
func (n *newJob) fill(request json.RawMessage) {
	var r struct {
		Params json.RawMessage `json:"params"`
		Input  any             `json:"input"`
		Inputs any             `json:"inputs"`
	}
	if json.Unmarshal(request, &r) != nil {
		return
	}
	if s, ok := r.Input.(string); ok {
		n.Inputs = s
	}
	if list, ok := r.Inputs.([]any); ok {
		var names []string
		for _, s := range list {
			names = append(names, fmt.Sprint(s))
		}
		n.Inputs = strings.Join(names, "\n")
	}
	var params map[string]json.RawMessage
	if json.Unmarshal(r.Params, &params) != nil {
		n.NotShown = len(n.Params) > 0
		return
	}
	if !n.Known {
		n.Raw = string(r.Params)
		return
	}
	for i := range n.Params {
		if value, ok := params[n.Params[i].Name]; ok {
			n.Params[i].set(pick(n.Params[i].Type == "json", string(value), plain(value)))
		}
	}
}

// set puts a value in.
func (p *param) set(value string) {
	p.Value = value
	p.choose()
}

// request returns the submission as JSON. What is wrong is noted beside its field; then ok is false.
func (n *newJob) request() (text json.RawMessage, ok bool) {
	ok = true
	var params bytes.Buffer
	for i := range n.Params {
		p := &n.Params[i]
		value, wrong := p.value()
		if p.Wrong = wrong; wrong != "" {
			ok = false
		}
		if value == nil {
			continue
		}
		name, _ := json.Marshal(p.Name) // a string
		params.WriteString(pick(params.Len() > 0, ",", ""))
		params.Write(append(append(name, ':'), value...))
	}
	object := "{" + params.String() + "}"
	if !n.Known {
		object = strings.TrimSpace(n.Raw)
		if object == "" {
			object = "{}"
		}
		var members map[string]json.RawMessage
		if json.Unmarshal([]byte(object), &members) != nil {
			n.WrongRaw, object, ok = "want an object of JSON, such as {\"dpi\":120}", "{}", false
		}
	}
	submission := struct {
		Kind   string          `json:"kind"`
		Params json.RawMessage `json:"params,omitempty"`
		Input  string          `json:"input,omitempty"`
		Inputs []string        `json:"inputs,omitempty"`
	}{Kind: n.Kind}
	if object != "{}" {
		submission.Params = json.RawMessage(object)
	}
	var names []string
	for line := range strings.Lines(n.Inputs) {
		if name := strings.TrimSpace(line); name != "" {
			names = append(names, name)
		}
	}
	if len(names) == 1 {
		submission.Input = names[0]
	} else {
		submission.Inputs = names
	}
	text, err := httpd.EncodeJSON(submission)
	return bytes.TrimSpace(text), ok && err == nil
}

// command says the same for a shell.
func (n *newJob) command(v *visit) {
	base := pick(isEncrypted(v.r), "https://", "http://") + v.r.Host + "/api/v1/" + n.Scope
	auth := ""
	if v.Who.Name != "loopback" {
		auth = ` -H "Authorization: Bearer $TOKEN"`
	}
	wrong := n.WrongRaw
	marks := make([]string, len(n.Params)) // the command is made from values that may be wrong
	for i := range n.Params {
		marks[i] = n.Params[i].Wrong
	}
	body, _ := n.request()
	for i := range n.Params {
		n.Params[i].Wrong = marks[i]
	}
	n.WrongRaw = wrong
	n.Curl = "curl -X POST " + base + "/jobs" + auth + " -H 'Content-Type: application/json' -d "
	n.Body = shellQuoted(string(body))
	if n.Upload && n.Input != "none" {
		n.CurlFile = "curl -X POST '" + base + "/inputs?name=FILE'" + auth + " --data-binary @FILE"
	}
}

func shellQuoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
