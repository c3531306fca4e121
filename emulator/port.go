package emulator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// A port passes each connection of one listener to the gRPC server or to the HTTP
// server, by its first bytes, and stops both.
type port struct {
	log       *slog.Logger
	grpc      *grpc.Server
	http      *http.Server
	toGRPC    *connListener
	toHTTP    *connListener
	servers   sync.WaitGroup // the two servers' Serve
	httpConns sync.WaitGroup // HTTP connections, each until its handler has returned
	// inflight counts the incomplete requests of all connections.
	inflight inflightBytes

	mu           sync.Mutex
	stopped      bool
	unrecognized map[net.Conn]struct{} // connections not yet recognized
	sniffers     sync.WaitGroup        // one for each of them
}

// newPort starts the two servers. stop ends them.
func newPort(ctx context.Context, log *slog.Logger, addr net.Addr, g *grpc.Server, h http.Handler) *port {
	p := &port{
		log:          log,
		grpc:         g,
		toGRPC:       newConnListener(addr),
		toHTTP:       newConnListener(addr),
		unrecognized: make(map[net.Conn]struct{}),
	}
	p.http = &http.Server{
		Handler:           p.counted(h),
		ReadHeaderTimeout: prefaceWait,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				p.httpConns.Done()
			}
		},
	}
	p.servers.Go(func() { p.report(ctx, "grpc", p.grpc.Serve(p.toGRPC)) })
	p.servers.Go(func() { p.report(ctx, "http", p.http.Serve(p.toHTTP)) })
	return p
}

// counted returns h with bodies that count as inflight until it returns.
func (p *port) counted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		share := inflightShare{total: &p.inflight}
		defer func() { _ = share.set(0) }()
		r.Body = &countedBody{r.Body, &share}
		h.ServeHTTP(w, r)
	})
}

// report logs why a server ended, unless it was stopped.
func (p *port) report(ctx context.Context, server string, err error) {
	if err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, http.ErrServerClosed) && ctx.Err() == nil {
		p.log.ErrorContext(ctx, "server ended", "server", server, "err", err)
	}
}

// accept takes connections from l until ctx ends, and returns nil then.
func (p *port) accept(ctx context.Context, l net.Listener) error {
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = conn.Close()
			}
			return nil
		}
		switch {
		case err == nil:
			p.handle(conn)
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept connection: %w", err)
		default: // too many open files, or a client that left already
			p.log.WarnContext(ctx, "cannot accept connection", "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
}

// handle recognizes conn in a goroutine of its own: the client may be slow.
func (p *port) handle(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		_ = conn.Close()
		return
	}
	p.unrecognized[conn] = struct{}{}
	p.sniffers.Go(func() {
		if !p.dispatch(conn) {
			_ = conn.Close()
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.unrecognized, conn)
	})
}

// dispatch passes conn to its server and reports whether that took it. A
// connection that closes without a byte is a health check, and not logged.
func (p *port) dispatch(conn net.Conn) bool {
	known, http2, err := recognize(conn)
	if err != nil {
		return false
	}
	if http2 {
		return p.toGRPC.put(newCountedConn(known, p.log, &p.inflight))
	}
	p.httpConns.Add(1)
	if !p.toHTTP.put(known) {
		p.httpConns.Done()
		return false
	}
	return true
}

// stop closes all connections and waits for everything that ran on them.
func (p *port) stop() {
	p.mu.Lock()
	p.stopped = true
	for conn := range p.unrecognized {
		_ = conn.Close() // its sniffer sees the error
	}
	p.mu.Unlock()
	_ = p.toGRPC.Close()
	_ = p.toHTTP.Close()
	p.sniffers.Wait()
	p.grpc.Stop()
	_ = p.http.Close()
	p.servers.Wait()
	p.httpConns.Wait()
}
