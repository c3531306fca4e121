package emulator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// Config is what a Server needs.
type Config struct {
	// Log receives failures of connections and of the journal. It must not be nil.
	Log *slog.Logger
}

// A Server is a Pub/Sub server. Its methods may be called concurrently.
type Server struct {
	log    *slog.Logger
	broker *broker
	faults faults
}

// New returns a server without topics or subscriptions.
func New(cfg Config) *Server {
	return &Server{log: cfg.Log, broker: newBroker()}
}

// EnsureTopic creates the topic unless it exists. name is the full resource
// name, projects/{project}/topics/{topic}; an invalid one is an error.
func (s *Server) EnsureTopic(name string) error {
	pb := &pubsubpb.Topic{Name: name}
	err := setTopicDefaults(pb)
	if err == nil {
		err = s.broker.createTopic(pb)
	}
	if err != nil && status.Code(err) != codes.AlreadyExists {
		return fmt.Errorf("create topic: %w", err)
	}
	return nil
}

// EnsureSubscription creates the subscription, and its topic if it is missing, unless
// it exists; one that exists keeps its ack deadline, which is in whole seconds.
// It is an error if it exists on another topic.
func (s *Server) EnsureSubscription(name, topic string, ackDeadline time.Duration) error {
	if err := s.EnsureTopic(topic); err != nil {
		return err
	}
	pb := &pubsubpb.Subscription{
		Name:               name,
		Topic:              topic,
		ExpirationPolicy:   &pubsubpb.ExpirationPolicy{},                     // never expires: the caller relies on it
		AckDeadlineSeconds: int32(min(ackDeadline, time.Hour) / time.Second), // an hour is refused, and fits
	}
	err := setSubscriptionDefaults(pb)
	if err == nil {
		err = s.broker.createSubscription(pb)
	}
	if status.Code(err) == codes.AlreadyExists {
		if is, err := s.broker.subscriptionFor(name); err == nil && is.pb.GetTopic() != topic {
			return fmt.Errorf("create subscription %s: it exists on topic %s, not %s", name, is.pb.GetTopic(), topic)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("create subscription: %w", err)
	}
	return nil
}

// Serve answers gRPC and HTTP/1 on l until ctx ends, then closes all connections
// and returns nil once all its goroutines have ended. It closes l. The error is
// that of a listener that failed.
//
// The server's state outlives Serve: to clients, serving again on another listener
// is the same server after a pause.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var receivers sync.WaitGroup
	services := []any{publisher{s.broker}, subscriber{s.broker, &receivers}, schemas{s.broker}}
	p := newPort(ctx, s.log, l.Addr(), s.grpcServer(services), s.handler(services))

	var running sync.WaitGroup
	running.Go(func() { s.checkpointLoop(ctx) })
	running.Go(func() { s.broker.load.trim(ctx) })
	running.Go(func() {
		<-ctx.Done()
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			s.log.WarnContext(ctx, "cannot close listener", "err", err)
		}
		p.stop()
	})
	err := p.accept(ctx, l)
	cancel()
	running.Wait()
	receivers.Wait()
	return err
}

// grpcServer returns a server for services, one for each of serviceDescs.
func (s *Server) grpcServer(services []any) *grpc.Server {
	srv := grpc.NewServer(append(ServerOptions(),
		grpc.UnaryInterceptor(s.unary),
		grpc.StreamInterceptor(s.faults.stream))...)
	for i, desc := range serviceDescs {
		srv.RegisterService(desc, services[i])
	}
	return srv
}

// unary answers calls that change something once the change would survive the end
// of the machine; pulls, acks and extensions wait for less, by themselves. While
// nothing can be recorded it refuses them all, so that the records that wait to be
// written stay bounded.
func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	reads, lasts := false, true
	switch method := path.Base(info.FullMethod); method {
	case "Pull", "Acknowledge", "ModifyAckDeadline", "ModifyPushConfig", "ValidateSchema", "ValidateMessage":
		lasts = false
	default:
		reads = strings.HasPrefix(method, "Get") || strings.HasPrefix(method, "List")
	}
	if err := s.broker.log.err(); err != nil && !reads {
		return nil, err
	}
	if do := handler; lasts && !reads {
		handler = func(ctx context.Context, req any) (any, error) {
			resp, err := do(ctx, req)
			if err == nil {
				err = s.broker.commit(ctx)
			}
			return resp, err
		}
	}
	return s.faults.unary(ctx, req, info, handler)
}

// ServerOptions are the options of the gRPC server, for programs that measure
// what the server costs beyond gRPC itself.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.MaxConcurrentStreams(10_000),
		// Of one call. gRPC's own limit is 16 MB, for each of all those calls.
		grpc.MaxHeaderListSize(16 << 10),
		// Fixed windows: to find good ones gRPC would ping the client back for
		// nearly every request, a tenth of what a small call costs on loopback.
		grpc.StaticStreamWindowSize(1 << 20),
		grpc.StaticConnWindowSize(16 << 20),
		grpc.ConnectionTimeout(prefaceWait),
		grpc.WaitForHandlers(true),
		// Google's clients ping every few minutes, with or without open calls;
		// others ping more often, which costs a local server little.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	}
}

// handler returns what is served over HTTP/1.
func (s *Server) handler(services []any) http.Handler {
	api := newRest(services, s.unary)
	metrics := metricsHandler(s.Stats)
	// Not a ServeMux: it would clean the path, and names may hold escapes.
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		why := crossOriginReason(r)
		switch path := r.URL.Path; {
		case path == "/healthz":
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write([]byte("ok\n"))
		case why != "":
			writeError(w, status.Error(codes.PermissionDenied, why))
		case path == "/stats":
			s.serveStats(w)
		case path == "/metrics":
			metrics.ServeHTTP(w, r)
		default:
			api.ServeHTTP(w, r)
		}
	})
}
