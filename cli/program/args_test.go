package program

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestF63WrongArgumentsAreSaidInTheWordsOfTheUsageLine(t *testing.T) {
	nothing := func(*cobra.Command, []string) error { return nil }
	root := &cobra.Command{Use: "p", Args: cobra.NoArgs, RunE: nothing}
	worker := &cobra.Command{Use: "worker", Args: cobra.NoArgs, RunE: nothing}
	worker.AddCommand(&cobra.Command{Use: "get", Args: cobra.NoArgs, RunE: nothing}, &cobra.Command{Use: "list", Args: cobra.NoArgs, RunE: nothing},
		&cobra.Command{Use: "register", Args: cobra.NoArgs, RunE: nothing})
	workers := &cobra.Command{Use: "workers", Args: cobra.NoArgs, RunE: nothing}
	workers.AddCommand(&cobra.Command{Use: "revoke", Args: cobra.NoArgs, RunE: nothing})
	root.AddCommand(worker, workers,
		&cobra.Command{Use: "get JOB…", SuggestFor: []string{"acquire"}, Args: cobra.MinimumNArgs(1), RunE: nothing},
		&cobra.Command{Use: "copy FROM TO", Args: cobra.ExactArgs(2), RunE: nothing},
		&cobra.Command{Use: "check [ADDRESS]", Args: cobra.MaximumNArgs(1), RunE: nothing},
		&cobra.Command{Use: "other FILE", RunE: nothing, Args: func(*cobra.Command, []string) error { return errors.New("name one") }},
	)
	root.SilenceErrors, root.SilenceUsage = true, true
	explainArgs(root)
	tests := []struct{ line, want string }{
		{"get", "JOB is missing: want `p get JOB… [flags]`"},
		{"get a b c", ""},
		{"copy", "FROM is missing: want `p copy FROM TO [flags]`"},
		{"copy a", "TO is missing: want `p copy FROM TO [flags]`"},
		{"copy a b c", "\"c\" is one argument too many: want `p copy FROM TO [flags]`"},
		{"check", ""},
		{"check a b", "\"b\" is one argument too many: want `p check [ADDRESS] [flags]`"},
		{"worker regsiter", "\"regsiter\" is no command of `p worker`: do you mean register?"},
		{"worker lst", "\"lst\" is no command of `p worker`: do you mean list or get?"},
		{"worker xyzzy", "\"xyzzy\" is no command of `p worker`; --help lists them"},
		{"worker register now", "\"now\" is one argument too many: want `p worker register [flags]`"},
		{"gte", "\"gte\" is no command of `p`: do you mean get?"},
		{"worker copy", "\"copy\" is no command of `p worker`: do you mean `p copy`?"},
		{"worker revoke", "\"revoke\" is no command of `p worker`: do you mean `p workers revoke`?"},
		{"workers register", "\"register\" is no command of `p workers`: do you mean `p worker register`?"},
		{"acquire", "\"acquire\" is no command of `p`: do you mean `p get`?"},
		{"other", "name one"}, // a check of the command's own has words of its own
	}
	for _, tt := range tests {
		root.SetArgs(strings.Fields(tt.line))
		got := ""
		if err := root.ExecuteContext(t.Context()); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("p %s: %q, want %q", tt.line, got, tt.want)
		}
	}
}
