package cli

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/batchfleet/batchfleet/cli/own"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/gateway/queue"
)

// GatewayEnv is what a gateway needs beside its flags.
type GatewayEnv struct {
	RedisEnv
	JobAPIEnv
	FleetEnv
	KindsFile   string           `envconfig:"KINDS_FILE" doc:"describes the kinds of jobs that a gateway hands out beside zpe; read again at SIGHUP; none when empty"`
	SpoolDir    string           `envconfig:"SPOOL_DIR" default:"./gateway-spool" doc:"for parts of the artifacts of those kinds, until they have arrived whole"`
	MaxArtifact int64            `envconfig:"MAX_ARTIFACT_BYTES" default:"5368709120" range:"1,1099511627776" doc:"larger artifacts of those kinds are refused"`
	MaxInput    int64            `envconfig:"MAX_INPUT_BYTES" default:"1073741824" range:"1,1099511627776" doc:"larger inputs of those kinds are refused"`
	LeaseTTL    settings.Seconds `envconfig:"LEASE_TTL" default:"600s" range:"1s,24h0m0s" doc:"what a heartbeat extends a lease to; workers beat every third of it"`
	LegacyTTL   settings.Seconds `envconfig:"LEASE_TTL_LEGACY" range:"off,1s,720h0m0s" doc:"the lease of a worker that sends no heartbeats; JOB_TIMEOUT when empty"`
	JobTimeout  settings.Seconds `envconfig:"JOB_TIMEOUT" default:"24h" range:"1s,720h0m0s" doc:"from a job's first lease, over all its runs"`
	ResultTTL   settings.Seconds `envconfig:"RESULT_TTL" default:"168h" range:"1m0s,8784h0m0s" doc:"how long results, payloads and statuses are kept after the last change; no shorter than a lease or the wait before a re-run"`
	TokenTTL    settings.Seconds `envconfig:"TOKEN_TTL" default:"168h" range:"1m0s,8784h0m0s" doc:"life of a worker's token"`
	MaxRetries  int              `envconfig:"MAX_RETRIES" default:"3" range:"0,100" doc:"how often a job runs again"`
	MaxQueued   int              `envconfig:"MAX_QUEUED" default:"5000000" range:"1,100000000" doc:"more jobs are refused"`
	MaxLeases   int              `envconfig:"MAX_LEASES_PER_WORKER" default:"64" range:"1,1000" doc:"leases, and requests that wait for one, of one worker; more get 429, or no wait"`
	Reap        settings.Seconds `envconfig:"REAP_INTERVAL" default:"30s" range:"100ms,1h0m0s" doc:"how often lost leases are taken back"`
	Skew        settings.Seconds `envconfig:"LEASE_SKEW" default:"5s" range:"0s,1h0m0s" doc:"how long after its end a lease is taken back"`
}

// Check returns what is wrong with the values.
func (e *GatewayEnv) Check() []error {
	wrong := append(settings.Limits(e), settings.LogLevel(), e.checkOne())
	longest := max(e.LeaseTTL.D(), cmp.Or(e.LegacyTTL, e.JobTimeout).D(), queue.RetryDelay(e.MaxRetries))
	if e.ResultTTL.D() < longest && settings.Good(e, "RESULT_TTL", "LEASE_TTL", "LEASE_TTL_LEGACY", "JOB_TIMEOUT", "MAX_RETRIES") {
		wrong = append(wrong, fmt.Errorf("RESULT_TTL is %s: must not be shorter than a lease or the wait before a re-run, which are up to %s, or a job would be forgotten meanwhile", e.ResultTTL.D(), longest))
	}
	if e.Skew*3 > e.LeaseTTL*2 && settings.Good(e, "LEASE_SKEW", "LEASE_TTL") {
		wrong = append(wrong, errors.New("LEASE_SKEW must not be longer than two thirds of LEASE_TTL"))
	}
	if (e.KindsFile != "" || len(own.Built) > 0) && e.Project == "" { // else the fleet's settings have been checked
		wrong = append(wrong, e.StorageEnv.Check()...)
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
