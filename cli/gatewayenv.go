package cli

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/gateway/queue"
)

// GatewayEnv is what a gateway needs beside its flags.
type GatewayEnv struct {
	RedisEnv
	JobAPIEnv
	FleetEnv
	LeaseTTL   settings.Seconds `envconfig:"LEASE_TTL" default:"600s"`
	LegacyTTL  settings.Seconds `envconfig:"LEASE_TTL_LEGACY"`          // for workers that send no heartbeats; JOB_TIMEOUT when empty
	JobTimeout settings.Seconds `envconfig:"JOB_TIMEOUT" default:"24h"` // from a job's first lease
	ResultTTL  settings.Seconds `envconfig:"RESULT_TTL" default:"168h"`
	TokenTTL   settings.Seconds `envconfig:"TOKEN_TTL" default:"168h"`
	MaxRetries int              `envconfig:"MAX_RETRIES" default:"3"` // how often a job runs again
	MaxQueued  int              `envconfig:"MAX_QUEUED" default:"5000000"`
	MaxLeases  int              `envconfig:"MAX_LEASES_PER_WORKER" default:"64"`
	Reap       settings.Seconds `envconfig:"REAP_INTERVAL" default:"30s"`
	Skew       settings.Seconds `envconfig:"LEASE_SKEW" default:"5s"` // how long after its end a lease is taken back
}

// Check returns what is wrong with the values.
func (e *GatewayEnv) Check() []error {
	wrong := []error{
		settings.Span("LEASE_TTL", e.LeaseTTL, settings.Second, settings.Day),
		settings.Span("JOB_TIMEOUT", e.JobTimeout, settings.Second, 30*settings.Day),
		settings.Span("RESULT_TTL", e.ResultTTL, 60*settings.Second, 366*settings.Day),
		settings.Span("TOKEN_TTL", e.TokenTTL, 60*settings.Second, 366*settings.Day),
		settings.Within("MAX_RETRIES", int64(e.MaxRetries), 0, 100),
		settings.Within("MAX_QUEUED", int64(e.MaxQueued), 1, 100_000_000),
		settings.Within("MAX_LEASES_PER_WORKER", int64(e.MaxLeases), 1, 1000),
		settings.Span("REAP_INTERVAL", e.Reap, settings.Second/10, 3600*settings.Second),
		settings.Span("LEASE_SKEW", e.Skew, 0, 3600*settings.Second),
		settings.LogLevel(),
		e.checkOne(),
	}
	if e.LegacyTTL != 0 {
		wrong = append(wrong, settings.Span("LEASE_TTL_LEGACY", e.LegacyTTL, settings.Second, 30*settings.Day))
	}
	longest := max(e.LeaseTTL.D(), cmp.Or(e.LegacyTTL, e.JobTimeout).D(), queue.RetryDelay(e.MaxRetries))
	if e.ResultTTL.D() < longest {
		wrong = append(wrong, fmt.Errorf("RESULT_TTL is %s: must not be shorter than a lease or the wait before a re-run, which are up to %s, or a job would be forgotten meanwhile", e.ResultTTL.D(), longest))
	}
	if e.Skew*3 > e.LeaseTTL*2 {
		wrong = append(wrong, errors.New("LEASE_SKEW must not be longer than two thirds of LEASE_TTL"))
	}
	return settings.Compact(e.RedisEnv.Check(), e.JobAPIEnv.Check(), e.FleetEnv.Check(), wrong)
}

func (e *GatewayEnv) rules() queue.Rules {
	r := queue.DefaultRules
	r.LeaseTTL, r.LegacyTTL, r.JobTimeout, r.ResultTTL = e.LeaseTTL.D(), e.LegacyTTL.D(), e.JobTimeout.D(), e.ResultTTL.D()
	r.TokenTTL, r.MaxRetries, r.MaxQueued, r.MaxLeases, r.Skew = e.TokenTTL.D(), e.MaxRetries, e.MaxQueued, e.MaxLeases, e.Skew.D()
	r.LateTTL = min(24*time.Hour, e.ResultTTL.D())
	return r
}
