package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/grid/access"
	"github.com/batchfleet/batchfleet/grid/client"
	"github.com/batchfleet/batchfleet/grid/door"
	"github.com/batchfleet/batchfleet/grid/wire"
)

// features of a router. Welcome lists those that the client has as well.
var features = []string{
	wire.FeaturePing, wire.FeatureError, wire.FeatureCancel, wire.FeatureSubmitAck, wire.FeatureResultAck, wire.FeatureQuery, wire.FeatureArray, wire.FeatureOwn,
}

const (
	maxIgnored   = 10_000           // frames that a router ignores before it closes the connection
	maxQueries   = 64               // at once
	queryTimeout = 10 * time.Second // less than the client waits for any frame
)

// session is a connection of a client, and its client at the leaders.
type session struct {
	door.Peer
	router    *Router
	principal access.Principal
	multi     *client.Multi
	log       *slog.Logger
	beside    sync.WaitGroup // goroutines beside the reader
	queries   chan struct{}  // holds a token for each query under way
	ignored   int            // frames; used by the reader

	mu   sync.Mutex
	jobs map[wire.GUID]*job // those that have not ended
}

// greet reads the hello of a connection.
func (s *session) greet(conn net.Conn) error {
	f, err := s.Receive()
	if err != nil {
		return err
	}
	switch f.Type {
	case wire.HelloClient:
		return s.greetClient(f, conn)
	case wire.HelloWorker:
		c, err := wire.ReadCapability(f.Payload)
		if err != nil {
			return s.Refuse(wire.CodeProtocol, err)
		}
		s.Features = c.Features
		return s.Refuse(wire.CodeProtocol, errors.New("this is a router, not a leader: connect the worker to a leader"))
	default:
		return fmt.Errorf("%w: %s before a hello", wire.ErrFrame, f.Type)
	}
}

func (s *session) greetClient(f wire.Frame, conn net.Conn) error {
	c, err := wire.ReadConfig(f.Subject, f.Payload)
	s.Features = c.Features
	if err != nil {
		return s.Refuse(wire.CodeProtocol, err)
	}
	s.Name = c.ClientID
	s.log = s.log.With("client", s.Name)
	limit, err := s.router.enter(s, c.Token, access.PeerCertificate(conn), c.DesiredParallelism)
	if err != nil {
		return s.Refuse(wire.CodeForbidden, err)
	}
	config := s.router.config(s.Name)
	config.Desired, config.OnResult, config.Own, config.Log = limit, s.result, s.Has(wire.FeatureOwn), s.log
	if s.multi, err = client.New(config); err != nil {
		return err
	}
	// Durable is left out: the leaders may differ.
	return s.Welcome(wire.WelcomeInfo{Proto: 2, LeaderID: s.router.ID, Features: features})
}

// run serves a client until its connection or ctx ends.
func (s *session) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer s.beside.Wait()
	defer stop()
	s.beside.Go(func() {
		if err := s.multi.Run(ctx); err != nil {
			s.log.WarnContext(ctx, "all leaders refuse a client", "err", err)
			s.Abort(s.Refuse(wire.CodeForbidden, errors.New("the leaders of this router refuse this client: see the router's log")))
		}
	})
	reading, stopReading := context.WithCancel(ctx)
	defer stopReading()
	s.beside.Go(func() {
		select {
		case <-s.Done():
			stopReading() // the reader may wait for the window
		case <-reading.Done():
		}
	})
	for {
		f, err := s.Receive()
		if err == nil {
			err = s.take(reading, f)
		}
		if err != nil {
			s.Abort(err)
			s.handOver(ctx)
			return err
		}
	}
}

// take processes a frame of the client. The error ends the connection.
func (s *session) take(ctx context.Context, f wire.Frame) error {
	switch f.Type {
	case wire.SubmitJob:
		return s.submit(ctx, f)
	case wire.ResultAck:
		ids, err := wire.GUIDs(f.Payload)
		if err != nil {
			return err
		}
		s.multi.Acknowledge(ids...)
	case wire.Cancel:
		if err := s.multi.Cancel(ctx, f.CorrID); err != nil {
			s.log.DebugContext(ctx, "a job is not canceled", "job", f.CorrID, "err", err)
		}
	case wire.Query:
		return s.query(ctx, f.CorrID)
	default:
		if s.ignored++; s.ignored > maxIgnored {
			return s.Refuse(wire.CodeProtocol, fmt.Errorf("%d frames that a router does not process, the last one %s", s.ignored, f.Type))
		}
	}
	return nil
}

// query asks the leaders for the state of a job, and sends Status.
func (s *session) query(ctx context.Context, id wire.GUID) error {
	select {
	case s.queries <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.beside.Go(func() {
		defer func() { <-s.queries }()
		ctx, cancel := context.WithTimeout(ctx, queryTimeout)
		defer cancel()
		info, err := s.multi.Query(ctx, id)
		if err != nil {
			info = wire.StatusInfo{JobID: id, State: client.Unknown, Why: "the leaders of the router have not answered: " + err.Error()}
		}
		text, err := json.Marshal(info)
		if err != nil || !s.Has(wire.FeatureQuery) {
			return // the client does not know Status; texts can always be encoded
		}
		_ = s.Send(wire.Frame{Type: wire.Status, MsgID: wire.NewGUID(), CorrID: id, Payload: text})
	})
	return nil
}
