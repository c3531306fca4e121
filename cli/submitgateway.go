package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobapi"
	apiclient "github.com/batchfleet/batchfleet/jobapi/client"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pubsub/provider"
)

// submitToGateway queues jobs of a kind that a gateway hands out: through a server, or directly in its Redis.
func (f *submitFlags) submitToGateway(c *connection, cmd *cobra.Command, files []string) error {
	if err := useKindsFile(f.asked.kindsFile); err != nil { // of a server in this process, too
		return err
	}
	set, err := f.asked.readKinds()
	if err != nil {
		return err
	}
	kind := set.Get(jobs.Kind(f.kind))
	if kind == nil && c.address() == "" {
		return program.Exit(program.Usage, fmt.Errorf("--kind: %q is in no kinds file here: give with --kinds (or KINDS_FILE) that of the gateway, or with --api the gateway", f.kind))
	}
	inputs, err := f.asked.inputs(files)
	if err != nil {
		return err
	}
	s := jobapi.Submission{Kind: f.kind, Inputs: inputs[0].expected(), Key: f.asked.idempotency}
	if s.Params, err = f.asked.paramsOf(cmd.Context(), kind); err != nil {
		return err
	}
	if kind != nil { // what is wrong is said before anything is sent
		if _, err := provider.CheckKind(kind, s); err != nil {
			return flagged(err)
		}
	}
	n := needKinds
	for _, in := range inputs {
		if len(in.sources) > 0 {
			n = needUploads
		}
	}
	return c.connected(n, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
		return c.submitToGateway(ctx, inputs, s, *f, cmd.OutOrStdout(), cmd.ErrOrStderr())
	})(cmd, files)
}

func (c *connection) submitToGateway(ctx context.Context, inputs []jobInput, s jobapi.Submission, f submitFlags, out, stderr io.Writer) error {
	if err := c.needsGateway(); err != nil {
		return err
	}
	if f.wait {
		if err := c.mayFollow(ctx, gatewayScope); err != nil {
			return err
		}
	}
	var sent []submitted
	var failed error
	for _, in := range inputs {
		id, err := c.giveGateway(ctx, in, s)
		if err != nil {
			failed = flaggedOfGateway(f.kind, err)
			if len(inputs) > 1 {
				failed = fmt.Errorf("submit %s: %w", in.label, failed)
			}
			break
		}
		sent = append(sent, submitted{jobs.ID(id), in.label})
	}
	if !f.wait || failed != nil {
		return errors.Join(printSubmitted(out, sent, f.asJSON), failed)
	}
	return c.waitForAll(ctx, sent, gatewayScope, f.kind, f, out, stderr)
}

// flaggedOfGateway is flagged for the errors of a gateway's own routes.
func flaggedOfGateway(kind string, err error) error {
	refused, ok := errors.AsType[*jobapi.Refusal](err)
	if !ok || errors.Is(err, apiclient.ErrNoGateway) {
		return flagged(err)
	}
	text := lower(strings.TrimSuffix(refused.Message, "."))
	switch {
	case refused.Code == string(wire.NotFound):
		return program.Exit(program.Usage, fmt.Errorf("--kind: the gateway has no kind %q: its kinds file (KINDS_FILE) names those there are", kind))
	case refused.Code == string(wire.PayloadTooLarge):
		return program.Exit(program.Usage, errors.New(text))
	case refused.Code == string(wire.IdempotencyReused):
		return program.Exit(program.Usage, errors.New("--idempotency-key: this idempotency key was used for a job with other parameters or with another input"))
	}
	return flagged(err)
}

// giveGateway uploads the inputs of a job that are files, and queues the job.
func (c *connection) giveGateway(ctx context.Context, in jobInput, s jobapi.Submission) (id string, err error) {
	req := wire.SubmitRequest{Params: s.Params}
	for _, from := range in.sources {
		input := from.object
		if from.file != "" {
			if input, err = c.uploadToGateway(ctx, s.Kind, from); err != nil {
				return "", err
			}
		}
		req.Inputs = append(req.Inputs, input)
	}
	if len(req.Inputs) == 1 { // an older gateway knows no other field
		req.Input, req.Inputs = req.Inputs[0], nil
	}
	return c.gateway().SubmitKind(ctx, s.Kind, req, s.Key)
}

func (c *connection) uploadToGateway(ctx context.Context, kind string, from source) (input string, err error) {
	if from.file == "-" {
		in := program.Stdin(ctx)
		defer in.Close()
		return c.gateway().AddInput(ctx, kind, in, -1)
	}
	f, err := os.Open(from.file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	return c.gateway().AddInput(ctx, kind, f, info.Size())
}
