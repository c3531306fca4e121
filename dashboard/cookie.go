package dashboard

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
)

var (
	crossOrigin    = http.NewCrossOriginProtection()
	errOtherOrigin = errors.New("this change was asked for by a page of another site")
)

// cookieName returns the name of the cookie with the token. Cookies do not know ports: with the port in its name, several
// dashboards of one machine do not log each other out.
func cookieName(r *http.Request) string {
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil || strings.Trim(port, "0123456789") != "" {
		port = "web"
	}
	if isEncrypted(r) {
		return "__Host-batchfleet-" + port
	}
	return "batchfleet-" + port
}

// isEncrypted reports whether the visitor's browser speaks TLS. Who lies about it only keeps the own cookie from working.
func isEncrypted(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// tokenOf returns the token of a visitor's cookie; empty for none, for one that is none, and for the request of another site's page.
func tokenOf(r *http.Request) string {
	c, err := r.Cookie(cookieName(r))
	if err != nil || len(c.Value) > maxToken || !httpd.TokenChars(c.Value) || httpd.SameSite(r) != nil {
		return ""
	}
	return c.Value
}

// maxToken is the longest token that a cookie may have.
const maxToken = 512

// cookieLife is how long a visitor stays logged in, if the token is good for so long.
const cookieLife = 30 * 24 * time.Hour

func setCookie(w http.ResponseWriter, r *http.Request, token string, life time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r), Value: token, Path: "/", MaxAge: int(life / time.Second),
		HttpOnly: true, Secure: isEncrypted(r), SameSite: http.SameSiteStrictMode,
	})
}

// callerOf returns who asks: by the Authorization of the request itself, by the cookie, or by the dashboard's own token.
func (d *Dashboard) callerOf(r *http.Request) *caller {
	c := &caller{api: d.API, visitor: r}
	if r.Header.Get("Authorization") == "" {
		if c.token = tokenOf(r); c.token == "" && d.Token != "" {
			c.token, c.limited = d.Token, true
		}
	}
	return c
}

// withCookie passes a request on to the Job API, with the token of the visitor's cookie if it has none of its own. With
// the cookie, a change must come from a page of this server.
func (d *Dashboard) withCookie(w http.ResponseWriter, r *http.Request) {
	c := d.callerOf(r)
	if c.token != "" {
		r = r.Clone(r.Context())
		switch {
		case c.limited && (httpd.SameMachine(r) != nil || r.Method != http.MethodGet && r.Method != http.MethodHead):
		case crossOrigin.Check(r) != nil:
		default:
			c.authorize(r)
		}
		r.Header.Del("Cookie")
	}
	d.API.ServeHTTP(w, r)
}

// isFromOtherSite reports whether a page was opened from another site's page, by a link. Then the browser has kept back the
// cookie, and a guard of loopback refuses the visitor.
func isFromOtherSite(r *http.Request) bool {
	return httpd.SameSite(r) != nil && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// comeAgain makes the browser open the page again, from this site: it then sends the cookie.
func comeAgain(w http.ResponseWriter, r *http.Request) error {
	p := &page{Template: "again.html", Path: r.URL.RequestURI(), Visit: &visit{}}
	w.Header().Set("Refresh", "0")
	r.Header.Set("X-Part", "main") // without a frame
	return writeHTML(w, r, p)
}
