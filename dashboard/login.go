package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
)

// loginForm is what the page of the login shows.
type loginForm struct {
	Next  string
	Wrong string // with the token that was given
}

func (d *Dashboard) loginPage(w http.ResponseWriter, r *http.Request) error {
	secure(w.Header())
	return d.showLogin(w, r, http.StatusOK, loginForm{Next: localPath(r.URL.Query().Get("next"))})
}

func (d *Dashboard) showLogin(w http.ResponseWriter, r *http.Request, status int, f loginForm) error {
	p := &page{Template: "login.html", Title: "Log in", Status: status, Data: f}
	return d.write(&visit{caller: d.callerOf(r), w: w, r: r}, p)
}

// maxForm bounds a form without a file, in bytes.
const maxForm = 512 << 10

// login checks a token and keeps it in a cookie.
func (d *Dashboard) login(w http.ResponseWriter, r *http.Request) error {
	secure(w.Header())
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return &httpd.StatusError{Status: http.StatusBadRequest, Err: err}
	}
	f := loginForm{Next: localPath(r.PostForm.Get("next"))}
	token := strings.TrimSpace(r.PostForm.Get("token"))
	if len(token) > maxToken || !httpd.TokenChars(token) {
		f.Wrong = "This is no token: it has letters, digits and . _ ~ + / = - only."
		return d.showLogin(w, r, http.StatusBadRequest, f)
	}
	v := &visit{caller: &caller{api: d.API, visitor: r, token: token}, w: w, r: r}
	switch err := v.get("whoami", nil, &v.Who); {
	case statusOf(err) == http.StatusUnauthorized:
		f.Wrong, _ = refusedField(err)
		return d.showLogin(w, r, http.StatusUnauthorized, f)
	case err != nil:
		return err
	}
	life := cookieLife
	if end := v.Who.Expires; !end.IsZero() {
		life = min(life, time.Until(end.Time))
	}
	setCookie(w, r, token, life)
	http.Redirect(w, r, f.Next, http.StatusSeeOther)
	return nil
}

// logout takes the cookie away.
func (d *Dashboard) logout(w http.ResponseWriter, r *http.Request) error {
	secure(w.Header())
	setCookie(w, r, "", -time.Second)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
	return nil
}

// localPath returns a path of this server, with its query; / for anything else, which could be another site.
func localPath(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(s, "/") || strings.HasPrefix(s, "//") || strings.ContainsAny(s, "\\\r\n\t") {
		return "/"
	}
	return u.RequestURI()
}
