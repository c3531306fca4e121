package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

// check is one thing the doctor looks at.
type check struct {
	name string
	what string                                // what exactly was looked at
	look func(context.Context) (string, error) // says what it found
	help func(error) string                    // what to do about it
}

// checked is what a check has found, as it is printed as JSON.
type checked struct {
	Check  string `json:"check"`
	What   string `json:"what"`
	Result string `json:"result"` // ok, warn or FAIL
	Found  string `json:"found"`
	Do     string `json:"do,omitempty"`
}

func (c check) run(ctx context.Context) checked {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	found, err := c.look(ctx)
	r := checked{Check: c.name, What: c.what, Result: "ok", Found: found}
	if err == nil {
		return r
	}
	r.Do = c.help(err)
	if w := (warning{}); errors.As(err, &w) || errors.Is(err, worker.ErrDraining) { // an operator wants the latter
		r.Result, r.Found = "warn", strings.ReplaceAll(err.Error(), "\n", "; ")
		return r
	}
	r.Result, r.Found = "FAIL", strings.NewReplacer("\n", "; ", jobs.ErrUnavailable.Error()+": ", "").Replace(err.Error())
	return r
}

// warning is what a check has found that does not make it fail.
type warning struct{ error }

// runChecks runs checks and prints what they find. misconfigured is what is wrong with the environment itself.
func runChecks(cmd *cobra.Command, checks []check, misconfigured error, asJSON bool) error {
	out, failures := cmd.OutOrStdout(), 0
	for _, c := range checks {
		r := c.run(cmd.Context())
		if r.Result == "FAIL" {
			failures++
		}
		if asJSON {
			if err := printJSON(out, r); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(out, "%-4s  %-8s %s: %s\n", r.Result, r.Check, oneLine(r.What), oneLine(r.Found))
		if r.Do != "" {
			fmt.Fprintf(out, "      what to do: %s\n", oneLine(r.Do))
		}
	}
	switch {
	case misconfigured != nil:
		return misconfigured
	case failures > 0:
		return program.Exit(program.Failed, fmt.Errorf("%d of %d checks failed", failures, len(checks)))
	}
	return nil
}

func always(text string) func(error) string { return func(error) string { return text } }
