package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/operations/deadletter"
)

func dlqPurgeCommand() *cobra.Command {
	s := &dlqScope{}
	cmd := &cobra.Command{
		Use: "purge [ID…]", Short: "Drop dead letters for good: those named, or --all",
		Example: "  batchfleet dlq purge --all --dry-run",
	}
	s.flags(cmd)
	all := cmd.Flags().Bool("all", false, "drop all of them")
	yes := cmd.Flags().Bool("yes", false, "do not ask")
	dry := cmd.Flags().Bool("dry-run", false, "only say what would be dropped")
	run := withDeadLetters(waitFlag(cmd), func(ctx context.Context, d *dlqSession, args []string) error {
		chosen, missing := d.all, []string(nil)
		if !*all {
			chosen, missing = deadletter.Named(d.all, args)
		}
		verb := "purged"
		switch {
		case *dry:
			verb = "would be purged"
		case len(chosen) > 0 && !*yes:
			if err := confirm(ctx, d.err, fmt.Sprintf("Drop %s under %s for good?", jobs.Count(len(slices.Concat(chosen...)), "dead letter"), jobs.Count(len(chosen), "name"))); err != nil {
				return err
			}
		}
		for _, one := range chosen {
			if !*dry {
				if err := d.reader.Drop(ctx, one...); err != nil {
					return err
				}
			}
			if _, err := fmt.Fprintf(d.out, "%s  %s\n", oneLine(one.Name()), verb); err != nil {
				return err
			}
		}
		return lacking(missing)
	})
	inScope := s.ofScope(run, func(ctx context.Context, cmd *cobra.Command, args []string) error {
		return s.purgeGateway(ctx, cmd, args, *dry, *yes)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case *all && len(args) > 0:
			return program.Exit(program.Usage, errors.New("--all drops all dead letters, names drop those named: give one or the other"))
		case !*all && len(args) == 0:
			return program.Exit(program.Usage, errors.New("name what to drop, or give --all"))
		case !*yes && !*dry && !term.IsTerminal(int(os.Stdin.Fd())):
			return program.Exit(program.Usage, errors.New("this drops dead letters for good: give --yes, or --dry-run to see which"))
		}
		return inScope(cmd, args)
	}
	return cmd
}

// confirm asks on the terminal. The dead letters are held meanwhile.
func confirm(ctx context.Context, stderr io.Writer, question string) error {
	fmt.Fprintf(stderr, "%s [y/N] ", question)
	answer := make(chan string, 1)
	go func() { // left behind by an interrupt: a read of a terminal cannot be ended
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case got := <-answer:
		if got != "y" && got != "yes" {
			return program.Exit(program.Failed, errors.New("nothing was dropped"))
		}
		return nil
	}
}
