package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobapi"
	apiclient "github.com/batchfleet/batchfleet/jobapi/client"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pubsub"
)

// The dead letters of a gateway are jobs that have failed for good. They are in its Redis, not
// in Pub/Sub, so they are not held while they are looked at.

var errReadDirectly = errors.New("dead letters of Pub/Sub are read directly: leave out --api (or BATCHFLEET_API), or have the server redrive them: `batchfleet run redrive`")

// dlqScope says whose dead letters a command is about.
type dlqScope struct {
	connection

	kind string // of a gateway's jobs
}

func (s *dlqScope) flags(cmd *cobra.Command) {
	s.connection.flags(cmd)
	cmd.Flags().StringVar(&s.scope, "scope", "", "fleet (of Pub/Sub, read directly), gateway or zpe (of the gateway); zpe with --api, else fleet")
	cmd.Flags().StringVar(&s.kind, "kind", "", "with --scope gateway: which kind of its kinds file; each has dead letters of its own")
	complete(cmd, "scope", words(fleetScope, gatewayScope, zpeScope))
}

// ofScope makes the body of a dlq command: what to do with the fleet's dead letters, and with a
// gateway's.
func (s *dlqScope) ofScope(fleet func(cmd *cobra.Command, args []string) error, gateway func(ctx context.Context, cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ofKind := s.scope == gatewayScope
		switch remote := s.address() != ""; {
		case s.scope != "" && s.scope != fleetScope && s.scope != zpeScope && !ofKind:
			return program.Exit(program.Usage, fmt.Errorf("--scope is %.40q: want fleet, gateway or zpe", s.scope))
		case ofKind && !pubsub.ValidKind(s.kind):
			return program.Exit(program.Usage, fmt.Errorf("--kind is %.40q: --scope gateway needs one of the kinds file, because each has dead letters of its own", s.kind))
		case !ofKind && s.kind != "":
			return program.Exit(program.Usage, errors.New("--kind is for --scope gateway"))
		case s.scope == fleetScope && remote:
			return program.Exit(program.Usage, errReadDirectly)
		case s.scope != zpeScope && !ofKind && !remote:
			return fleet(cmd, args)
		}
		byDefault, n := s.scope == "", needKinds
		if !ofKind {
			s.scope, s.kind, n = zpeScope, zpeKind, needRedis
		}
		if err := checkIDs(args); err != nil {
			return err
		}
		return s.connected(n, func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if err := s.needsGateway(); err != nil {
				return err
			}
			err := gateway(ctx, cmd, args)
			if byDefault && errors.Is(err, apiclient.ErrNoGateway) {
				return program.Exit(program.Usage, errReadDirectly)
			}
			return err
		})(cmd, args)
	}
}

// deadLetterPage is how many dead letters of a gateway are asked for at once.
const deadLetterPage = 500

// deadLetters returns the gateway's dead letters, newest first: those with the names, if there
// are any, and the names without one. At most most are looked at, and more says that there are
// more.
func (s *dlqScope) deadLetters(ctx context.Context, names []string, most int) (found []wire.JobResponse, missing []string, more int, err error) {
	seen := map[string]bool{} // the list may move meanwhile, so that a page repeats a job
	for offset, total := 0, 1; offset < min(total, most); {
		page, count, err := s.gateway().DeadLetters(ctx, s.kind, offset, min(deadLetterPage, most-offset))
		if err != nil {
			return nil, nil, 0, err
		}
		if len(page) == 0 {
			break
		}
		for _, j := range page {
			if !seen[j.JobID] && (len(names) == 0 || slices.Contains(names, j.JobID)) {
				found = append(found, j)
			}
			seen[j.JobID] = true
		}
		offset, total = offset+len(page), count
		more = max(0, total-offset)
	}
	for _, name := range names {
		if !seen[name] {
			missing = append(missing, name)
		}
	}
	return found, missing, more, nil
}

// unlessRefused returns what to say of a job that a server does not let be done to as asked, and
// any other error.
func unlessRefused(did string, err error) (string, error) {
	refused, ok := errors.AsType[*jobapi.Refusal](err)
	if ok && (refused.Status == http.StatusConflict || refused.Status == http.StatusNotFound) {
		return "left: " + refused.Message, nil
	}
	return did, err
}

func deadRowOf(j wire.JobResponse) deadRow {
	at, _ := time.Parse(time.RFC3339, j.UpdatedAt)
	reason := j.Detail // which begins with the code of the last failure
	return deadRow{Name: j.JobID, JobID: jobs.ID(j.JobID), Kind: jobs.Kind(cmp.Or(j.Kind, zpeKind)), Cause: "failed", Reason: reason, FailedAt: at.UTC(), Attempts: j.RetryCount, Letters: 1}
}

// redriveGateway queues dead letters of a gateway again, oldest first.
func (s *dlqScope) redriveGateway(ctx context.Context, cmd *cobra.Command, names []string, f redriveFlags) error {
	found, missing, _, err := s.deadLetters(ctx, names, maxDeadLetters)
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
			_, err := s.Retry(ctx, s.scope, j.JobID)
			if did, err = unlessRefused("redriven", err); err != nil {
				return fmt.Errorf("%d of %d left: %w", len(found)-i, len(found), err)
			}
		}
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n", oneLine(j.JobID), oneLine(did)); err != nil {
			return err
		}
	}
	return noDeadLetter(missing)
}

// maxDeadLetters is how many dead letters of a gateway one command looks through.
const maxDeadLetters = 100_000

// purgeGateway drops dead letters of a gateway.
func (s *dlqScope) purgeGateway(ctx context.Context, cmd *cobra.Command, names []string, dry, yes bool) error {
	found, missing, _, err := s.deadLetters(ctx, names, maxDeadLetters)
	if err != nil {
		return err
	}
	if len(found) > 0 && !dry && !yes {
		if err := confirm(ctx, cmd.ErrOrStderr(), fmt.Sprintf("Drop %s for good?", jobs.Count(len(found), "dead letter"))); err != nil {
			return err
		}
	}
	for _, j := range found {
		did := "would be purged"
		if !dry {
			if did, err = unlessRefused("purged", s.gateway().Drop(ctx, s.kind, j.JobID)); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n", oneLine(j.JobID), oneLine(did)); err != nil {
			return err
		}
	}
	return noDeadLetter(missing)
}

// noDeadLetter is the error for names that no dead letter of a gateway has.
func noDeadLetter(missing []string) error {
	if len(missing) == 0 {
		return nil
	}
	return program.Exit(program.Failed, fmt.Errorf("no dead letter of %s", strings.Join(missing, ", ")))
}
