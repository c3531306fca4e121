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

// refuseUnknown adds the commands that every program has, completion and help, which explain
// themselves if they are asked about what there is not, and has them say so.
func refuseUnknown(root *cobra.Command, args []string) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "completion":
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() } // without, its Args are not asked
		case "help":
			show := cmd.Run
			cmd.Run, cmd.RunE = nil, func(cmd *cobra.Command, names []string) error {
				if found, rest, err := root.Find(names); err == nil && len(rest) > 0 {
					return noCommand(found, rest[0])
				}
				show(cmd, names)
				return nil
			}
		}
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

// noCommand says that there is no such command below cmd, and which may be meant: one that is
// called so elsewhere, or one below cmd that is spelled nearly so.
func noCommand(cmd *cobra.Command, name string) error {
	err := fmt.Errorf("%.40q is no command of `%s`", name, cmd.CommandPath())
	if other := elsewhere(cmd, name); other != nil {
		return fmt.Errorf("%w: do you mean `%s`?", err, other.CommandPath())
	}
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		distance := func(other string) int { return levenshtein.ComputeDistance(name, other) }
		slices.SortStableFunc(near, func(a, b string) int { return cmp.Compare(distance(a), distance(b)) })
		return fmt.Errorf("%w: do you mean %s?", err, strings.Join(near, " or "))
	}
	return fmt.Errorf("%w; --help lists them", err)
}

// elsewhere returns the command that people look for as name below cmd: one that says that it is
// looked for so; one of that name below the plural or the singular of cmd, as `workers list` is
// for `worker list`; or one of that name beside cmd. It is nil if there is none.
func elsewhere(cmd *cobra.Command, name string) *cobra.Command {
	if i := slices.IndexFunc(cmd.Commands(), func(c *cobra.Command) bool { return slices.Contains(c.SuggestFor, name) }); i >= 0 {
		return cmd.Commands()[i]
	}
	if !cmd.HasParent() {
		return nil
	}
	if other := called(cmd.Parent(), strings.TrimSuffix(cmd.Name(), "s")); other != nil && other != cmd && called(other, name) != nil {
		return called(other, name)
	}
	if other := called(cmd.Parent(), cmd.Name()+"s"); other != nil && called(other, name) != nil {
		return called(other, name)
	}
	return called(cmd.Parent(), name)
}

// called returns the command of that name right below cmd that people see, nil for none.
func called(cmd *cobra.Command, name string) *cobra.Command {
	for _, c := range cmd.Commands() {
		if (c.Name() == name || c.HasAlias(name)) && c.IsAvailableCommand() {
			return c
		}
	}
	return nil
}
