package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/wire"
)

// registration is what `worker register` is asked for.
type registration struct {
	address    string // of the gateway
	enrollFile string // none when empty
	tokenFile  string
	caFile     string
	name       string
	force      bool
	version    string
}

// RegisterCommand makes this machine a worker of a gateway.
func RegisterCommand(version string) *cobra.Command {
	r := registration{version: version}
	c := &cobra.Command{
		Use:   "register",
		Short: "Make this machine a worker of a gateway, and keep its token in a file",
		Long: "Exchanges an enroll token, which the operator of the gateway gives out, for a token of this worker. The worker\n" +
			"renews it by itself. With a token file that is still good the worker stays who it is: it gets a new token, and\n" +
			"needs no enroll token for that. A file with the token of another gateway, or with anything else, is left alone\n" +
			"unless --force is given. Worker and register take WORKER_TOKEN_FILE, SOURCE and GATEWAY_CA_FILE alike.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r.address = cmp.Or(r.address, os.Getenv("SOURCE"))
			r.tokenFile = cmp.Or(r.tokenFile, os.Getenv("WORKER_TOKEN_FILE"), "worker.token")
			r.caFile = cmp.Or(r.caFile, os.Getenv("GATEWAY_CA_FILE"))
			if r.address == "" {
				return program.Exit(program.Usage, errors.New("--gateway must be set: the gateway's address, https://HOST (or SOURCE)"))
			}
			if err := settings.CheckName("--name", r.name); err != nil {
				return program.Exit(program.Usage, err)
			}
			token, did, err := r.run(cmd.Context())
			if err != nil {
				return program.Coded(cmd.Context(), refusal(err))
			}
			_, program, _ := strings.Cut(cmd.Parent().CommandPath(), " ")
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s; its token is in %s, holds until %s and is renewed by the worker\nstart it with: %s\n",
				did, r.tokenFile, token.ExpiresAt.UTC().Format(time.RFC3339), r.start(token, strings.Fields(program)))
			return err
		},
	}
	flags := c.Flags()
	flags.StringVar(&r.address, "gateway", "", "address of the gateway, https://HOST (default SOURCE)")
	flags.StringVar(&r.enrollFile, "enroll-token-file", "", "file with the enroll token; - for standard input; not needed while the token file is good")
	flags.StringVar(&r.tokenFile, "token-file", "", "where to keep the worker's token (default WORKER_TOKEN_FILE, or worker.token)")
	flags.StringVar(&r.caFile, "ca-file", "", "certificates in PEM to trust beside the system's (default GATEWAY_CA_FILE)")
	flags.StringVar(&r.name, "name", "", "name of this worker for people; the gateway chooses one when empty")
	flags.BoolVar(&r.force, "force", false, "register a new worker, whatever is in the token file")
	return c
}

// run gets a token, puts it into its file, and says what it has done.
func (r *registration) run(ctx context.Context) (token gateway.Token, did string, err error) {
	own, err := r.own()
	if err != nil {
		return gateway.Token{}, "", program.Exit(program.Usage, fmt.Errorf("--token-file: %w", err))
	}
	enroll := ""
	if r.enrollFile != "" {
		if enroll, err = settings.ReadToken(ctx, r.enrollFile); err != nil {
			return gateway.Token{}, "", program.Mistake(ctx, fmt.Errorf("--enroll-token-file: %w", err))
		}
	}
	// Before the gateway gives a token, and an enroll token is used up.
	if err := replaceable(r.tokenFile); err != nil {
		return gateway.Token{}, "", program.Exit(program.Usage, fmt.Errorf("--token-file: %w", err))
	}
	why := ""
	if own != nil {
		token, err = r.ask(ctx, own, "")
		refused := (*gateway.Error)(nil)
		switch {
		case err == nil:
			did = fmt.Sprintf("renewed the token of %s, which stays who it is", called(token))
			if enroll != "" {
				did += " (the enroll token was not needed and is still good)"
			}
			return token, did, nil
		case !errors.As(err, &refused) || !refused.TokenRefused():
			return gateway.Token{}, "", err
		case enroll == "":
			return gateway.Token{}, "", program.Exit(program.Usage, fmt.Errorf("%w; the token in %s is not good any more: ask for an enroll token, and give it with --enroll-token-file", err, r.tokenFile))
		}
		why = fmt.Sprintf(", a new worker because the gateway does not take the token that was in the file (%s)", refused.Code)
	}
	switch {
	case enroll == "" && r.force:
		return gateway.Token{}, "", program.Exit(program.Usage, errors.New("--enroll-token-file must be set with --force: a new worker needs an enroll token"))
	case enroll == "":
		return gateway.Token{}, "", program.Exit(program.Usage, fmt.Errorf("--enroll-token-file must be set: there is no token to renew in %s, and the operator of the gateway gives out enroll tokens", r.tokenFile))
	}
	if token, err = r.ask(ctx, nil, enroll); err != nil {
		return gateway.Token{}, "", err
	}
	return token, "registered as " + called(token) + why, nil
}

// refusal gives what a gateway has refused the exit code of wrong arguments, as the commands about
// jobs do: another token or name is needed, and not another try.
func refusal(err error) error {
	answer, ok := errors.AsType[*gateway.Error](err)
	if !ok || answer.Code == "" { // a proxy's page is no refusal
		return err
	}
	switch answer.Status {
	case http.StatusUnauthorized:
		if answer.Code == wire.InvalidEnrollToken {
			err = fmt.Errorf("%w; each is good for one worker, once and for a time: the operator of the gateway makes another with `batchfleet workers enroll`", err)
		}
		return program.Exit(program.Usage, err)
	case http.StatusBadRequest, http.StatusForbidden:
		return program.Exit(program.Usage, err)
	}
	return err
}

// own returns the token that is there to be renewed, nil for none.
func (r *registration) own() (*gateway.TokenFile, error) {
	if r.force {
		return nil, nil //nolint:nilnil // none
	}
	own, err := gateway.OpenTokenFile(r.tokenFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil //nolint:nilnil // none
	case err != nil:
		return nil, fmt.Errorf("%w; --force puts another in its place", err)
	}
	return own, nil
}

// ask has the gateway give a token, in exchange for the own one or an enroll
// token, and keeps it.
func (r *registration) ask(ctx context.Context, own *gateway.TokenFile, enroll string) (gateway.Token, error) {
	c, err := gateway.NewClient(gateway.ClientConfig{URL: r.address, CAFile: r.caFile, Version: r.version, Tokens: own})
	switch {
	case errors.Is(err, gateway.ErrCAFile):
		return gateway.Token{}, program.Exit(program.Usage, fmt.Errorf("--ca-file: %w", err))
	case errors.Is(err, gateway.ErrOtherGateway):
		return gateway.Token{}, program.Exit(program.Usage, fmt.Errorf("--token-file: the token in %s is for %s, not for %s; give another --token-file, or --force to lose that token",
			r.tokenFile, Redacted(own.Token().Gateway), Redacted(r.address)))
	case err != nil:
		return gateway.Token{}, program.Exit(program.Usage, fmt.Errorf("--gateway: %w", err))
	}
	defer c.Close()
	token, err := gateway.Register(ctx, c, enroll, r.name)
	if err != nil {
		return gateway.Token{}, fmt.Errorf("register with %s: %w", Redacted(r.address), err)
	}
	if err := gateway.SaveToken(r.tokenFile, token); err != nil {
		lost := "the enroll token is used up: ask for another"
		if own != nil {
			lost = "the one in it holds for 10 minutes at the most: fix this and try again by then"
		}
		return gateway.Token{}, program.Exit(program.Failed, fmt.Errorf("--token-file: %w (%s)", err, lost))
	}
	return token, nil
}

// called is how people know a worker: its name, and its id.
func called(t gateway.Token) string {
	if t.Name == "" || t.Name == t.WorkerID {
		return t.WorkerID
	}
	return fmt.Sprintf("%s (%s)", t.Name, t.WorkerID)
}

// start is the line for a shell that starts the worker; words follow the name of
// the program.
func (r *registration) start(t gateway.Token, words []string) string {
	line := []string{"SOURCE=" + program.ShellWord(t.Gateway), "WORKER_TOKEN_FILE=" + program.ShellWord(r.tokenFile)}
	if r.caFile != "" {
		line = append(line, "GATEWAY_CA_FILE="+program.ShellWord(r.caFile))
	}
	line = append(line, program.ShellWord(os.Args[0]))
	return strings.Join(append(line, words...), " ")
}

// replaceable returns why a file cannot be written again at path.
func replaceable(path string) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	if err := settings.Writable(filepath.Dir(path)); err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return nil
}
