// Package redisdb is how this project uses Redis: which server, over a client with the
// right patience, and scripts. What is kept there, and under which keys, is the business
// of the packages above: status and gateway/queue.
package redisdb

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Options says which Redis to use: one server, the primary that Sentinels name, or
// a cluster. [ParseURL] reads them.
type Options struct {
	Host string // of one server
	Port int

	Addrs   []string // host:port of Sentinels, or of nodes of a cluster; Host and Port are not used then
	Primary string   // by which name the Sentinels know the primary; empty for a cluster

	DB       int // 0 in a cluster
	Username string
	Password string
	TLS      bool // also to the Sentinels
	Pool     int  // connections at most, to each node; 0 for the client's default of ten per CPU

	SentinelUsername string // of the Sentinels themselves; often none
	SentinelPassword string
}

// Cluster reports whether the keys are spread over several servers.
func (o Options) Cluster() bool { return len(o.Addrs) > 0 && o.Primary == "" }

// String says for people which Redis it is, without credentials.
func (o Options) String() string {
	switch {
	case o.Cluster():
		return "cluster " + strings.Join(o.Addrs, ",")
	case len(o.Addrs) > 0:
		return fmt.Sprintf("%s db %d, of Sentinels %s", o.Primary, o.DB, strings.Join(o.Addrs, ","))
	}
	return fmt.Sprintf("%s:%d db %d", o.Host, o.Port, o.DB)
}

const (
	// redisTimeout bounds each dial, write and read.
	redisTimeout = 3 * time.Second
	// findTimeout bounds a dial that first asks Sentinels. An unresponsive Sentinel is
	// given up after 4 × redisTimeout; a shorter limit would retry the same one every time.
	findTimeout = 15 * time.Second
)

// Connect returns a client for the Redis that o names. It does not wait for the
// server: the first command does.
//
// A command that fails is tried once more on a fresh connection, because the
// pooled one may be a leftover from before a restart or a failover. All further
// patience is the caller's, who knows what waiting costs.
func Connect(o Options) redis.UniversalClient {
	u := &redis.UniversalOptions{
		Addrs: o.Addrs, MasterName: o.Primary, DB: o.DB, Username: o.Username, Password: o.Password, PoolSize: o.Pool,
		SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
		MaxRetries: 1, MinRetryBackoff: -1, MaxRetryBackoff: -1, DialerRetries: 1,
		DialTimeout: redisTimeout, ReadTimeout: redisTimeout, WriteTimeout: redisTimeout,
		ContextTimeoutEnabled: true,
		DisableIdentity:       true, // two commands per connection that old servers refuse
		// A slow handshake for them, which nobody needs, keeps all other new connections waiting,
		// whatever their contexts say.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if o.TLS {
		u.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12} // the client adds the name of the host
	}
	switch {
	case o.Cluster():
		return redis.NewClusterClient(u.Cluster())
	case len(o.Addrs) > 0:
		u.Dialer, u.TLSConfig = dialer(u.TLSConfig), nil
		u.OnConnect, u.DialTimeout = isPrimary, findTimeout
		return redis.NewFailoverClient(u.Failover())
	}
	u.Addrs = []string{net.JoinHostPort(o.Host, strconv.Itoa(o.Port))}
	return redis.NewClient(u.Simple())
}

// dialer returns what dials within redisTimeout, however long the context is.
func dialer(conf *tls.Config) func(ctx context.Context, network, addr string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: redisTimeout}
	if conf == nil {
		return plain.DialContext
	}
	return (&tls.Dialer{NetDialer: plain, Config: conf}).DialContext
}

// isPrimary refuses a connection to a replica. A Sentinel that has been cut off names
// a primary of the past; what a replica answers may be old.
func isPrimary(ctx context.Context, conn *redis.Conn) error {
	role, err := conn.Do(ctx, "ROLE").Slice()
	switch {
	case errors.As(err, new(redis.Error)):
		return nil // it keeps its role to itself; a write shows it
	case err != nil:
		return err
	case len(role) > 0 && role[0] == "slave":
		return errReplica
	}
	return nil
}

// errReplica begins as what a replica says to a write, so that the client tries
// again and callers know what to do about it.
var errReplica = errors.New("READONLY the server that the Sentinels name is a replica")
