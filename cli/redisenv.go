package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
)

// RedisEnv says which Redis to use: REDIS_URL alone, or the variables of one server.
// The password and its user may be beside the URL, because secrets are kept apart.
type RedisEnv struct {
	URL      string `envconfig:"REDIS_URL" doc:"redis://, redis+sentinel:// or redis+cluster://, with rediss for TLS; see docs/deploy.md"`
	Host     string `envconfig:"REDIS_HOST" doc:"without REDIS_URL: one server, Redis 6.2 or newer; localhost when empty"`
	Port     *int   `envconfig:"REDIS_PORT" range:"1,65535" doc:"6379 when empty"`
	DB       *int   `envconfig:"REDIS_DB" range:"0,1048576" doc:"0 when empty"`
	Username string `envconfig:"REDIS_USERNAME" doc:"may be beside REDIS_URL, as may the password"`
	Password string `envconfig:"REDIS_PASSWORD" doc:"for that user"`
	TLS      *bool  `envconfig:"REDIS_TLS" doc:"false when empty"`
}

// Check returns what is wrong with the values. It quotes neither the URL nor the
// host, which may be a URL with a password.
func (e *RedisEnv) Check() (wrong []error) {
	wrong = settings.Limits(e)
	if strings.ContainsAny(e.Host, "/@ ") || strings.Count(e.Host, ":") == 1 { // several are of IPv6
		wrong = append(wrong, errors.New("REDIS_HOST is not a host name or address alone; give a whole address as REDIS_URL, port and password have variables of their own"))
	}
	if e.URL == "" {
		return wrong
	}
	o, err := redisdb.ParseURL(e.URL)
	if err != nil {
		return append(wrong, fmt.Errorf("REDIS_URL: %w", err))
	}
	contradicts := func(variable string, does bool) {
		if does {
			wrong = append(wrong, fmt.Errorf("%s contradicts REDIS_URL: leave one of the two out", variable))
		}
	}
	one := len(o.Addrs) == 0
	contradicts("REDIS_HOST", e.Host != "" && (!one || e.Host != o.Host))
	contradicts("REDIS_PORT", e.Port != nil && (!one || *e.Port != o.Port))
	contradicts("REDIS_DB", e.DB != nil && *e.DB != o.DB)
	contradicts("REDIS_USERNAME", e.Username != "" && o.Username != "" && e.Username != o.Username)
	contradicts("REDIS_PASSWORD", e.Password != "" && o.Password != "" && e.Password != o.Password)
	contradicts("REDIS_TLS", e.TLS != nil && *e.TLS != o.TLS)
	return wrong
}

// options returns which Redis it is; the values have been checked.
func (e *RedisEnv) options() redisdb.Options {
	if e.URL != "" {
		o, _ := redisdb.ParseURL(e.URL)
		return e.login(o)
	}
	return e.login(redisdb.Options{
		Host: cmp.Or(e.Host, "localhost"), Port: *cmp.Or(e.Port, new(6379)), DB: *cmp.Or(e.DB, new(0)), TLS: *cmp.Or(e.TLS, new(false)),
	})
}

// login adds user and password to an address that has none of its own.
func (e *RedisEnv) login(o redisdb.Options) redisdb.Options {
	o.Username, o.Password = cmp.Or(o.Username, e.Username), cmp.Or(o.Password, e.Password)
	return o
}

// variable names what says which Redis it is.
func (e *RedisEnv) variable() string {
	if e.URL != "" {
		return "REDIS_URL"
	}
	return "REDIS_HOST"
}

// errClusterGateway says that a gateway cannot work with what REDIS_URL or SOURCE names.
var errClusterGateway = errors.New("it names a cluster, whose nodes each have a part of the keys: a gateway needs one server, with replicas and Sentinels if you like")

// checkOne returns an error if the URL names a cluster.
func (e *RedisEnv) checkOne() error {
	if o, err := redisdb.ParseURL(e.URL); err == nil && o.Cluster() {
		return fmt.Errorf("REDIS_URL: %w", errClusterGateway)
	}
	return nil
}

// openRedis returns a client of the environment's Redis. Nothing is sent yet.
func (e *RedisEnv) openRedis(pool int) redis.UniversalClient { return openRedis(e.options(), pool) }

// reach returns an error if the environment's Redis, which rdb is a client of, does not answer.
func (e *RedisEnv) reach(ctx context.Context, rdb redis.UniversalClient) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := rdb.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("reach redis at %s: %w: %w", e.options(), jobs.ErrUnavailable, err)
	}
	return nil
}

func openRedis(o redisdb.Options, pool int) redis.UniversalClient {
	logging.Disable() // it would write to stderr; what goes wrong is in the errors of its calls
	o.Pool = pool
	return redisdb.Connect(o)
}
