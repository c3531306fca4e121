package dashboard

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/batchfleet/batchfleet/dashboard/markup"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

//go:embed templates/*.html
var templateFiles embed.FS

// templates are all pages. That they can be parsed is tested.
var templates = sync.OnceValue(func() *markup.Set {
	set, err := markup.Parse(templateFiles, "templates/*.html", words)
	if err != nil {
		panic(err)
	}
	set.Show = func(s string) string { return jobs.Clip(jobs.Visible(s), maxText, "…") }
	return set
})

// maxText is the longest text that a page shows at one place, in bytes.
const maxText = 64 << 10

// pageFunc finds out what a page shows.
type pageFunc func(v *visit) (*page, error)

// page is a page of the dashboard.
type page struct {
	Template string // its file
	Title    string
	Nav      string // the entry of the navigation
	Status   int    // 200 when 0
	Data     any    // for the template

	// For the frame around it.
	Visit  *visit
	Assets string // the path of all assets
	Path   string // of the page itself, with its query
	Notice string // what the visitor has just done
	Find   string // what was looked for
	Server string // its version
}

// page returns the handler of a page.
func (d *Dashboard) page(show pageFunc) httpd.Handler {
	return d.visited(func(v *visit) error {
		p, err := show(v)
		if err != nil {
			return err
		}
		return d.write(v, p)
	})
}

// visited returns a handler that knows its visitor. Who has no token that is good is sent to log in.
func (d *Dashboard) visited(handle func(*visit) error) httpd.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		secure(w.Header())
		if r.Method == http.MethodGet && isFromOtherSite(r) {
			return comeAgain(w, r)
		}
		v := &visit{caller: d.callerOf(r), w: w, r: r}
		err := v.open()
		if err == nil {
			err = handle(v)
		}
		if statusOf(err) == http.StatusUnauthorized && r.Method == http.MethodGet && r.Header.Get("X-Part") == "" {
			http.Redirect(w, r, "/login?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
			return nil
		}
		return err
	}
}

// secure sets the header of every page: nothing but what this server has may be loaded or run by it, and no other site may frame it.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
}

// write fills a page. With X-Part it is only its main part, for a page that is shown already.
func (d *Dashboard) write(v *visit, p *page) error {
	p.Visit, p.Assets, p.Path, p.Server = v, assets().path, v.r.URL.RequestURI(), d.Version
	p.Notice = notices[v.r.URL.Query().Get("notice")]
	v.w.Header().Add("Vary", "X-Part")
	return writeHTML(v.w, v.r, p)
}

func writeHTML(w http.ResponseWriter, r *http.Request, p *page) error {
	parts := []string{"head.html", p.Template, "foot.html"}
	if r.Header.Get("X-Part") == "main" {
		parts = parts[1:2]
	}
	var b bytes.Buffer
	for _, name := range parts {
		if err := templates().Execute(&b, name, p); err != nil {
			return err
		}
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(max(p.Status, http.StatusOK))
	_, _ = w.Write(b.Bytes()) // a visitor who has left needs no page
	return nil
}

// failure is what a page of an error shows.
type failure struct {
	Status  int
	Code    string
	Message string
	Login   bool // another token might help
}

// writeError shows an error as a page.
func (d *Dashboard) writeError(w http.ResponseWriter, r *http.Request, status int, err error) {
	secure(w.Header())
	f := failure{Status: status, Message: httpd.Sentence(err)}
	refused, ok := errors.AsType[*jobapi.Refusal](err)
	switch {
	case ok:
		f.Status, f.Code, f.Message = refused.Status, refused.Code, refused.Message
	case errors.Is(err, jobs.ErrUnavailable):
		f.Status = http.StatusServiceUnavailable
	case errors.Is(err, httpd.ErrNoRoute):
		f.Message = "There is no such page"
	case status == http.StatusInternalServerError:
		f.Message = "The dashboard has made a mistake; the log of the server says more"
	}
	f.Login = f.Status == http.StatusUnauthorized || f.Status == http.StatusForbidden
	p := &page{Template: "error.html", Title: http.StatusText(f.Status), Status: f.Status, Data: f, Visit: &visit{}, Assets: assets().path, Path: "/", Server: d.Version}
	if err := writeHTML(w, r, p); err != nil {
		d.Log.ErrorContext(r.Context(), "cannot show an error", "err", fmt.Errorf("show %d: %w", f.Status, err))
	}
}

// notices are what a visitor is told after a change, by their codes in a URL.
var notices = map[string]string{
	"canceled": "The job is canceled.", "canceling": "The job is asked to stop.", "retried": "The job is queued again.", "paused": "The kind is paused.", "resumed": "It goes on.",
	"draining": "The worker takes no more jobs.", "revoked": "The worker's tokens are no longer good.", "submitted": "The job is queued.", "started": "The operation has started.",
}
