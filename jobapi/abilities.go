package jobapi

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobapi/access"
	"github.com/batchfleet/batchfleet/jobs"
)

// abilities are what a scope can do beside what all can, by the word that GET /api/v1/scopes has for it.
func (sc Scope) abilities(watched bool) []string {
	_, artifacts := sc.Jobs.(Keeper)
	_, why := sc.Jobs.(Explainer)
	_, submit := sc.Jobs.(Submitter)
	_, retry := sc.Jobs.(Retrier)
	_, kinds := sc.Jobs.(Catalog)
	_, counts := sc.Jobs.(Counter)
	_, pause := sc.Jobs.(Pauser)
	_, workers := sc.Jobs.(Workforce)
	_, drain := sc.Jobs.(Drainer)
	_, revoke := sc.Jobs.(Revoker)
	_, upload := sc.Jobs.(Uploader)
	_, report := sc.Jobs.(Reporter)
	all := []string{}
	for word, has := range map[string]bool{
		"artifacts": artifacts, "why": why, "submit": submit, "retry": retry, "kinds": kinds || counts && watched, "pause": pause,
		"workers": workers, "drain": drain, "revoke": revoke, "upload": upload, "report": report,
	} {
		if has {
			all = append(all, word)
		}
	}
	slices.Sort(all)
	return all
}

// ScopeInfo is a scope on the wire.
type ScopeInfo struct {
	Name       string   `json:"name"`
	Abilities  []string `json:"abilities"`
	Operations []string `json:"operations"` // never nil
}

func (s *Server) scopes(w http.ResponseWriter, r *http.Request) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	all := make([]ScopeInfo, 0, len(s.Scopes))
	for _, sc := range s.Scopes {
		info := ScopeInfo{Name: sc.Name, Abilities: sc.abilities(s.Watch != nil), Operations: []string{}}
		if runner, ok := sc.Jobs.(Runner); ok {
			info.Operations = slices.Sorted(slices.Values(runner.Operations()))
		}
		all = append(all, info)
	}
	return answer(w, http.StatusOK, items(all))
}

// items is a list on the wire.
func items[T any](all []T) any {
	if all == nil {
		all = []T{}
	}
	return struct {
		Items []T `json:"items"`
	}{all}
}

// more returns the routes of what a scope can do beside what all can.
func (c *scope) more() []route {
	base := root + c.Name
	var all []route
	if e, ok := c.Jobs.(Explainer); ok {
		all = append(all, route{"GET " + base + "/jobs/{jobId}/why", access.Read, c.why(e)})
	}
	catalog, known := c.Jobs.(Catalog)
	if _, counts := c.Jobs.(Counter); known || counts && c.server.Watch != nil {
		all = append(all, route{"GET " + base + "/kinds", access.Read, c.kinds(catalog)})
	}
	if p, ok := c.Jobs.(Pauser); ok {
		all = append(
			all,
			route{"POST " + base + "/kinds/{kind}/pause", c.Cancel, c.pause(p, p.Pause)},
			route{"POST " + base + "/kinds/{kind}/resume", c.Cancel, c.pause(p, p.Resume)},
		)
	}
	if f, ok := c.Jobs.(Workforce); ok {
		all = append(all, route{"GET " + base + "/workers", access.Read, listing(c.server, f.Workers)})
	}
	if d, ok := c.Jobs.(Drainer); ok {
		all = append(
			all,
			route{"POST " + base + "/workers/{workerId}/drain", c.Cancel, c.worker(d.DrainWorker)},
			route{"POST " + base + "/workers/{workerId}/resume", c.Cancel, c.worker(d.ResumeWorker)},
		)
	}
	if v, ok := c.Jobs.(Revoker); ok {
		all = append(all, route{"POST " + base + "/workers/{workerId}/revoke", access.Admin, c.worker(v.RevokeWorker)})
	}
	if u, ok := c.Jobs.(Uploader); ok {
		all = append(all, route{"POST " + base + "/inputs", c.Create, c.upload(u)})
	}
	if p, ok := c.Jobs.(Reporter); ok {
		all = append(all, route{"GET " + base + "/report", access.Read, c.report(p)})
	}
	return all
}

// listing answers with all that get returns.
func listing[T any](s *Server, get func(context.Context) ([]T, error)) httpd.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if _, err := parameters(r); err != nil {
			return err
		}
		return s.shared.answer(w, r, func(ctx context.Context) (any, error) {
			all, err := get(ctx)
			return items(all), err
		})
	}
}

// noBody reads the body of a request that has no fields.
func noBody(w http.ResponseWriter, r *http.Request) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	return httpd.ReadJSON(w, r, maxCancelBody, &struct{}{}, httpd.BodyOptions{AllowEmpty: true, Clean: shown})
}

// pause answers a request to pause or resume a kind.
func (c *scope) pause(p Pauser, do func(context.Context, string) error) httpd.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		kind := r.PathValue("kind")
		if !kindForm().MatchString(kind) {
			return errNoKind
		}
		if err := noBody(w, r); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
		defer cancel()
		switch err := do(ctx, kind); {
		case errors.Is(err, ErrNoKind):
			return errNoKind
		case errors.Is(err, ErrManyPaused):
			return &Refusal{Status: http.StatusConflict, Code: CodeConflict, Message: "Too many kinds are paused; resume some first"}
		case err != nil:
			return err
		}
		callOf(r).kind = kind
		paused, err := p.Paused(ctx)
		if err != nil {
			return err
		}
		now := Paused{Kind: kind}
		if i := slices.IndexFunc(paused, func(p Paused) bool { return p.Kind == kind }); i >= 0 {
			now.Since = paused[i].Since
		}
		return answer(w, http.StatusOK, now)
	}
}

var (
	errNoKind   = &Refusal{Status: http.StatusNotFound, Code: CodeNotFound, Message: "No such kind: none of its jobs is known here, and no worker runs it"}
	errNoWorker = &Refusal{Status: http.StatusNotFound, Code: CodeNotFound, Message: "No such worker, or not any more"}
)

var workerForm = jobs.Form(`^[A-Za-z0-9][A-Za-z0-9._:@-]{0,255}$`)

// worker answers a request about one worker.
func (c *scope) worker(do func(context.Context, string) error) httpd.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		id := r.PathValue("workerId")
		if !workerForm().MatchString(id) {
			return errNoWorker
		}
		if err := noBody(w, r); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
		defer cancel()
		if err := do(ctx, id); errors.Is(err, ErrNoWorker) {
			return errNoWorker
		} else if err != nil {
			return err
		}
		callOf(r).worker = id
		return answer(w, http.StatusOK, struct {
			ID string `json:"workerId"`
		}{id})
	}
}

func (c *scope) report(p Reporter) httpd.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if _, err := parameters(r); err != nil {
			return err
		}
		return c.server.shared.answer(w, r, func(ctx context.Context) (any, error) {
			sections, err := p.Report(ctx)
			if sections == nil {
				sections = []Section{}
			}
			for i := range sections {
				if sections[i].Rows == nil {
					sections[i].Rows = [][]string{}
				}
			}
			return struct {
				Sections []Section `json:"sections"`
			}{sections}, err
		})
	}
}
