package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/cli/agent"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/zpe"
	"github.com/batchfleet/batchfleet/redisdb"
)

// gatewaySource is the environment of a worker that leases from a gateway, for
// the doctor: that pw.x is missing is one of its checks.
type gatewaySource struct{ agent.Env }

// Check returns what is wrong with the values.
func (e *gatewaySource) Check() []error { return e.CheckValues() }

// redisSource is that of a worker that leases from a gateway's Redis.
type redisSource struct{ DirectEnv }

// Check returns what is wrong with the values.
func (e *redisSource) Check() []error { return settings.Compact(e.CheckValues(), e.checkRules()) }

// sourceChecks returns what a worker with SOURCE needs.
func sourceChecks() ([]check, error) {
	if fromRedis() {
		var env redisSource
		misconfigured := settings.Read(&env)
		what := agent.Redacted(env.Source)
		if o, err := redisdb.ParseURL(env.Source); err == nil && len(o.Addrs) > 0 {
			what = o.String() // several hosts are no URL
		}
		return append([]check{{"redis", what, env.lookAtQueue, queueHelp}}, agentChecks(&env.Env)...), misconfigured
	}
	var env gatewaySource
	misconfigured := settings.Read(&env)
	return append([]check{
		{"gateway", agent.Redacted(env.Source), env.lookAtGateway, gatewayHelp},
		{"token", env.TokenFile, env.lookAtToken, env.tokenHelp},
	}, agentChecks(&env.Env)...), misconfigured
}

// agentChecks returns what every agent needs.
func agentChecks(e *agent.Env) []check {
	return []check{
		{"agent", e.Dir, func(context.Context) (string, error) { // as a worker does
			if err := e.MakeDirs(); err != nil {
				return "", err
			}
			return "can be written", settings.Writable(e.Dir)
		}, agentDirHelp},
		{"pw.x", e.PwX, func(ctx context.Context) (string, error) {
			if e.Kind != "zpe" {
				return fmt.Sprintf("not needed (PROCESSOR is %s)", e.Kind), nil
			}
			found, err := e.Probe(ctx)
			return fmt.Sprintf("version %s, with %s in %s", found.Version, jobs.Count(found.Pseudos, "pseudopotential"), found.PseudoDir), err
		}, pwxHelp},
	}
}

// lookAtGateway asks without a token: a gateway refuses that in words of its own.
func (e *gatewaySource) lookAtGateway(ctx context.Context) (string, error) {
	c, err := gateway.NewClient(gateway.ClientConfig{URL: e.Source, CAFile: e.CAFile, Version: versionText()})
	if err != nil {
		return "", e.Explain(err, gateway.Token{})
	}
	defer c.Close()
	err = c.Check(ctx)
	if answer, ok := errors.AsType[*gateway.Error](err); ok && answer.TokenRefused() {
		err = nil
	}
	return "answers", err
}

func gatewayHelp(err error) string {
	switch answer, ok := errors.AsType[*gateway.Error](err); {
	case ok && answer.Status == http.StatusNotFound:
		return "set SOURCE to the gateway's own address, without a path"
	case ok:
		return "ask the gateway's operator; if a proxy has answered, see HTTPS_PROXY and NO_PROXY"
	case errors.Is(err, gateway.ErrCAFile):
		return "set GATEWAY_CA_FILE to a file with the gateway's certificate, or that of its authority, in PEM"
	case strings.Contains(err.Error(), "certificate"):
		return "set SOURCE to the name in the gateway's certificate, and GATEWAY_CA_FILE to a certificate that is your own"
	case errors.Is(err, jobs.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return "check SOURCE, the network and HTTPS_PROXY, and ask the gateway's operator whether it runs"
	}
	return "set SOURCE to the gateway's address, https://HOST"
}

func (e *gatewaySource) lookAtToken(ctx context.Context) (string, error) {
	c, token, err := e.Client(versionText())
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := settings.Writable(filepath.Dir(e.TokenFile)); err != nil {
		return "", fmt.Errorf("it could not be renewed: %w", err)
	}
	found := "of worker " + token.WorkerID
	if !token.ExpiresAt.IsZero() {
		found += ", holds until " + moment(token.ExpiresAt.UTC())
	}
	err = c.Check(ctx)
	switch answer, ok := errors.AsType[*gateway.Error](err); {
	case ok && answer.TokenRefused():
		return "", err
	case err == nil:
		return found + ", the gateway takes it", nil
	case !token.ExpiresAt.IsZero() && time.Now().After(token.ExpiresAt):
		return "", fmt.Errorf("it has expired at %s", moment(token.ExpiresAt.UTC()))
	}
	return found + "; the gateway could not be asked", nil
}

func (e *gatewaySource) tokenHelp(err error) string {
	if answer, ok := errors.AsType[*gateway.Error](err); ok && answer.TokenRefused() {
		return "ask the gateway's operator for an enroll token (`batchfleet workers enroll` makes one), and register this machine with it: batchfleet worker register"
	}
	switch text := err.Error(); {
	case strings.Contains(text, "chmod 600"):
		return "chmod 600 " + e.TokenFile
	case strings.Contains(text, "regular file"):
		return "set WORKER_TOKEN_FILE to the file itself, not to a link"
	case strings.Contains(text, "renewed"):
		return "make the directory of WORKER_TOKEN_FILE one this user may write to"
	case strings.Contains(text, "SOURCE"), strings.Contains(text, "CA file"):
		return "mend what is said there"
	}
	return "set WORKER_TOKEN_FILE to the file that register has written, or register this machine: batchfleet worker register"
}

func (e *redisSource) lookAtQueue(ctx context.Context) (string, error) {
	q, closer, err := e.openQueue()
	if err != nil {
		return "", err
	}
	defer closer.Close()
	return "answers and accepts writes", q.Check(ctx)
}

func queueHelp(err error) string {
	if help := redisHelp(err, "SOURCE"); help != "" {
		return help
	}
	if !errors.Is(err, jobs.ErrUnavailable) {
		return "mend what is said there"
	}
	return "start Redis, or set SOURCE to where the gateway's is"
}

func agentDirHelp(err error) string {
	if _, do, ok := strings.Cut(err.Error(), "chmod "); ok {
		return "chmod " + do
	}
	return "make AGENT_DIR a directory this user may write to, with space left, and no links in it"
}

func pwxHelp(err error) string {
	if f, ok := errors.AsType[*jobs.Failure](err); ok && f.Code == zpe.CodePseudo {
		return "set QE_PSEUDO_DIR to a directory with pseudopotentials (Debian: apt-get install quantum-espresso-data)"
	}
	return "install Quantum ESPRESSO (Debian: apt-get install quantum-espresso quantum-espresso-data), or set QE_PW to where pw.x is"
}
