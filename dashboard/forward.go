package dashboard

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobapi"
)

// Forward is a Job API elsewhere: it sends requests on to the server at base. That server judges the visitor's token. One that is open to
// its own machine without tokens takes requests of visitors who are on this machine, and of no others. Requests of other sites' pages are refused here.
func Forward(base *url.URL, transport http.RoundTripper, log *slog.Logger) http.Handler {
	proxy := &httputil.ReverseProxy{
		Transport: transport, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(base)
			here := httpd.SameMachine(p.In) == nil
			for name := range p.Out.Header {
				if name == "Cookie" || name == "Origin" || name == "Forwarded" || name == "Via" || strings.HasPrefix(name, "X-Forwarded-") || strings.HasPrefix(name, "Sec-Fetch-") {
					p.Out.Header.Del(name)
				}
			}
			if !here {
				peer, _, _ := net.SplitHostPort(p.In.RemoteAddr)
				p.Out.Header.Set("X-Forwarded-For", peer)
				p.Out.Header.Set("X-Forwarded-Proto", "https") // others are not admitted
			}
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				log.WarnContext(r.Context(), "the server of the Job API cannot be reached", "server", base.Host, "err", err)
			}
			writeRefusal(w, http.StatusServiceUnavailable, jobapi.CodeUnavailable, "The server of the Job API, "+base.Host+", cannot be reached; try again later")
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if httpd.SameSite(r) != nil {
			writeRefusal(w, http.StatusForbidden, jobapi.CodeForbidden, "This request came from another site's page")
			return
		}
		conn := http.NewResponseController(w)
		if r.Body != nil && r.Body != http.NoBody {
			r = r.Clone(r.Context())
			r.Body = &pacedBody{r.Body, conn}
		}
		proxy.ServeHTTP(&pacedWriter{w, conn}, r)
	})
}

func writeRefusal(w http.ResponseWriter, status int, code, message string) {
	body, err := httpd.EncodeJSON(map[string]jobapi.Error{"error": {Code: code, Message: message}})
	if err == nil {
		httpd.WriteJSON(w, status, body)
	}
}

// pace is how long the next part of a body may take.
const pace = time.Minute

// pacedBody gives each part of a request's body a deadline of its own, however long it is.
type pacedBody struct {
	io.ReadCloser
	conn *http.ResponseController
}

// Read implements [io.Reader].
func (b *pacedBody) Read(p []byte) (int, error) {
	if err := b.conn.SetReadDeadline(time.Now().Add(pace)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return b.ReadCloser.Read(p)
}

// pacedWriter does so for a response, which may be a stream of events.
type pacedWriter struct {
	http.ResponseWriter
	conn *http.ResponseController
}

// Write implements [io.Writer].
func (w *pacedWriter) Write(p []byte) (int, error) {
	if err := w.conn.SetWriteDeadline(time.Now().Add(pace)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap is for [http.ResponseController].
func (w *pacedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
