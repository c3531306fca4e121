package pubsub

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// reconnect is how often gRPC tries to reconnect. By default it waits longer each time,
// up to two minutes, and calls fail until it has tried again.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 500 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
	MinConnectTimeout: 10 * time.Second, // a SYN that is lost is sent again after 1, 3 and 7 s
}

// Options returns the client options for the emulator at host, or for
// Google's own Pub/Sub with the usual credentials when host is empty.
func Options(host string) ([]option.ClientOption, error) {
	opts := []option.ClientOption{
		// A dead network shows within 30 s instead of minutes: the leases of
		// running jobs depend on this one connection.
		option.WithGRPCDialOption(grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second})),
		option.WithGRPCConnectionPool(1),
		option.WithGRPCDialOption(grpc.WithConnectParams(reconnect)),
		// Fixed windows: to find good ones gRPC would ping the server for nearly every
		// reply. These let a pull bring 10 MB/s over a round trip of 100 ms.
		option.WithGRPCDialOption(grpc.WithStaticStreamWindowSize(1 << 20)),
		option.WithGRPCDialOption(grpc.WithStaticConnWindowSize(16 << 20)),
	}
	if host == "" {
		return opts, nil
	}
	if scheme, _, found := strings.Cut(host, "://"); found {
		return nil, fmt.Errorf("PUBSUB_EMULATOR_HOST is %q: give host:port without %q", host, scheme+"://")
	}
	if _, port, err := net.SplitHostPort(host); err != nil || port == "" {
		return nil, fmt.Errorf("PUBSUB_EMULATOR_HOST is %q: give host:port", host)
	}
	return append(opts,
		option.WithEndpoint(host),
		option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials()))), nil
}

// callTimeout bounds one call that carries no message.
const callTimeout = 5 * time.Second

// ErrNoCredentials means that there are no credentials for Google Cloud, and no emulator.
var ErrNoCredentials = errors.New("there are no credentials for Google Cloud: set GOOGLE_APPLICATION_CREDENTIALS to a file with a key or run `gcloud auth application-default login`; " +
	"for an emulator set PUBSUB_EMULATOR_HOST instead, as 127.0.0.1:8085")

// cannotOpen is the error for a client that could not be made, which is for lack of
// credentials as a rule.
func cannotOpen(err error) error {
	if strings.Contains(err.Error(), "could not find default credentials") {
		return fmt.Errorf("open pub/sub: %w", ErrNoCredentials)
	}
	return fmt.Errorf("open pub/sub: %w", err)
}
