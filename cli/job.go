package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"

	apiclient "github.com/batchfleet/batchfleet/jobapi/client"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// jobClient is the Job API that a job command talks to.
type jobClient struct {
	*apiclient.Client
	api, tokenFile, caFile string
	scope                  string // empty: the one that has the job
}

func jobCommand() *cobra.Command {
	d := &jobClient{}
	c := &cobra.Command{
		Use:   "job",
		Short: "List, follow, cancel and start jobs through the Job API",
		Long: "List, follow, cancel and start jobs through the Job API of a gateway (or of `batchfleet dev`): operations on the\n" +
			"fleet (scopes system and utils), jobs of the Pub/Sub workers (fleet) and of the gateway's agents (zpe).",
		Args: subcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags := c.PersistentFlags()
	flags.StringVar(&d.api, "api", "", "address of the server (default JOB_API, or http://127.0.0.1:8080)")
	flags.StringVar(&d.tokenFile, "token-file", "", "file with the token; - for standard input (default JOB_TOKEN_FILE)")
	flags.StringVar(&d.caFile, "ca-file", "", "certificates in PEM to trust beside the system's (default JOB_CA_FILE)")
	flags.StringVar(&d.scope, "scope", "", "system, utils, fleet or zpe; all when empty")
	c.AddCommand(jobListCommand(d), jobGetCommand(d), jobWatchCommand(d), jobLogsCommand(d), jobCancelCommand(d), jobRunCommand(d))
	return c
}

// subcommand refuses an argument of a command that is only the parent of others,
// and says which of them may be meant.
func subcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("%.40q is no command of `%s`", args[0], cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("%w: do you mean %s?", err, strings.Join(near, " or "))
	}
	return fmt.Errorf("%w; --help lists them", err)
}

// asking makes the body of a command that asks a server.
func (d *jobClient) asking(do func(ctx context.Context, cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := d.open(cmd.ErrOrStderr()); err != nil {
			return program.Exit(program.Usage, err)
		}
		defer d.Close()
		return jobCoded(cmd.Context(), do(cmd.Context(), cmd, args))
	}
}

// aboutJob is asking, for a command whose argument is the id of a job, which it finds. action
// is what an error says that was to be done with it.
func (d *jobClient) aboutJob(action string, do func(ctx context.Context, cmd *cobra.Command, j jobapi.Job) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if _, err := jobs.ParseID(args[0]); err != nil {
			return program.Exit(program.Usage, err)
		}
		return d.asking(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			j, err := d.find(ctx, action, args[0])
			if err != nil {
				return err
			}
			return do(ctx, cmd, j)
		})(cmd, args)
	}
}

func (d *jobClient) open(stderr io.Writer) error {
	d.api = cmp.Or(d.api, os.Getenv("JOB_API"), "http://127.0.0.1:8080")
	d.tokenFile = cmp.Or(d.tokenFile, os.Getenv("JOB_TOKEN_FILE"))
	d.caFile = cmp.Or(d.caFile, os.Getenv("JOB_CA_FILE"))
	if d.scope != "" && !slices.Contains(apiclient.Scopes(), d.scope) {
		return fmt.Errorf("--scope is %.40q: want %s", d.scope, strings.Join(apiclient.Scopes(), ", "))
	}
	token, err := d.token(stderr)
	if err != nil {
		return err
	}
	client, err := apiclient.New(apiclient.Config{
		URL: d.api, Token: token, CAFile: d.caFile, Version: versionText(),
		Retrying: func(err error) { fmt.Fprintf(stderr, "batchfleet: %s; retrying\n", oneLine(err.Error())) },
	})
	if err != nil {
		return fmt.Errorf("--api: %w", err)
	}
	d.Client = client
	return nil
}

// token reads the token, if there is a file for it.
func (d *jobClient) token(stderr io.Writer) (string, error) {
	if d.tokenFile == "" {
		return "", nil
	}
	token, err := settings.ReadToken(d.tokenFile)
	switch _, named := errors.AsType[*fs.PathError](err); {
	case named:
		return "", fmt.Errorf("--token-file: %w", err)
	case err != nil:
		return "", fmt.Errorf("--token-file %s: %w", d.tokenFile, err)
	}
	if info, err := os.Stat(d.tokenFile); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		fmt.Fprintf(stderr, "batchfleet: other users of this machine may read a token: %s has mode %s; chmod 600\n", d.tokenFile, info.Mode().Perm())
	}
	return token, nil
}

// find returns a job, and sets the scope to the one that has it. action is what an
// error says that was to be done with it.
func (d *jobClient) find(ctx context.Context, action, id string) (j jobapi.Job, err error) {
	if d.scope != "" {
		return d.Find(ctx, action, id, d.scope)
	}
	if j, err = d.Find(ctx, action, id); err != nil {
		return j, err
	}
	if !slices.Contains(apiclient.Scopes(), j.Scope) {
		return j, fmt.Errorf("%s job %s: it says that its scope is %.40q: give --scope", action, id, j.Scope)
	}
	d.scope = j.Scope
	return j, nil
}

// jobCoded gives an error its exit code. It explains what only the server's operator
// can repair.
func jobCoded(ctx context.Context, err error) error {
	refused, ok := errors.AsType[*jobapi.Refusal](err)
	if !ok && errors.Is(err, jobs.ErrUnavailable) && ctx.Err() == nil {
		err = fmt.Errorf("%w; --api (or JOB_API) says where `batchfleet gateway` or `batchfleet dev` answers", err)
	}
	coded := program.Coded(ctx, err)
	switch {
	case !ok || errors.Is(err, jobs.ErrUnavailable):
	case refused.Status == http.StatusBadRequest, refused.Status == http.StatusForbidden:
		coded = program.Exit(program.Usage, err)
	case refused.Status == http.StatusUnauthorized:
		coded = program.Exit(program.Usage, fmt.Errorf("%w; --token-file (or JOB_TOKEN_FILE) names the file with the token, and on the server `batchfleet token new` makes one", err))
	}
	return tidy(coded)
}

// tidy keeps the terminal safe from what a server has said.
func tidy(err error) error {
	coded, ok := errors.AsType[program.ExitError](err)
	if !ok || coded.Err == nil {
		return err
	}
	if text := oneLine(coded.Err.Error()); text != coded.Err.Error() {
		return program.Exit(coded.Code, errors.New(text))
	}
	return err
}
