package settings

import (
	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
)

// Of is a pointer to settings of type E, as [Read] fills them.
type Of[E any] interface {
	*E
	Check() []error
}

// With makes the body of a command that needs settings: it reads them, and gives the
// error of do its exit code.
func With[E any, P Of[E]](do func(cmd *cobra.Command, env P, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		env := P(new(E))
		if err := Read(env); err != nil {
			return err
		}
		return program.Coded(cmd.Context(), do(cmd, env, args))
	}
}
