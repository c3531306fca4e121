package schedules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/access"
	"github.com/batchfleet/batchfleet/jobs"
)

// Root is where the routes begin.
const Root = "/api/v1/schedules"

var (
	nameForm = jobs.Form(`^[a-z0-9][a-z0-9._-]{0,62}$`)
	zoneForm = jobs.Form(`^[A-Za-z0-9_+-]{1,32}(/[A-Za-z0-9_+-]{1,32}){0,2}$`)
	kindForm = jobs.Form(`^[a-z][a-z0-9-]{0,31}$`)
)

// maxBody has room for parameters of 256 KiB and 1000 names of inputs.
const maxBody = 2 << 20

// Routes returns the routes by which schedules are read and changed.
func (r *Runner) Routes() []jobapi.Route {
	one := Root + "/{name}"
	return []jobapi.Route{
		{Pattern: "GET " + Root, Need: access.Read, Handle: r.list},
		{Pattern: "GET " + one, Need: access.Read, Handle: r.show},
		{Pattern: "PUT " + one, Need: access.Operate, Handle: r.put},
		{Pattern: "DELETE " + one, Need: access.Operate, Handle: r.remove},
		{Pattern: "POST " + one + "/pause", Need: access.Operate, Handle: r.pause(true)},
		{Pattern: "POST " + one + "/resume", Need: access.Operate, Handle: r.pause(false)},
		{Pattern: "POST " + one + "/run", Need: access.Operate, Handle: r.runNow},
	}
}

// page is how many schedules a list has at most.
const page = 200

// list answers with schedules by name, page by page: ?after=NAME.
func (r *Runner) list(w http.ResponseWriter, req *http.Request) error {
	after, given := req.URL.Query().Get("after"), req.URL.Query().Has("after")
	if given && !nameForm().MatchString(after) {
		return &jobapi.FieldError{Field: "after", Problem: "want the name of a schedule"}
	}
	ctx, cancel := context.WithTimeout(req.Context(), callTimeout)
	defer cancel()
	all, err := r.Store.List(ctx)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(s jobapi.Schedule) bool { return s.Name <= after })
	next := ""
	if len(all) > page {
		all, next = all[:page], all[page-1].Name
	}
	return answer(w, struct {
		Items []jobapi.Schedule `json:"items"`
		Next  string            `json:"nextAfter,omitempty"`
	}{all, next})
}

func answer(w http.ResponseWriter, v any) error {
	body, err := httpd.EncodeJSON(v)
	if err == nil {
		httpd.WriteJSON(w, http.StatusOK, body)
	}
	return err
}

func (r *Runner) show(w http.ResponseWriter, req *http.Request) error {
	sch, err := r.read(req)
	if err != nil {
		return err
	}
	return answer(w, sch)
}

// read returns the schedule that a request names.
func (r *Runner) read(req *http.Request) (jobapi.Schedule, error) {
	ctx, cancel := context.WithTimeout(req.Context(), callTimeout)
	defer cancel()
	sch, err := r.Store.get(ctx, req.PathValue("name"))
	return sch, refused(err)
}

// refused is an error for the caller.
func refused(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &jobapi.Refusal{Status: http.StatusNotFound, Code: jobapi.CodeNotFound, Message: "No such schedule"}
	case errors.Is(err, errMany):
		return &jobapi.Refusal{Status: http.StatusConflict, Code: jobapi.CodeConflict, Message: "There are too many schedules: delete some first"}
	}
	return err
}

// put saves a schedule under the name in the path, and answers with it. A schedule that was there keeps its last run.
func (r *Runner) put(w http.ResponseWriter, req *http.Request) error {
	var sch jobapi.Schedule
	if err := httpd.ReadJSON(w, req, maxBody, &sch, httpd.BodyOptions{}); err != nil {
		return err
	}
	name := req.PathValue("name")
	if sch.Name != "" && sch.Name != name {
		return &jobapi.FieldError{Field: "name", Problem: "leave it out, or give the name in the path"}
	}
	sch.Name = name
	ctx, cancel := context.WithTimeout(req.Context(), callTimeout)
	defer cancel()
	if err := r.check(ctx, &sch); err != nil {
		return err
	}
	return r.save(w, req, sch)
}

// save saves a schedule that was checked and answers with it.
func (r *Runner) save(w http.ResponseWriter, req *http.Request, sch jobapi.Schedule) error {
	now := time.Now()
	sch.Saved = jobapi.At(now)
	var next time.Time
	if !sch.Paused {
		loc, err := zone(sch)
		if err != nil {
			return &jobapi.FieldError{Field: "zone", Problem: noZone(sch.Zone)}
		}
		if next, err = nextRun(sch.Cron, loc, now); err != nil {
			return &jobapi.FieldError{Field: "cron", Problem: err.Error()}
		}
	}
	ctx, cancel := context.WithTimeout(req.Context(), callTimeout)
	defer cancel()
	if _, err := r.Store.save(ctx, sch, next); err != nil {
		return refused(err)
	}
	return r.show(w, req)
}

func noZone(name string) string {
	return fmt.Sprintf("%.64q is no time zone that this server knows: want one such as Europe/Berlin; it reads them from /usr/share/zoneinfo (package tzdata) or the file in ZONEINFO", name)
}

// check returns what is wrong with a schedule, a [jobapi.FieldError], and fills in defaults.
func (r *Runner) check(ctx context.Context, sch *jobapi.Schedule) error {
	field := func(name, problem string) error { return &jobapi.FieldError{Field: name, Problem: problem} }
	sch.Scope, sch.CatchUp = cmp.Or(sch.Scope, "fleet"), cmp.Or(sch.CatchUp, jobapi.CatchUpOne)
	submitter := r.Scopes[sch.Scope]
	switch {
	case !nameForm().MatchString(sch.Name):
		return field("name", "want 1 to 63 lower-case letters, digits, '.', '_' and '-', a letter or digit first")
	case len(sch.Cron) > 200:
		return field("cron", "want at most 200 bytes")
	case sch.Zone != "" && (!zoneForm().MatchString(sch.Zone) || sch.Zone == "Local"):
		return field("zone", "want a name such as Europe/Berlin")
	case sch.CatchUp != jobapi.CatchUpOne && sch.CatchUp != jobapi.CatchUpAll && sch.CatchUp != jobapi.CatchUpNone:
		return field("catchUp", "want one, all or none")
	case submitter == nil:
		return field("scope", "this server takes no jobs of this scope")
	case !kindForm().MatchString(sch.Kind):
		return field("kind", "want the name of a kind, such as pdf")
	}
	if err := checkCron(sch.Cron); err != nil {
		return field("cron", err.Error())
	}
	if _, err := zone(*sch); err != nil {
		return field("zone", noZone(sch.Zone))
	}
	if checker, ok := submitter.(interface {
		Check(ctx context.Context, s jobapi.Submission) error
	}); ok {
		return checker.Check(ctx, submission(*sch, ""))
	}
	return nil
}

func (r *Runner) remove(w http.ResponseWriter, req *http.Request) error {
	ctx, cancel := context.WithTimeout(req.Context(), callTimeout)
	defer cancel()
	name := req.PathValue("name")
	if err := r.Store.remove(ctx, name); err != nil {
		return refused(err)
	}
	return answer(w, struct {
		Name string `json:"name"`
	}{name})
}

// pause pauses or resumes a schedule. What was missed while it was paused is not made up for.
func (r *Runner) pause(paused bool) httpd.Handler {
	return func(w http.ResponseWriter, req *http.Request) error {
		sch, err := r.read(req)
		if err != nil {
			return err
		}
		sch.Paused = paused
		return r.save(w, req, sch)
	}
}

// runNow makes a job of a schedule at once, beside those that come by it.
func (r *Runner) runNow(w http.ResponseWriter, req *http.Request) error {
	sch, err := r.read(req)
	if err != nil {
		return err
	}
	job, err := r.submit(req.Context(), sch, "")
	if err != nil {
		return err
	}
	body, err := httpd.EncodeJSON(job)
	if err == nil {
		httpd.WriteJSON(w, http.StatusCreated, body)
	}
	return err
}
