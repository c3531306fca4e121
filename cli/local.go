package cli

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/batchfleet/batchfleet/cli/own"
	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/gateway/control"
	"github.com/batchfleet/batchfleet/gateway/provider"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/internal/pipenet"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/operations"
	"github.com/batchfleet/batchfleet/processor/zpe"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/storage"
)

// LocalEnv is what a command needs that looks after jobs without a server: Redis, and what its
// operations act on.
type LocalEnv struct {
	RedisEnv
	JobAPIEnv
	FleetEnv
	ResultTTL settings.Seconds `envconfig:"RESULT_TTL" default:"168h" range:"1m0s,8784h0m0s" doc:"how long results, payloads and statuses are kept after the last change; no shorter than a lease or the wait before a re-run"`
	MaxQueued int              `envconfig:"MAX_QUEUED" default:"5000000" range:"1,100000000" doc:"more jobs are refused"`
	KindsFile string           `envconfig:"KINDS_FILE" doc:"the gateway's: with it, commands know the jobs of its other kinds"`
	MaxInput  int64            `envconfig:"MAX_INPUT_BYTES" default:"1073741824" range:"1,1099511627776" doc:"larger inputs of those kinds are refused"`
}

// Check returns what is wrong with the values.
func (e *LocalEnv) Check() []error {
	return settings.Compact(e.RedisEnv.Check(), e.StorageEnv.Check(), e.JobAPIEnv.Check(), e.FleetEnv.Check(), settings.Limits(e), []error{settings.LogLevel()})
}

// localURL is the address of a server in this process. Nothing listens there.
const localURL = "http://127.0.0.1"

// localServer is a gateway with its Job API in this process, for one command: it hands out
// nothing, and only the command reaches it.
type localServer struct {
	listener *pipenet.Listener
	token    string // of its operators
	status   *status.Store
	gateway  bool // whether its Redis can be that of a gateway: a cluster cannot
	fleet    bool // whether it knows the Pub/Sub of a fleet
	stop     context.CancelFunc
	serving  sync.WaitGroup
}

// openLocal starts a server over what the environment names, and checks that its Redis can be
// reached. The caller must call close.
func openLocal(ctx context.Context, n need) (*localServer, error) {
	env := &LocalEnv{}
	if err := settings.Read(env); err != nil {
		return nil, err
	}
	if n == needResults && env.Project != "" {
		if err := env.there(); err != nil {
			return nil, program.Exit(program.Usage, err)
		}
	}
	ofFleet := n == needFleet || n == needResults
	if ofFleet && env.Project != "" { // what is wrong with it is said here, and not by a server's log
		publisher, err := (&ClientEnv{StorageEnv: env.StorageEnv, PubSubEnv: env.PubSubEnv}).openPublisher(ctx)
		if err != nil {
			return nil, program.Exit(program.Usage, err)
		}
		_ = publisher.Close()
	}
	log := program.NewLog(os.Stderr, slog.LevelWarn)
	rdb := env.openRedis(16)
	if err := env.reach(ctx, rdb); err != nil {
		_ = rdb.Close()
		return nil, err
	}
	fleet := env.FleetEnv
	if topic, full := strings.CutPrefix(env.Topic, "projects/"); full && fleet.Project == "" {
		fleet.Project, _, _ = strings.Cut(topic, "/")
	}
	if !ofFleet {
		fleet = FleetEnv{} // to look at jobs needs no Pub/Sub
	}
	open := sync.OnceValues(func() (storage.Store, error) {
		refused := func(err error) error {
			return &jobapi.Refusal{Status: http.StatusConflict, Code: jobapi.CodePrecondition, Message: oneLine(err.Error())}
		}
		if err := env.there(); err != nil {
			return nil, refused(err)
		}
		store, err := env.openStorage(context.WithoutCancel(ctx))
		if err != nil {
			return nil, refused(err)
		}
		return store, nil
	})
	s := &localServer{listener: pipenet.Listen(), token: rand.Text(), status: status.New(rdb), fleet: fleet.Project != ""}
	metrics := control.NewMetrics(versionText(), nil)
	config := jobServerConfig{
		env: env.JobAPIEnv, fleet: fleet, deps: operations.Deps{Status: s.status}, redis: rdb, storage: func(context.Context) (storage.Store, error) { return open() },
		guard: jobapi.Loopback, metrics: metrics.Registry, log: log,
	}
	// Its answers wait for nothing else than this command: it stops after that.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	c := &control.Control{AdminToken: s.token, ClientToken: s.token, Log: log, Metrics: metrics, CheckPayload: checkPayload}
	if s.gateway = env.checkOne() == nil; s.gateway {
		rules := queue.DefaultRules
		rules.ResultTTL, rules.MaxQueued = env.ResultTTL.D(), env.MaxQueued
		c.Queue = queue.New(rdb, rules)
		config.deps.Queue, config.zpe = c.Queue, &provider.ZPE{Queue: c.Queue, Stop: c.Cancel}
		if env.KindsFile != "" {
			config.others = &provider.ZPE{Queue: c.Queue, Others: true, Stop: c.Cancel, OpenFile: func(ctx context.Context, id jobs.ID, lease, name string) (io.ReadCloser, error) {
				store, err := open()
				if err != nil {
					return nil, err
				}
				return (&control.Files{Store: store}).OpenArtifact(ctx, id, lease, name)
			}}
		}
		if err := env.openKinds(c, n, open); err != nil {
			_ = rdb.Close()
			stop()
			return nil, err
		}
	}
	api := openJobServer(serving, config)
	api.Log = program.NewLog(os.Stderr, slog.LevelError) // that a service is away is said by the command
	s.serving.Go(func() { api.Server.Run(serving) })     // jobs that are due are left to processes that stay
	s.serving.Go(func() {
		defer rdb.Close()
		_ = api.serve(serving, &httpd.Server{Handler: api.beside(c.Handler()), Log: log, MaxConns: 16}, s.listener)
	})
	return s, nil
}

// openKinds lets a gateway take jobs of the kinds of its file, if they are needed.
func (e *LocalEnv) openKinds(c *control.Control, n need, open func() (storage.Store, error)) error {
	if n != needKinds && n != needUploads {
		return nil
	}
	set, err := readKinds(&own.Env{File: e.KindsFile})
	if err != nil {
		return err
	}
	c.Kinds = control.KindsOf(set)
	if n == needKinds {
		return nil
	}
	store, err := open()
	if err != nil {
		return program.Exit(program.Usage, err)
	}
	c.Files = &control.Files{Store: store, MaxInput: e.MaxInput}
	return nil
}

// close ends the server, and cancels its operations.
func (s *localServer) close() {
	s.stop()
	s.serving.Wait()
}

// checkPayload returns what is wrong with what a job of the gateway is asked to do.
func checkPayload(payload []byte) error {
	_, err := zpe.ParsePayload(payload)
	return err
}
