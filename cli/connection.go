package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/gateway/operator"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/grid/leader"
	"github.com/batchfleet/batchfleet/jobapi"
	apiclient "github.com/batchfleet/batchfleet/jobapi/client"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/relay"
)

// connection is where a command finds jobs: the server that --api names, or else the same
// server in this process, over the Redis, the storage and the Pub/Sub of the environment.
type connection struct {
	*apiclient.Client // the Job API

	// The flags, and what stands for them.
	api, tokenFile, caFile, scope string
	old                           bool     // of the commands `batchfleet job …`, which always ask a server
	group                         string   // "relay " or "grid ", of a command of these
	usual                         []string // values of its flags that need not be given

	local *localServer // nil for a server elsewhere
}

// gateway returns the routes of the gateway at the same address.
func (c *connection) gateway() operator.Gateway { return operator.Gateway{Client: c.Client} }

// flags adds the flags that say where the jobs are.
func (c *connection) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&c.api, "api", "", "address of a server, such as https://jobs.example.com (default BATCHFLEET_API; without, what REDIS_URL and the like name)")
	flags.StringVar(&c.tokenFile, "token-file", "", "with --api: file with the token; - for standard input (default BATCHFLEET_TOKEN_FILE)")
	flags.StringVar(&c.caFile, "ca-file", "", "with --api: certificates in PEM to trust beside the system's (default BATCHFLEET_CA_FILE)")
}

// scopeFlag adds --scope.
func (c *connection) scopeFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.scope, "scope", "", "fleet (Pub/Sub workers), gateway (a gateway's agents), zpe (their calculations), relay (tasks of one), grid (jobs of a leader), system or utils (operations); all when empty")
	complete(cmd, "scope", apiclient.Scopes)
}

// address returns which server is to be asked, empty for none.
func (c *connection) address() string {
	if c.old {
		return cmp.Or(c.api, os.Getenv("JOB_API"), os.Getenv("BATCHFLEET_API"), "http://127.0.0.1:8080")
	}
	return cmp.Or(c.api, os.Getenv("BATCHFLEET_API"))
}

// need is what a command wants of a server in this process.
type need int

const (
	needRedis   need = iota // to look at jobs
	needFleet               // Pub/Sub and the storage, too
	needResults             // the same, and results are to be looked for in that storage
	needKinds               // the kinds of a gateway, to submit jobs of them
	needUploads             // the same, and its storage, which has their inputs
)

// connected makes the body of a command that needs a connection, and codes its errors.
func (c *connection) connected(n need, do func(ctx context.Context, cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if c.scope != "" && !slices.Contains(apiclient.Scopes(), c.scope) {
			return program.Exit(program.Usage, fmt.Errorf("--scope is %.40q: want %s", c.scope, strings.Join(apiclient.Scopes(), ", ")))
		}
		if err := c.open(cmd.Context(), n, cmd.ErrOrStderr()); err != nil {
			return program.Coded(cmd.Context(), err)
		}
		defer c.close()
		return c.coded(cmd.Context(), do(cmd.Context(), cmd, args))
	}
}

// ofJob is connected, for a command whose argument is the id of a job, which it finds. action is
// what an error says that was to be done with it.
func (c *connection) ofJob(n need, action string, do func(ctx context.Context, cmd *cobra.Command, j jobapi.Job) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := checkIDs(args); err != nil {
			return err
		}
		return c.connected(n, func(ctx context.Context, cmd *cobra.Command, args []string) error {
			var failed []error
			for _, id := range args {
				j, err := c.find(ctx, action, id)
				if err == nil {
					err = do(ctx, cmd, j)
				}
				if err != nil {
					failed = append(failed, err)
				}
				if ctx.Err() != nil || errors.Is(err, jobs.ErrUnavailable) {
					break
				}
			}
			if len(failed) == 1 {
				return failed[0]
			}
			return errors.Join(failed...)
		})(cmd, args)
	}
}

var errNoServer = errors.New("--token-file and --ca-file are for a server: give --api, too")

func checkIDs(args []string) error {
	var wrong []error
	for _, arg := range args {
		if _, err := jobs.ParseID(arg); err != nil {
			wrong = append(wrong, err)
		}
	}
	if len(wrong) > 0 {
		return program.Exit(program.Usage, errors.Join(wrong...))
	}
	return nil
}

func (c *connection) open(ctx context.Context, n need, stderr io.Writer) error {
	cfg := apiclient.Config{
		URL: c.address(), Version: versionText(), Retrying: sayRetrying(stderr),
	}
	if cfg.URL == "" {
		if c.tokenFile != "" || c.caFile != "" {
			return program.Exit(program.Usage, errNoServer)
		}
		local, err := openLocal(ctx, n)
		if err != nil {
			return err
		}
		c.local = local
		cfg.URL, cfg.Token, cfg.Dial = localURL, local.token, local.listener.Dial
	} else {
		var err error
		if cfg.Token, err = c.token(ctx, stderr); err != nil {
			return program.Mistake(ctx, err)
		}
		cfg.CAFile = c.trusted()
	}
	client, err := apiclient.New(cfg)
	if err != nil {
		return program.Exit(program.Usage, fmt.Errorf("--api: %w", err))
	}
	c.Client = client
	return nil
}

// sayRetrying returns what tells people why a call is retried: once, and again when the reason is
// another, or comes back after quiet.
func sayRetrying(stderr io.Writer) func(error) {
	const quiet = time.Minute // retries are seconds apart
	var mu sync.Mutex
	var said string
	var last time.Time
	return func(err error) {
		text := oneLine(strings.ReplaceAll(err.Error(), jobs.ErrUnavailable.Error()+": ", ""))
		mu.Lock()
		defer mu.Unlock()
		if text != said || time.Since(last) > quiet {
			fmt.Fprintf(stderr, "batchfleet: %s; retrying\n", text)
		}
		said, last = text, time.Now()
	}
}

func (c *connection) close() {
	c.Close()
	if c.local != nil {
		c.local.close()
	}
}

func (c *connection) trusted() string {
	file := cmp.Or(c.caFile, os.Getenv("BATCHFLEET_CA_FILE"))
	if c.old {
		file = cmp.Or(c.caFile, os.Getenv("JOB_CA_FILE"), file)
	}
	return file
}

// token reads the token, if there is a file for it.
func (c *connection) token(ctx context.Context, stderr io.Writer) (string, error) {
	file := cmp.Or(c.tokenFile, os.Getenv("BATCHFLEET_TOKEN_FILE"))
	if c.old {
		file = cmp.Or(c.tokenFile, os.Getenv("JOB_TOKEN_FILE"), file)
	}
	if file == "" {
		return "", nil
	}
	token, err := c.readToken(ctx, file)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	if mode, ok := readByOthers(file); ok {
		fmt.Fprintf(stderr, "batchfleet: other users of this machine may read a token: %s has mode %s; chmod 600\n", file, mode)
	}
	return token, nil
}

// readToken reads a file with a token. That of a relay may also have the next one.
func (c *connection) readToken(ctx context.Context, file string) (string, error) {
	if c.scope != relay.Scope {
		return settings.ReadToken(ctx, file)
	}
	tokens, err := settings.ReadTokens(ctx, file, maxTokens)
	if err != nil {
		return "", err
	}
	return tokens[0], nil
}

// readByOthers reports whether other users of this machine may read a file, and its mode.
func readByOthers(file string) (fs.FileMode, bool) {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 == 0 {
		return 0, false
	}
	return info.Mode().Perm(), true
}

// find returns a job of the scope that was given, or of any. action is what an error says
// that was to be done with it.
func (c *connection) find(ctx context.Context, action, id string) (j jobapi.Job, err error) {
	var scopes []string
	if c.scope != "" {
		scopes = []string{c.scope}
	}
	j, err = c.Find(ctx, action, id, scopes...)
	refused, ok := errors.AsType[*jobapi.Refusal](err)
	switch {
	case ok && refused.Status == http.StatusNotFound:
		return j, program.Exit(program.Failed, fmt.Errorf("%s job %s: %s", action, id, c.unknown(id)))
	case err == nil && !slices.Contains(apiclient.Scopes(), j.Scope):
		return j, fmt.Errorf("%s job %s: it says that its scope is %.40q: give --scope", action, id, j.Scope)
	}
	return j, err
}

// forgotten is why a job may be unknown that is not lost.
const forgotten = "if Redis has lost its data, a job that still waits in Pub/Sub is unknown until a worker gets it"

// unknown says that there is no such job, and where others are.
func (c *connection) unknown(id string) string {
	// As the Job API makes ids of operations; people may choose those of a fleet's jobs.
	switch operation := strings.HasPrefix(id, "job_") && len(id) == len("job_")+ulid.EncodedSize && !keepers[c.scope]; {
	case operation && c.local != nil:
		return "operations are known only to what runs them. `batchfleet run` without --api has printed what there was to know, and forgotten it; " +
			"of one that a server runs, ask the server: --api"
	case operation:
		return "this server knows no such operation: it forgets the oldest, and all when it restarts; `batchfleet " + c.group + "list" + c.given() + "` shows what there is"
	case c.scope == "fleet":
		return "scope fleet has no such job, or not any more: they are kept for 24 h after their last change; " + forgotten + "; `batchfleet " + c.group + "list" + c.given() + "` shows what there is"
	case c.scope != "":
		return "scope " + c.scope + " has no such job, or not any more; `batchfleet " + c.group + "list" + c.given() + "` shows what there is"
	}
	return "no such job, or not any more: a fleet's are kept for 24 h after their last change, a gateway's for 7 days as a rule; " + forgotten +
		"; `batchfleet " + c.group + "list" + c.given() + "` shows what there is"
}

// coded gives an error its exit code. It explains what only a server's operator can repair.
func (c *connection) coded(ctx context.Context, err error) error {
	refused, ok := errors.AsType[*jobapi.Refusal](err)
	if !ok && c.local == nil && errors.Is(err, jobs.ErrUnavailable) && ctx.Err() == nil {
		err = fmt.Errorf("%w; %s", err, c.whatToDo(err))
	}
	coded := program.Coded(ctx, err)
	switch {
	case !ok || errors.Is(err, jobs.ErrUnavailable):
	case refused.Code == string(wire.AdminDisabled):
		coded = program.Exit(program.Usage, fmt.Errorf("%w; it was started without --admin-token-file", err))
	case errors.Is(err, apiclient.ErrNoGateway):
		coded = program.Exit(program.Usage, err)
	case refused.Status == http.StatusBadRequest, refused.Status == http.StatusForbidden:
		coded = program.Exit(program.Usage, err)
	case refused.Status == http.StatusUnauthorized && c.scope == relay.Scope:
		coded = program.Exit(program.Usage, fmt.Errorf("%w; --token-file (or BATCHFLEET_TOKEN_FILE) names the file with the token that the relay was started with", err))
	case refused.Status == http.StatusUnauthorized:
		coded = program.Exit(program.Usage, fmt.Errorf("%w; --token-file (or BATCHFLEET_TOKEN_FILE) names the file with the token: one that `batchfleet token new` has made on the server, or for a gateway's own routes its admin token", err))
	}
	return printable(coded)
}

// whatToDo says what to do about a server that cannot be reached.
func (c *connection) whatToDo(err error) string {
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case certificate:
		return "if its certificate is your own, give it with --ca-file (or BATCHFLEET_CA_FILE)"
	case errors.Is(err, http.ErrSchemeMismatch):
		return "it speaks no TLS: write http:// instead of https://"
	case c.scope == relay.Scope:
		return "--api (or BATCHFLEET_API) says where `batchfleet relay` listens"
	case c.scope == leader.Scope:
		return "--api (or BATCHFLEET_API) says where the Job API of `batchfleet grid leader` listens, its --http"
	}
	return "--api (or BATCHFLEET_API) says where `batchfleet gateway` or `batchfleet dev` answers"
}

// printable keeps the terminal safe from what a server has said.
func printable(err error) error {
	coded, ok := errors.AsType[program.ExitError](err)
	if !ok || coded.Err == nil {
		return err
	}
	if text := err.Error(); jobs.Visible(text) != text {
		return program.Exit(coded.Code, errors.New(jobs.Visible(text)))
	}
	return err
}
