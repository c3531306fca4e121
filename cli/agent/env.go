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
	Source    string `envconfig:"SOURCE"`                                   // required: https://…, http://… on loopback, or redis://… as in REDIS_URL
	TokenFile string `envconfig:"WORKER_TOKEN_FILE" default:"worker.token"` // what `worker register` has written; not for redis
	CAFile    string `envconfig:"GATEWAY_CA_FILE"`                          // certificates in PEM that are trusted beside the system's
	Dir       string `envconfig:"AGENT_DIR" default:"./agent"`              // leases in hand, checkpoints and results not yet delivered
	Name      string `envconfig:"WORKER_NAME"`                              // the worker's id with redis, where it is required; without use otherwise
	Kind      string `envconfig:"PROCESSOR" default:"zpe" want:"zpe or mock"`
	Slots     int    `envconfig:"WORKER_SLOTS" default:"1" range:"1,256"`

	Drain         settings.Seconds `envconfig:"DRAIN_TIMEOUT" default:"8s" range:"0s,24h0m0s"`
	JobTimeout    settings.Seconds `envconfig:"JOB_TIMEOUT" default:"24h" range:"1s,720h0m0s"`
	StallTimeout  settings.Seconds `envconfig:"STALL_TIMEOUT" default:"1h" range:"1s,720h0m0s"`
	SettleTimeout settings.Seconds `envconfig:"SETTLE_TIMEOUT" default:"10m" range:"1s,24h0m0s"`
	StartTimeout  settings.Seconds `envconfig:"START_TIMEOUT" default:"2m" range:"0s,24h0m0s"`
	IdleExit      settings.Seconds `envconfig:"IDLE_EXIT" range:"off,1s,168h0m0s"` // off when 0
	MaxRuntime    settings.Seconds `envconfig:"MAX_RUNTIME"`                       // off when 0

	PwX       string           `envconfig:"QE_PW" default:"pw.x"` // a path, or a name to look up in PATH
	PseudoDir string           `envconfig:"QE_PSEUDO_DIR" default:"/usr/share/espresso/pseudo"`
	Memory    int64            `envconfig:"QE_MAX_MEMORY" default:"4294967296"`           // bytes, of one run of pw.x
	RunTime   settings.Seconds `envconfig:"QE_TIMEOUT" default:"12h" range:"1s,720h0m0s"` // of one run of pw.x
	Threads   int              `envconfig:"QE_THREADS" default:"1" range:"1,256"`         // of one run of pw.x
	Parallel  int              `envconfig:"QE_PARALLEL" default:"1" range:"1,256"`        // runs of pw.x at once, for each job

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
	wrong := append(
		settings.Limits(e), settings.Within("QE_MAX_MEMORY", fmt.Sprint(e.Memory), fmt.Sprintf("%d,%d", zpe.MinMemory, 1<<44)),
		settings.LogLevel(), settings.CheckName("WORKER_NAME", e.Name), settings.Leaving(e.MaxRuntime, e.JobTimeout, 60*24*time.Hour),
	)
	if e.Source == "" {
		wrong = append(wrong, errors.New("SOURCE must be set: the gateway's address, https://HOST"))
	} else if scheme, _, ok := strings.Cut(e.Source, "://"); !ok || scheme != "https" && scheme != "http" && !strings.HasPrefix(scheme, "redis") {
		// Not quoted: it may hold a password.
		wrong = append(wrong, errors.New("SOURCE is no address: want https://HOST, http://HOST on loopback, or redis://HOST:PORT/DB"))
	}
	return settings.Compact(wrong)
}
