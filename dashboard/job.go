package dashboard

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// detail is what the page of a job shows.
type detail struct {
	jobapi.Job
	Path      string // of the page
	API       string // path of the job in the API
	Kind      string // without the scope
	Percent   int
	Why       []jobapi.Reason
	Lease     jobapi.Time // until when the worker has the job
	Artifacts []artifact
	NoFiles   string // why artifacts cannot be listed
	Log       []logLine
	LogFailed string
	Live      bool // it has not ended
	Cancel    bool // the visitor may
	Retry     bool
	Clone     string // a URL; empty if it cannot be made again
	Download  bool   // the visitor may read artifacts
	Details   string // of its error, in JSON
}

// artifact is a file of a job, as the page shows it.
type artifact struct {
	jobapi.Artifact
	Download string // a URL of the API
	Inline   string // a URL of this dashboard; empty for what is not shown
	Image    bool
}

// logLine is a line of a log.
type logLine struct {
	Time jobapi.Time
	Text string
}

// logLines is how many lines a page shows without JavaScript.
const logLines = 200

func showJob(v *visit) (*page, error) {
	scopeName, id := v.r.PathValue("scope"), v.r.PathValue("id")
	d := &detail{Path: "/jobs/" + pathOf(scopeName, id), API: "/api/v1/" + pathOf(scopeName, "jobs", id)}
	if err := v.get(pathOf(scopeName, "jobs", id), nil, &d.Job); err != nil {
		return nil, err
	}
	if string(d.Result) == "null" {
		d.Result = nil
	}
	s := v.scope(scopeName)
	d.Kind = strings.TrimPrefix(d.Type, scopeName+".")
	d.Live = !d.Status.Terminal()
	if d.Progress.Total > 0 {
		d.Percent = min(100, max(0, 100*d.Progress.Completed/d.Progress.Total))
	}
	if d.Error != nil && len(d.Error.Details) > 0 {
		text, _ := json.Marshal(d.Error.Details) // it was read from JSON
		d.Details = string(text)
	}
	may := v.mayChange(scopeName)
	d.Cancel = d.Live && may
	d.Retry = may && s.can("retry") && d.Status == jobs.Failed
	if s.can("submit") && may {
		d.Clone = "/new?scope=" + url.QueryEscape(scopeName) + "&clone=" + url.QueryEscape(id)
	}
	if err := d.explain(v, s); err != nil {
		return nil, err
	}
	if err := d.files(v, s); err != nil {
		return nil, err
	}
	d.log(v)
	return &page{Template: "job.html", Title: "Job " + jobs.Clip(id, 40, "…"), Nav: "jobs", Data: d}, nil
}

// explain asks why the job is as it is, where the scope tells that.
func (d *detail) explain(v *visit, s *scope) error {
	if !d.Live || !s.can("why") {
		return nil
	}
	var why struct{ Reasons []jobapi.Reason }
	switch err := v.get(pathOf(d.Scope, "jobs", d.ID, "why"), nil, &why); {
	case missing(err), unavailable(err):
	case err != nil:
		return err
	}
	d.Why = why.Reasons
	for _, r := range d.Why {
		if r.Code == jobapi.WhyLeased {
			d.Lease = r.Until
		}
	}
	return nil
}

func (d *detail) files(v *visit, s *scope) error {
	if d.Live || !s.can("artifacts") {
		return nil
	}
	var all struct{ Items []jobapi.Artifact }
	if err := v.get(pathOf(d.Scope, "jobs", d.ID, "artifacts"), nil, &all); err != nil {
		e, ok := refusalOf(err)
		if !ok {
			return err
		}
		d.NoFiles = e.Message
		return nil
	}
	d.Download = v.mayRead()
	for _, a := range all.Items[:min(len(all.Items), maxShown)] {
		shown := artifact{Artifact: a, Download: d.API + "/artifacts/" + url.PathEscape(a.Name)}
		if kind := inlineType(a.MediaType, a.Name); kind != "" && a.Bytes <= maxInline && d.Download {
			shown.Inline, shown.Image = d.Path+"/artifacts/"+url.PathEscape(a.Name), strings.HasPrefix(kind, "image/")
		}
		d.Artifacts = append(d.Artifacts, shown)
	}
	return nil
}

// maxShown is how many artifacts a page lists.
const maxShown = 500

// log reads the end of the log.
func (d *detail) log(v *visit) {
	r := v.request(v.r.Context(), http.MethodGet, pathOf(d.Scope, "jobs", d.ID, "logs"), url.Values{"tailLines": {strconv.Itoa(logLines)}, "times": {"true"}}, nil)
	answer, err := v.do(r)
	if err == nil && answer.status != http.StatusOK {
		err = answer.refusal(r)
	}
	if err != nil {
		d.LogFailed = "The log cannot be read now"
		if e, ok := refusalOf(err); ok {
			d.LogFailed = e.Message
		}
		return
	}
	for line := range strings.Lines(answer.body.String()) {
		line = strings.TrimSuffix(line, "\n")
		l := logLine{Text: line}
		if at, text, ok := strings.Cut(line, "  "); ok {
			if t, err := time.Parse(time.RFC3339, at); err == nil {
				l = logLine{jobapi.At(t), text}
			}
		}
		l.Text = jobs.Clip(l.Text, maxLogLine, "…")
		d.Log = append(d.Log, l)
	}
}

// maxLogLine is how much of a line a page shows, in bytes. The log as a file has all of it.
const maxLogLine = 8 << 10
