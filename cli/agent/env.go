package agent

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/zpe"
)

// Env is what a worker needs that leases from a gateway, or from its Redis.
type Env struct {
	Source    string `envconfig:"SOURCE" doc:"where the worker leases from instead of Pub/Sub: https://GATEWAY, http://… on loopback, or redis://… as in REDIS_URL"`
	TokenFile string `envconfig:"WORKER_TOKEN_FILE" default:"worker.token" doc:"what worker register has written; renewed at three quarters of its life; sent to the gateway that gave it and no other"` // what `worker register` has written; not for redis
	CAFile    string `envconfig:"GATEWAY_CA_FILE" doc:"certificates in PEM to trust beside the system's; HTTPS_PROXY and NO_PROXY are heeded"`
	Dir       string `envconfig:"AGENT_DIR" default:"./agent" doc:"leases in hand, checkpoints, and results not yet delivered; one process each"`
	Name      string `envconfig:"WORKER_NAME" doc:"required with redis://…, the same after a restart: its id; a gateway gives one to those that register"`
	Kind      string `envconfig:"PROCESSOR" default:"zpe" want:"zpe or mock or none" doc:"what runs jobs of kind zpe; mock makes results up: for trials only; none leaves them to others"`
	Slots     int    `envconfig:"WORKER_SLOTS" default:"1" range:"1,256" doc:"jobs at once, one lease each; a crash of the worker counts for all of them"`

	Drain         settings.Seconds `envconfig:"DRAIN_TIMEOUT" default:"8s" range:"0s,24h0m0s" doc:"what SIGTERM gives jobs to finish; then, or at a second signal, they go back to the queue, uncounted"`
	JobTimeout    settings.Seconds `envconfig:"JOB_TIMEOUT" default:"24h" range:"1s,720h0m0s" doc:"of one run; with redis://… also over all of a job's runs"`
	StallTimeout  settings.Seconds `envconfig:"STALL_TIMEOUT" default:"1h" range:"1s,720h0m0s" doc:"for a run that reports nothing"`
	SettleTimeout settings.Seconds `envconfig:"SETTLE_TIMEOUT" default:"10m" range:"1s,24h0m0s" doc:"how long to try to record an outcome while Redis is away"`
	StartTimeout  settings.Seconds `envconfig:"START_TIMEOUT" default:"2m" range:"0s,24h0m0s" doc:"how long a missing subscription or permission is tried again"`
	IdleExit      settings.Seconds `envconfig:"IDLE_EXIT" range:"off,1s,168h0m0s" doc:"leave with exit code 0 after being idle this long; off when 0"`
	MaxRuntime    settings.Seconds `envconfig:"MAX_RUNTIME" doc:"leave with exit code 0 by then: no job is taken in the last JOB_TIMEOUT and 1 minute of it; off when 0"`

	PwX       string           `envconfig:"QE_PW" default:"pw.x" doc:"the program pw.x: a path, or a name to look up in PATH"`
	PseudoDir string           `envconfig:"QE_PSEUDO_DIR" default:"/usr/share/espresso/pseudo" doc:"its pseudopotentials"`
	Memory    int64            `envconfig:"QE_MAX_MEMORY" default:"4294967296" doc:"bytes, of one run of pw.x; at least 256 MiB"`
	RunTime   settings.Seconds `envconfig:"QE_TIMEOUT" default:"12h" range:"1s,720h0m0s" doc:"of one run of pw.x"`
	Threads   int              `envconfig:"QE_THREADS" default:"1" range:"1,256" doc:"threads of a run of pw.x"`
	Parallel  int              `envconfig:"QE_PARALLEL" default:"1" range:"1,256" doc:"runs of pw.x at once, for each job"`

	MockPages       settings.Numbers `envconfig:"MOCK_PAGES" default:"5-20" doc:"of kind mock: how many, a number or a range"`
	MockPageSeconds settings.Numbers `envconfig:"MOCK_PAGE_SECONDS" default:"3-5" doc:"of kind mock: how long each takes, a number or a range"`
	HTTPAddr        string           `envconfig:"HTTP_ADDR" doc:"serves /healthz, /readyz and /metrics; off when empty"`

	kinds Kinds // beside zpe
}

// The kinds of jobs.
const (
	kindZPE  jobs.Kind = "zpe"
	kindMock jobs.Kind = "mock"
	kindNone jobs.Kind = "none"
)

// Check returns what is wrong with the values, and whether pw.x is missing.
func (e *Env) Check() []error {
	wrong := e.CheckValues()
	if e.Kind == string(kindZPE) {
		if _, err := e.pwx(); err != nil {
			wrong = append(wrong, err)
		}
	}
	return wrong
}

// pwx returns the path of pw.x.
func (e *Env) pwx() (string, error) {
	path, err := exec.LookPath(e.PwX)
	if err != nil {
		return "", fmt.Errorf("QE_PW: %w (Debian: apt-get install quantum-espresso quantum-espresso-data)", err)
	}
	return path, nil
}

// CheckValues returns what is wrong with the values.
func (e *Env) CheckValues() []error {
	wrong := append(
		settings.Limits(e), settings.Within("QE_MAX_MEMORY", fmt.Sprint(e.Memory), fmt.Sprintf("%d,%d", zpe.MinMemory, 1<<44)),
		settings.LogLevel(), settings.CheckName("WORKER_NAME", e.Name),
	)
	if settings.Good(e, "JOB_TIMEOUT") {
		wrong = append(wrong, settings.Leaving(e.MaxRuntime, e.JobTimeout, 60*24*time.Hour))
	}
	if e.HTTPAddr != "" {
		wrong = append(wrong, settings.CheckListen("HTTP_ADDR", e.HTTPAddr, "127.0.0.1:9090"))
	}
	if e.Source == "" {
		wrong = append(wrong, errors.New("SOURCE must be set: the gateway's address, https://HOST"))
	} else if scheme, _, ok := strings.Cut(e.Source, "://"); !ok || scheme != "https" && scheme != "http" && !strings.HasPrefix(scheme, "redis") {
		// Not quoted: it may hold a password.
		wrong = append(wrong, errors.New("SOURCE is no address: want https://HOST, http://HOST on loopback, or redis://HOST:PORT/DB"))
	}
	return settings.Compact(wrong)
}
