package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/grid/client"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

func gridClientCommand() *cobra.Command {
	var peer gridPeer
	c := &cobra.Command{
		Use:   "client HOST PORT CLIENTID [DESIRED]",
		Short: "Show that a leader works: submit three jobs of calcA to it, and print their results",
		Long: "Show that a leader works: submit three jobs of the exec calcA to it, each with a file input.txt, and print their\n" +
			"results; the exit code is 1 unless all have succeeded. DESIRED is how many jobs of the client may run at once;\n" +
			"CLIENT_DESIRED_PAR, or 4, when it is left out. To submit jobs of your own there is `batchfleet grid submit`.",
		Example: "  batchfleet grid client 127.0.0.1 5000 clientA 8",
		Args:    cobra.RangeArgs(3, 4),
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		addr, err := joinLeader(args[0], args[1])
		if err != nil {
			return wrongOrder(cmd, err)
		}
		var env GridClientEnv
		if len(args) == 4 {
			env.Desired, err = strconv.Atoi(args[3])
			if err != nil || env.Desired < 1 || env.Desired > wire.MaxClientCap {
				return program.Exit(program.Usage, fmt.Errorf("DESIRED is %.40q: must be from 1 to %d", args[3], wire.MaxClientCap))
			}
		} else if err := settings.Read(&env); err != nil {
			return err
		}
		return runDemo(cmd.Context(), &peer, client.Config{ClientID: args[2], Leaders: []string{addr}, Desired: env.Desired}, cmd.OutOrStdout())
	}
	peer.register(c.Flags())
	return c
}

func gridMultiCommand() *cobra.Command {
	var peer gridPeer
	var policy string
	c := &cobra.Command{
		Use:   "clientx CLIENTID HOST:PORT… [TOTAL]",
		Short: "The same with several leaders, over which the jobs are spread",
		Long: "Show that several leaders work: submit three jobs of the exec calcA, spread over them, and print their results;\n" +
			"the exit code is 1 unless all have succeeded. TOTAL is how many jobs of the client may run at once on all of them\n" +
			"together, 4 when it is left out; each is told an even share.",
		Example: "  batchfleet grid clientx clientA 127.0.0.1:5000 127.0.0.1:5001 127.0.0.1:5002 12",
		Args:    cobra.MinimumNArgs(2),
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		leaders, total, err := client.ParseEndpoints(args[1:])
		if err != nil {
			return wrongOrder(cmd, err)
		}
		chosen, err := parsePolicy(policy)
		if err != nil {
			return program.Exit(program.Usage, err)
		}
		return runDemo(cmd.Context(), &peer, client.Config{ClientID: args[0], Leaders: leaders, Desired: total, Policy: chosen}, cmd.OutOrStdout())
	}
	policyFlag(c, &policy)
	peer.register(c.Flags())
	return c
}

// wrongOrder adds the usage line to what is wrong with an argument: it may stand in the place of another one.
func wrongOrder(cmd *cobra.Command, err error) error {
	return program.Exit(program.Usage, fmt.Errorf("%w; want `%s`", err, cmd.UseLine()))
}

func policyFlag(c *cobra.Command, policy *string) {
	c.Flags().StringVar(policy, "policy", "round-robin", "which leader gets the next job: round-robin, each in turn, or least, the one with the fewest unfinished ones")
	complete(c, "policy", words("round-robin", "least"))
}

func parsePolicy(text string) (client.Policy, error) {
	switch text {
	case "round-robin":
		return client.RoundRobin, nil
	case "least":
		return client.LeastInFlight, nil
	}
	return 0, fmt.Errorf("--policy is %.40q: want round-robin or least", text)
}

// runDemo runs the demo of a client.
func runDemo(ctx context.Context, peer *gridPeer, cfg client.Config, out io.Writer) error {
	cfg.Log = program.NewLog(os.Stderr, slog.LevelWarn)
	if err := connectAs(ctx, peer, &cfg); err != nil {
		return err
	}
	return ofLeaders(ctx, client.Demo(ctx, cfg, out))
}

// connectAs gives a client the connections of the flags, and checks its settings.
func connectAs(ctx context.Context, peer *gridPeer, cfg *client.Config) error {
	if err := peer.open(ctx, cfg.Leaders, cfg.Log); err != nil {
		return program.Mistake(ctx, err)
	}
	cfg.Dial, cfg.Token = peer.dial, peer.token
	if _, err := client.New(*cfg); err != nil {
		return program.Exit(program.Usage, err)
	}
	return nil
}

// ofLeaders gives an error of a client its exit code.
func ofLeaders(ctx context.Context, err error) error {
	if errors.Is(err, client.ErrRefused) {
		return program.Exit(program.Usage, printableText(err))
	}
	if err != nil {
		err = printableText(err)
	}
	return program.Coded(ctx, err)
}

// printableText keeps the terminal safe from what a leader has said.
func printableText(err error) error {
	if text := err.Error(); jobs.Visible(text) != text {
		return errors.New(jobs.Visible(text))
	}
	return err
}
