package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// The dead letters of a gateway are jobs that have failed for good. They are in its Redis, not
// in Pub/Sub, so nobody holds them while they are looked at.

// dlqScope says whose dead letters a command is about.
type dlqScope struct{ connection }

func (s *dlqScope) flags(cmd *cobra.Command) {
	s.connection.flags(cmd)
	cmd.Flags().StringVar(&s.scope, "scope", "", "fleet (of Pub/Sub, read directly) or zpe (of the gateway); zpe with --api, else fleet")
	complete(cmd, "scope", words("fleet", "zpe"))
}

// either makes the body of a dlq command: what to do with the fleet's dead letters, and with a
// gateway's.
func (s *dlqScope) either(fleet func(cmd *cobra.Command, args []string) error, gateway func(ctx context.Context, cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		switch remote := s.address() != ""; {
		case s.scope != "" && s.scope != "fleet" && s.scope != "zpe":
			return program.Exit(program.Usage, fmt.Errorf("--scope is %.40q: want fleet or zpe", s.scope))
		case s.scope == "fleet" && remote:
			return program.Exit(program.Usage, errors.New("dead letters of Pub/Sub are read directly: leave out --api (or BATCHFLEET_API), or have the server redrive them: `batchfleet run redrive`"))
		case s.scope != "zpe" && !remote:
			return fleet(cmd, args)
		}
		s.scope = "zpe"
		if err := checkIDs(args); err != nil {
			return err
		}
		return s.using(looks, func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if err := s.needsGateway(); err != nil {
				return err
			}
			return gateway(ctx, cmd, args)
		})(cmd, args)
	}
}

// pageOfLetters is how many dead letters of a gateway are asked for at once.
const pageOfLetters = 500

// letters returns the gateway's dead letters, newest first: those with the names, if there are
// any, and the names without one. At most most are returned, and more says that there are more.
func (s *dlqScope) letters(ctx context.Context, names []string, most int) (found []wire.JobResponse, missing []string, more int, err error) {
	for total := 1; len(found) < min(total, most); {
		page, count, err := s.gateway().DeadLetters(ctx, len(found), min(pageOfLetters, most-len(found)))
		if err != nil {
			return nil, nil, 0, err
		}
		if found, total = append(found, page...), count; len(page) == 0 {
			break
		}
		more = max(0, total-len(found))
	}
	if len(names) == 0 {
		return found, nil, more, nil
	}
	has := func(id string) bool {
		return slices.ContainsFunc(found, func(j wire.JobResponse) bool { return j.JobID == id })
	}
	for _, name := range names {
		if !has(name) {
			missing = append(missing, name)
		}
	}
	found = slices.DeleteFunc(found, func(j wire.JobResponse) bool { return !slices.Contains(names, j.JobID) })
	return found, missing, 0, nil
}

func deadRowOf(j wire.JobResponse) deadRow {
	at, _ := time.Parse(time.RFC3339, j.UpdatedAt)
	reason := j.Detail // which begins with the code of the last failure
	return deadRow{Name: j.JobID, JobID: jobs.ID(j.JobID), Kind: zpeKind, Cause: "failed", Reason: reason, FailedAt: at.UTC(), Attempts: j.RetryCount, Letters: 1}
}

// redriveGateway queues dead letters of a gateway again, oldest first.
func (s *dlqScope) redriveGateway(ctx context.Context, cmd *cobra.Command, names []string, f redriveFlags) error {
	found, missing, _, err := s.letters(ctx, names, maxGatewayLetters)
	if err != nil {
		return err
	}
	slices.Reverse(found)
	found = slices.DeleteFunc(found, func(j wire.JobResponse) bool { return !strings.Contains(deadRowOf(j).Reason, f.reason) })
	if f.count > 0 {
		found = found[:min(f.count, len(found))]
	}
	if len(found) == 0 && len(missing) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "no dead letters to redrive")
	}
	pace := time.NewTicker(time.Duration(float64(time.Second) / f.rate))
	defer pace.Stop()
	for i, j := range found {
		did := "would be redriven"
		if !f.dry {
			if i > 0 {
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-pace.C:
				}
			}
			if _, err := s.Retry(ctx, "zpe", j.JobID); err != nil {
				return fmt.Errorf("%d of %d left: %w", len(found)-i, len(found), err)
			}
			did = "redriven"
		}
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n", oneLine(j.JobID), did); err != nil {
			return err
		}
	}
	return lacking(missing)
}

// maxGatewayLetters is how many dead letters of a gateway one command looks through.
const maxGatewayLetters = 100_000

// purgeGateway drops dead letters of a gateway.
func (s *dlqScope) purgeGateway(ctx context.Context, cmd *cobra.Command, names []string, dry, yes bool) error {
	found, missing, _, err := s.letters(ctx, names, maxGatewayLetters)
	if err != nil {
		return err
	}
	if len(found) > 0 && !dry && !yes {
		if err := confirm(ctx, cmd.ErrOrStderr(), fmt.Sprintf("Drop %d dead letters for good?", len(found))); err != nil {
			return err
		}
	}
	for _, j := range found {
		did := "would be purged"
		if !dry {
			if err := s.gateway().Drop(ctx, j.JobID); err != nil {
				return err
			}
			did = "purged"
		}
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n", oneLine(j.JobID), did); err != nil {
			return err
		}
	}
	return lacking(missing)
}
