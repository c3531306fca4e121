package dashboard

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/batchfleet/batchfleet/httpd"
)

// Dashboard serves the pages. API and Log are required. It may be used concurrently.
type Dashboard struct {
	// API answers the routes of the Job API, those below /api/v1/.
	API http.Handler
	Log *slog.Logger
	// Admit, when set, may refuse a request first; see [httpd.SecureOnly].
	Admit func(*http.Request) error
	// Version is that of the program.
	Version string
	// Token, when set, is sent for visitors who have none. Only callers on this machine are admitted then, and nothing can be changed with it.
	Token string
}

// places are the first segments of the paths that the dashboard answers.
var places = map[string]bool{
	"": true, "jobs": true, "find": true, "new": true, "workers": true, "kinds": true, "failed": true, "system": true,
	"act": true, "bulk": true, "login": true, "logout": true, "assets": true, "favicon.ico": true,
}

// Beside returns a handler of the pages and of the Job API, which takes the token of the visitor's cookie, too. Other paths are for rest.
func (d *Dashboard) Beside(rest http.Handler) http.Handler {
	pages := d.pages()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		switch {
		case strings.HasPrefix(r.URL.Path, "/api/v1/"):
			d.withCookie(w, r)
		case places[first]:
			pages.ServeHTTP(w, r)
		default:
			rest.ServeHTTP(w, r)
		}
	})
}

func (d *Dashboard) pages() http.Handler {
	api := &httpd.API{Log: d.Log, WriteError: d.writeError, Admit: d.admit}
	for pattern, show := range map[string]pageFunc{
		"GET /{$}":               showNow,
		"GET /jobs":              showJobs,
		"GET /jobs/{scope}/{id}": showJob,
		"GET /new":               showNew,
		"GET /workers":           showWorkers,
		"GET /kinds":             showKinds,
		"GET /failed":            showFailed,
		"GET /system":            showSystem,
	} {
		api.Handle(pattern, d.page(show))
	}
	api.Handle("GET /find", d.visited(find))
	api.Handle("GET /jobs/{scope}/{id}/artifacts/{name}", d.visited(inline))
	api.Handle("POST /act", d.visited(d.act))
	api.Handle("POST /new", d.visited(d.submit))
	for _, method := range []string{"GET ", "POST "} {
		api.Handle(method+"/bulk", d.visited(d.bulk))
		api.Handle(method+"/failed/redrive", d.visited(only("redrive", d.redrive)))
		api.Handle(method+"/failed/purge", d.visited(only("purge", d.purge)))
	}
	api.Handle("GET /login", d.loginPage)
	api.Handle("POST /login", d.login)
	api.Handle("POST /logout", d.logout)
	api.Handle("GET /assets/{hash}/{name}", serveAsset)
	api.Handle("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) error { return writeAsset(w, "icon.svg") })
	return api
}

// admit refuses what the server does not admit, and changes that another site's page asks for.
func (d *Dashboard) admit(r *http.Request) error {
	if d.Admit != nil {
		if err := d.Admit(r); err != nil {
			return err
		}
	}
	if d.Token != "" {
		if err := httpd.SameMachine(r); err != nil && !isFromOtherSite(r) {
			return &httpd.StatusError{Status: http.StatusForbidden, Err: fmt.Errorf("this dashboard is for callers on the same machine: %w", err)}
		}
	}
	if err := crossOrigin.Check(r); err != nil {
		return &httpd.StatusError{Status: http.StatusForbidden, Err: errOtherOrigin}
	}
	return nil
}
