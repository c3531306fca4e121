package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/jobapi/access"
)

func tokenCommand() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "token",
		Short: "Make, list and revoke the tokens of the Job API",
		Long: "Make, list and revoke the tokens of the Job API, in the file that `batchfleet gateway --job-tokens-file` reads. It holds\n" +
			"no token, only what recognises one, and a gateway reads it again within seconds of a change.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(tokenNewCommand(&file), tokenListCommand(&file), tokenRevokeCommand(&file))
	for _, sub := range c.Commands() {
		sub.Flags().StringVar(&file, "file", "", "the file of tokens; required")
		required(sub, "file")
	}
	return c
}

// required makes flags of a command required.
func required(cmd *cobra.Command, flags ...string) {
	for _, f := range flags {
		if err := cmd.MarkFlagRequired(f); err != nil {
			panic(err)
		}
	}
}

// checkTokensFile returns what is wrong with a file of tokens, which need not be there yet, before a
// lock is made beside it.
func checkTokensFile(file string) error {
	_, err := access.ReadTokens(file)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err = os.Stat(filepath.Dir(file)); err == nil {
			return nil
		}
	}
	if err != nil {
		return program.Exit(program.Usage, fmt.Errorf("--file: %w", err))
	}
	return nil
}

func tokenNewCommand(file *string) *cobra.Command {
	var name, scope, ttl, out string
	cmd := &cobra.Command{
		Use: "new", Short: "Make a token, and print it or write it to a file, this once", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := access.CheckTokenName(name); err != nil {
				return program.Exit(program.Usage, fmt.Errorf("--name: %w", err))
			}
			reach, err := access.ParseScope(scope)
			if err != nil {
				return program.Exit(program.Usage, fmt.Errorf("--scope: %w", err))
			}
			life, err := parseLife(ttl)
			if err != nil {
				return program.Exit(program.Usage, fmt.Errorf("--ttl is %.40q: %w", ttl, err))
			}
			if err := checkTokensFile(*file); err != nil {
				return err
			}
			var expires time.Time
			if life > 0 {
				expires = time.Now().Add(life).Truncate(time.Second)
			}
			add := func(to io.Writer) error {
				token, err := access.AddToken(*file, name, reach, expires)
				if err != nil {
					return err
				}
				if _, err = fmt.Fprintln(to, token); err != nil {
					return errors.Join(err, access.RevokeToken(*file, name)) // it was not printed
				}
				return nil
			}
			if out == "" {
				err = add(cmd.OutOrStdout())
			} else if err = writeNew(out, add); err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "the token is in %s\n", oneLine(out))
			}
			return program.Coded(cmd.Context(), err)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&name, "name", "", "what to call it, to revoke it by; required")
	flags.StringVar(&scope, "scope", "", "read, operate (which includes read) or admin (which includes both); required")
	flags.StringVar(&ttl, "ttl", "", "how long it is good, such as 90d or 12h; without end when empty")
	flags.StringVar(&out, "out", "", "a new file for the token, which its owner alone may read; standard output when empty")
	required(cmd, "name", "scope")
	return cmd
}

// writeNew makes a file that its owner alone may read, and no other in its place,
// and keeps it if write succeeds.
func writeNew(file string, write func(io.Writer) error) (err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return program.Exit(program.Usage, fmt.Errorf("--out: %w: a token replaces no file", err))
	}
	if err != nil {
		return program.Exit(program.Usage, fmt.Errorf("--out: %w", err))
	}
	if err = errors.Join(write(f), f.Close()); err != nil {
		_ = os.Remove(file)
	}
	return err
}

// maxLife is the longest life of a token that ends.
const maxLife = 3660 * 24 * time.Hour

// parseLife reads how long a token is good: days, or a duration of hours and less.
// It returns 0 for an empty text.
func parseLife(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, ok, err := parseDays(s)
	if !ok {
		d, err = time.ParseDuration(s)
	}
	if err != nil {
		return 0, errors.New("want days as 90d, or a duration such as 12h")
	}
	if d < time.Minute || d > maxLife {
		return 0, errors.New("want 1m to 3660d")
	}
	return d, nil
}

func tokenListCommand(file *string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the tokens of the file by name", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tokens, err := access.ReadTokens(*file)
			if err != nil {
				return program.Exit(program.Usage, fmt.Errorf("--file: %w", err))
			}
			if len(tokens) == 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s holds no token; `batchfleet token new` makes one\n", oneLine(*file))
			}
			return printTokens(cmd.OutOrStdout(), tokens, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// tokenRow is how a token is printed as JSON.
type tokenRow struct {
	Name    string `json:"name"`
	Scope   string `json:"scope"`
	Expires string `json:"expiresAt,omitempty"`
	Expired bool   `json:"expired"`
}

func printTokens(out io.Writer, tokens []access.Token, asJSON bool) error {
	rows := each(tokens, func(t access.Token) tokenRow {
		r := tokenRow{Name: t.Name, Scope: t.Scope.String()}
		if !t.Expires.IsZero() {
			r.Expires, r.Expired = moment(t.Expires.UTC()), !time.Now().Before(t.Expires)
		}
		return r
	})
	return printRows(out, asJSON, rows, []any{"NAME", "SCOPE", "EXPIRES"}, func(r tokenRow) []any {
		expires := cmp.Or(r.Expires, "never")
		if r.Expired {
			expires += " (expired)"
		}
		return []any{r.Name, r.Scope, expires}
	})
}

func tokenRevokeCommand(file *string) *cobra.Command {
	return &cobra.Command{
		Use: "revoke NAME", Short: "Take a token out of the file; gateways refuse it within seconds", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := access.CheckTokenName(args[0]); err != nil {
				return program.Exit(program.Usage, err)
			}
			if err := checkTokensFile(*file); err != nil {
				return err
			}
			if err := access.RevokeToken(*file, args[0]); err != nil {
				if errors.Is(err, fs.ErrNotExist) {
					err = fmt.Errorf("%s has no token %q; `batchfleet token list --file %s` shows the names", *file, args[0], program.ShellWord(*file))
				}
				return program.Exit(program.Failed, err)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is revoked\n", oneLine(args[0]))
			return err
		},
	}
}
