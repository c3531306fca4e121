package agent

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/zpe"
)

// Env is what a worker needs that leases from a gateway, or from its Redis.
type Env struct {
	Source    string `envconfig:"SOURCE"`                                   // required: https://…, http://… on loopback, or redis://… as in REDIS_URL
	TokenFile string `envconfig:"WORKER_TOKEN_FILE" default:"worker.token"` // what `worker register` has written; not for redis
	CAFile    string `envconfig:"GATEWAY_CA_FILE"`                          // certificates in PEM that are trusted beside the system's
	Dir       string `envconfig:"AGENT_DIR" default:"./agent"`              // leases in hand, checkpoints and results not yet delivered
	Name      string `envconfig:"WORKER_NAME"`                              // the worker's id with redis, where it is required; without use otherwise
	Kind      string `envconfig:"PROCESSOR" default:"zpe"`                  // zpe or mock
	Slots     int    `envconfig:"WORKER_SLOTS" default:"1"`

	Drain         settings.Seconds `envconfig:"DRAIN_TIMEOUT" default:"8s"`
	JobTimeout    settings.Seconds `envconfig:"JOB_TIMEOUT" default:"24h"`
	StallTimeout  settings.Seconds `envconfig:"STALL_TIMEOUT" default:"1h"`
	SettleTimeout settings.Seconds `envconfig:"SETTLE_TIMEOUT" default:"10m"`
	StartTimeout  settings.Seconds `envconfig:"START_TIMEOUT" default:"2m"`
	IdleExit      settings.Seconds `envconfig:"IDLE_EXIT"`   // off when 0
	MaxRuntime    settings.Seconds `envconfig:"MAX_RUNTIME"` // off when 0

	PwX       string           `envconfig:"QE_PW" default:"pw.x"` // a path, or a name to look up in PATH
	PseudoDir string           `envconfig:"QE_PSEUDO_DIR" default:"/usr/share/espresso/pseudo"`
	Memory    int64            `envconfig:"QE_MAX_MEMORY" default:"4294967296"` // bytes, of one run of pw.x
	RunTime   settings.Seconds `envconfig:"QE_TIMEOUT" default:"12h"`           // of one run of pw.x
	Threads   int              `envconfig:"QE_THREADS" default:"1"`             // of one run of pw.x
	Parallel  int              `envconfig:"QE_PARALLEL" default:"1"`            // runs of pw.x at once, for each job

	MockPages       settings.Numbers `envconfig:"MOCK_PAGES" default:"5-20"`
	MockPageSeconds settings.Numbers `envconfig:"MOCK_PAGE_SECONDS" default:"3-5"`
	HTTPAddr        string           `envconfig:"HTTP_ADDR"` // health and metrics; off when empty
}

// The kinds of jobs.
const (
	kindZPE  jobs.Kind = "zpe"
	kindMock jobs.Kind = "mock"
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
	wrong := []error{
		settings.Within("WORKER_SLOTS", int64(e.Slots), 1, 256),
		settings.Span("DRAIN_TIMEOUT", e.Drain, 0, settings.Day),
		settings.Span("JOB_TIMEOUT", e.JobTimeout, settings.Second, 30*settings.Day),
		settings.Span("STALL_TIMEOUT", e.StallTimeout, settings.Second, 30*settings.Day),
		settings.Span("SETTLE_TIMEOUT", e.SettleTimeout, settings.Second, settings.Day),
		settings.Span("START_TIMEOUT", e.StartTimeout, 0, settings.Day),
		settings.Within("QE_MAX_MEMORY", e.Memory, zpe.MinMemory, 1<<44),
		settings.Span("QE_TIMEOUT", e.RunTime, settings.Second, 30*settings.Day),
		settings.Within("QE_THREADS", int64(e.Threads), 1, 256),
		settings.Within("QE_PARALLEL", int64(e.Parallel), 1, 256),
		settings.LogLevel(),
		settings.CheckName("WORKER_NAME", e.Name),
	}
	if e.Source == "" {
		wrong = append(wrong, errors.New("SOURCE must be set: the gateway's address, https://HOST"))
	} else if scheme, _, ok := strings.Cut(e.Source, "://"); !ok || scheme != "https" && scheme != "http" && !strings.HasPrefix(scheme, "redis") {
		// Not quoted: it may hold a password.
		wrong = append(wrong, errors.New("SOURCE is no address: want https://HOST, http://HOST on loopback, or redis://HOST:PORT/DB"))
	}
	if k := jobs.Kind(e.Kind); k != kindZPE && k != kindMock {
		wrong = append(wrong, fmt.Errorf("PROCESSOR is %q: want zpe or mock", e.Kind))
	}
	return settings.Compact(wrong, settings.Leaving(e.IdleExit, e.MaxRuntime, e.JobTimeout, 60*settings.Day))
}
