// Package clienttest runs Google's own clients of Pub/Sub, unchanged, against
// the server of package emulator: Go's over gRPC and REST, Python's, also below Celery, and Node's.
// It sees the server only from outside.
//
// Those for Python and Node are installed by setup.sh.
package clienttest

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"
	pubsubapi "cloud.google.com/go/pubsub/v2/apiv1"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/batchfleet/batchfleet/emulator"
	"github.com/batchfleet/batchfleet/internal/testnet"
)

// A rig is a running server and the address it always has.
type rig struct {
	*emulator.Server
	addr string
	stop func() // ends serving and waits for it
}

// start runs a server on a free port until the test ends.
func start(t *testing.T) *rig {
	t.Helper()
	r := &rig{Server: emulator.New(emulator.Config{Log: slog.New(slog.DiscardHandler)}), addr: "127.0.0.1:0"}
	r.serve(t)
	return r
}

// serve serves on r.addr, whose port is 0 the first time.
func (r *rig) serve(t *testing.T) {
	t.Helper()
	r.addr, r.stop = testnet.Serve(t, r.addr, r.Serve)
}

// restart ends all connections and serves again at the same address.
func (r *rig) restart(t *testing.T) {
	t.Helper()
	r.stop()
	r.serve(t)
}

// overGRPC are what points Google's clients to the server.
func (r *rig) overGRPC() []option.ClientOption {
	return []option.ClientOption{
		option.WithEndpoint(r.addr),
		option.WithoutAuthentication(),
		option.WithTelemetryDisabled(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
	}
}

// dial returns a plain connection, without the retries of Google's clients.
func (r *rig) dial(t *testing.T) *grpc.ClientConn {
	t.Helper()
	conn := r.connectGRPC(t)
	t.Cleanup(func() { closeIt(t, conn) })
	return conn
}

// connectGRPC is dial for a caller that closes the connection.
func (r *rig) connectGRPC(t *testing.T) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(r.addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// admin returns Google's low-level clients for topics and subscriptions.
func (r *rig) admin(t *testing.T) (*pubsubapi.TopicAdminClient, *pubsubapi.SubscriptionAdminClient) {
	t.Helper()
	topics, err := pubsubapi.NewTopicAdminClient(t.Context(), r.overGRPC()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeIt(t, topics) })
	subs, err := pubsubapi.NewSubscriptionAdminClient(t.Context(), r.overGRPC()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeIt(t, subs) })
	return topics, subs
}

// client returns Google's high-level client.
func (r *rig) client(t *testing.T) *pubsub.Client {
	t.Helper()
	c, err := pubsub.NewClient(t.Context(), "test", r.overGRPC()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeIt(t, c) })
	return c
}

// soon is a context that keeps a broken test from hanging.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// must fails the test unless err is nil, and returns v.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// wantError wants a code, and a text that contains says, in upper or lower case.
func wantError(t *testing.T, err error, code codes.Code, says string) {
	t.Helper()
	if status.Code(err) != code {
		t.Errorf("error %v, want code %v", err, code)
	} else if err != nil && !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(says)) {
		t.Errorf("error %v does not say %q", err, says)
	}
}

// http makes a request and returns the status and the body of the answer.
func (r *rig) http(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(soon(t), method, "http://"+r.addr+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer closeIt(t, resp.Body)
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp.StatusCode, string(text)
}

func closeIt(t *testing.T, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}
