package router

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/grid/access"
	"github.com/batchfleet/batchfleet/grid/client"
	"github.com/batchfleet/batchfleet/grid/door"
	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/wire"
)

// Router is a router. Set the exported fields, call Open, and then Serve.
type Router struct {
	ID      wire.GUID     // random when zero
	Leaders []string      // host:port, the same text for all routers and clients that choose by [client.Rendezvous]
	Token   string        // for the leaders, which must allow it all clients that the router lets in; empty for none
	Grace   time.Duration // how long the jobs of a lost leader wait for it: client.DefaultGrace when 0
	// Dial connects to a leader. Nil for plain TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Access has the rules of who may do what; nil to allow everything. A certificate counts if the listener has verified it, see
	// [access.OpenServerTLS]. [Router.Reload] reads the rules again.
	Access  *access.File
	Log     *slog.Logger
	Metrics *Metrics // nil for none

	MaxConns int // connections at once; 20 000 when 0
	MaxPerIP int // connections at once of one address; MaxConns when 0
	// Window is how many jobs of a connection may be unfinished, DefaultWindow when 0, and WindowBytes how many bytes their requests may
	// have together, 64 MiB when 0. A client that has more is told that the router is busy.
	Window      int
	WindowBytes int

	door     door.Door
	readers  sync.WaitGroup
	mu       sync.Mutex
	sessions map[*session]bool
}

// DefaultWindow is how many jobs of a connection may be unfinished, unless a router is told otherwise.
const DefaultWindow = 10_000

// ErrStopped means that the router has ended.
var ErrStopped = errors.New("the router has stopped")

// Open checks the settings and fills in defaults. The error has all that is wrong.
func (r *Router) Open() error {
	if r.ID.IsZero() {
		r.ID = wire.NewGUID()
	}
	r.MaxConns, r.Window = cmp.Or(r.MaxConns, 20_000), cmp.Or(r.Window, DefaultWindow)
	r.MaxPerIP = cmp.Or(r.MaxPerIP, r.MaxConns)
	r.door = door.Door{MaxConns: r.MaxConns, MaxPerIP: r.MaxPerIP, Log: r.Log}
	r.sessions = map[*session]bool{}
	if r.Metrics != nil {
		r.Metrics.watch(r)
	}
	_, err := client.New(r.config("any"))
	return err
}

// config returns the settings of the client that connects to the leaders in the name of a client.
func (r *Router) config(name string) client.Config {
	return client.Config{
		ClientID: name, Leaders: r.Leaders, Token: r.Token, Policy: client.Rendezvous, Grace: r.Grace, Dial: r.Dial, Log: r.Log,
		Window: r.Window, WindowBytes: r.WindowBytes,
	}
}

// Serve takes connections of clients until ctx ends or the listener fails. Then it closes the listener and all connections.
func (r *Router) Serve(ctx context.Context, listener net.Listener) error {
	sessions, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	err := r.door.Serve(ctx, listener, &r.readers, func(conn net.Conn) { r.serve(sessions, conn) })
	stop(ErrStopped)
	r.readers.Wait()
	return err
}

// maxUnacked is how many bytes of results a leader sends before they are acknowledged: 4 MiB, and the result that goes beyond.
const maxUnacked = 2 * wire.MaxFrame

// serve reads what a connection sends until it ends.
func (r *Router) serve(ctx context.Context, conn net.Conn) {
	s := &session{router: r, jobs: map[wire.GUID]*job{}, queries: make(chan struct{}, maxQueries)}
	s.Conn = link.New(conn, link.Options{MaxUnsent: link.MaxUnsent + len(r.Leaders)*maxUnacked, Written: s.written, Count: r.Metrics.frames})
	s.log = r.Log.With("remote", conn.RemoteAddr().String())
	stop := context.AfterFunc(ctx, func() {
		_ = s.Close() // what is queued is written
		s.Abort(ErrStopped)
	})
	defer stop()
	err := s.greet(conn)
	if err == nil {
		s.log.DebugContext(ctx, "a client has connected", "features", s.Features)
		err = s.run(ctx)
	}
	r.leave(s)
	r.Metrics.ended(err)
	switch {
	case err == nil || errors.Is(err, io.EOF) || errors.Is(err, ErrStopped) || ctx.Err() != nil:
		s.log.DebugContext(ctx, "a connection was closed")
	default:
		s.log.WarnContext(ctx, "a connection has ended", "err", err)
	}
	s.Abort(err)
}
