package httpd

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
)

const (
	// grace is how long requests in hand may take once the server stops: less than the
	// 10 s that Docker and Cloud Run give a process to end.
	grace = 8 * time.Second
	// cancelGrace is how long handlers have to answer once their context was canceled.
	// Then their connections are closed.
	cancelGrace = time.Second
)

// errStopped is the cause of a request's context that ended because the server
// stopped, not because the client went away.
var errStopped = errors.New("the server is stopping")

// Server serves Handler on a listener. Log and Handler are required; a zero
// number stands for the default named beside it.
type Server struct {
	Handler http.Handler
	Log     *slog.Logger

	// ReadTimeout bounds the arrival of a request with its body: 1 min. A
	// handler that reads for longer moves its own deadline with
	// [http.ResponseController].
	ReadTimeout time.Duration
	// WriteTimeout bounds a request from the end of its header to the last byte
	// of its response: 2 min. It must be longer than the longest poll; a handler
	// that sends a large file moves its own deadline as it goes.
	WriteTimeout time.Duration
	// MaxConns bounds the open connections, idle ones included: 4096, or fewer
	// where the process may not open so many files, with a warning when those are all
	// open. More wait in the system's queue until one closes.
	MaxConns int

	// CertFile and KeyFile hold a certificate chain and its key in PEM; with
	// them the server speaks TLS 1.2 or later. They are read again when either
	// file has changed, at most every 10 s; while the new ones cannot be used
	// the old ones stay.
	CertFile, KeyFile string
}

// Serve answers requests on l until ctx ends, then lets those in hand finish
// and returns nil. It closes l, and returns an error at once when the listener
// fails or the certificate cannot be used.
//
// A request's context does not end with ctx, so that work in hand is finished;
// [Stopping] tells a handler that only waits. It ends after 8 s, and the connection is
// closed a second later.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	base, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	srv := &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       cmp.Or(s.ReadTimeout, time.Minute),
		WriteTimeout:      cmp.Or(s.WriteTimeout, 2*time.Minute),
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn),
		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(base, stoppingKey{}, ctx.Done())
		},
		// OPTIONS * is answered by net/http otherwise, past the API.
		DisableGeneralOptionsHandler: true,
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { stopped <- s.shutdown(context.WithoutCancel(ctx), srv, cut) })
	err := s.listen(srv, s.limit(l, openFiles()))
	if stop() {
		return errors.Join(fmt.Errorf("serve http on %s: %w", l.Addr(), err), srv.Close())
	}
	if err := <-stopped; err != nil {
		return fmt.Errorf("stop http on %s: %w", l.Addr(), err)
	}
	return nil
}

// sparedFiles is how many open files of the process's limit are not for connections
// of this server. Without them handlers could do nothing, and health checks would be
// refused.
const sparedFiles = 256

// limit bounds the connections of l, in a process that may have files files open. That those
// are few is said when it keeps somebody waiting: most servers need not serve so many.
func (s *Server) limit(l net.Listener, files int) net.Listener {
	most := cmp.Or(s.MaxConns, 4096)
	allowed := max(files-sparedFiles, min(most, 64))
	if allowed >= most {
		return netutil.LimitListener(l, most)
	}
	full := func() {
		s.Log.Warn("as many connections are open as files allow: more wait until one closes", "connections", allowed, "files", files,
			"do", fmt.Sprintf("raise the limit of open files (ulimit -n, LimitNOFILE of systemd, --ulimit nofile of docker), to %d at the most", most+sparedFiles))
	}
	return netutil.LimitListener(&fullListener{Listener: l, most: int64(allowed), full: full}, allowed)
}

func (s *Server) listen(srv *http.Server, l net.Listener) error {
	if s.CertFile == "" && s.KeyFile == "" {
		return srv.Serve(l)
	}
	files, err := OpenCertFiles(s.CertFile, s.KeyFile, s.Log)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	srv.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: files.Get}
	return srv.ServeTLS(l, "", "")
}

func (s *Server) shutdown(ctx context.Context, srv *http.Server, cut context.CancelCauseFunc) error {
	first, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	err := srv.Shutdown(first)
	if errors.Is(err, context.DeadlineExceeded) {
		cut(errStopped)
		last, cancel := context.WithTimeout(ctx, cancelGrace)
		defer cancel()
		err = srv.Shutdown(last)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = srv.Close()
	}
	return err
}

// serve passes a request to the Handler. net/http hides whether a body in chunks also
// had a Content-Length, by which a proxy before us may have read it. By RFC 9112, 6.1
// the connection must then be closed: what is left on it would become a request that
// the proxy never saw.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if len(r.TransferEncoding) > 0 {
		w.Header().Set("Connection", "close")
	}
	s.Handler.ServeHTTP(w, r)
}

type stoppingKey struct{}

// Stopping returns a channel that closes when the server of a request's context
// begins to stop. A handler that waits for a change selects on it and answers with
// what it has; the context itself lasts for 8 s more. Elsewhere the channel is nil,
// which never closes.
func Stopping(ctx context.Context) <-chan struct{} {
	c, _ := ctx.Value(stoppingKey{}).(<-chan struct{})
	return c
}
