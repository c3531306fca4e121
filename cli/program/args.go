package program

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/cobra"
)

// explainArgs has cmd and every command below it say in the words of its usage line what is
// wrong with its arguments, where cobra only counts them.
func explainArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			if err == nil || !countsArgs(err) {
				return err
			}
			return wrongArgs(cmd, args, err)
		}
	}
	for _, sub := range cmd.Commands() {
		explainArgs(sub)
	}
}

// countsArgs reports whether an error is one of cobra's own checks, and not of a command.
func countsArgs(err error) bool {
	return slices.ContainsFunc([]string{"requires ", "accepts ", "unknown command "}, func(begin string) bool { return strings.HasPrefix(err.Error(), begin) })
}

// wrongArgs says which argument is missing or too many, and err if neither is.
func wrongArgs(cmd *cobra.Command, args []string, err error) error {
	names := strings.Fields(cmd.Use)[1:]
	if len(args) < len(names) && !strings.HasPrefix(names[len(args)], "[") {
		return fmt.Errorf("%s is missing: want `%s`", strings.TrimSuffix(names[len(args)], "…"), cmd.UseLine())
	}
	switch {
	case len(args) <= len(names):
		return err
	case len(names) == 0 && cmd.HasAvailableSubCommands():
		return noCommand(cmd, args[0])
	}
	return fmt.Errorf("%.40q is one argument too many: want `%s`", args[len(names)], cmd.UseLine())
}

// noCommand says that there is no such command below cmd, and which of them may be meant.
func noCommand(cmd *cobra.Command, name string) error {
	err := fmt.Errorf("%.40q is no command of `%s`", name, cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		distance := func(other string) int { return levenshtein.ComputeDistance(name, other) }
		slices.SortStableFunc(near, func(a, b string) int { return cmp.Compare(distance(a), distance(b)) })
		return fmt.Errorf("%w: do you mean %s?", err, strings.Join(near, " or "))
	}
	return fmt.Errorf("%w; --help lists them", err)
}
