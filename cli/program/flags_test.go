package program

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func TestF63WrongFlagsAreSaidInPlainWords(t *testing.T) {
	tests := []struct{ line, want string }{
		{"--file f --name n --limit many", `--limit is "many": want a whole number`},
		{"--file f --name n -l 1.5", `--limit is "1.5": want a whole number`},
		{"--file f --name n --limit 99999999999999999999", `--limit is "99999999999999999999": the number is too large`},
		{"--file f --name n --big -1", `--big is "-1": want a whole number that is not negative`},
		{"--file f --name n --rate fast", `--rate is "fast": want a number`},
		{"--file f --name n --json=perhaps", `--json is "perhaps": want true or false`},
		{"--file f --name n --timeout never", `--timeout is "never": want a duration such as 500ms, 30s or 5m`},
		{"--file f --name n --timeout", "--timeout needs a value"},
		{"--file f --name n -l", "--limit needs a value"},
		{"--file f --name n --other", "unknown flag: --other"},
		{"--file f", "--name is missing"},
		{"", "--file and --name are missing"},
		{"--file f --name n", ""},
	}
	for _, tt := range tests {
		p := &cobra.Command{Use: "p", SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) error { return nil }}
		flags := p.Flags()
		flags.IntP("limit", "l", 0, "")
		flags.Uint64("big", 0, "")
		flags.Float64("rate", 0, "")
		flags.Bool("json", false, "")
		flags.Duration("timeout", time.Second, "")
		for _, name := range []string{"file", "name"} {
			flags.String(name, "", "")
			if err := p.MarkFlagRequired(name); err != nil {
				t.Fatal(err)
			}
		}
		p.SetFlagErrorFunc(wrongFlag)
		p.SetArgs(strings.Fields(tt.line))
		got := ""
		if err := p.ExecuteContext(t.Context()); err != nil {
			got = missingFlags(err).Error()
		}
		if got != tt.want {
			t.Errorf("p %s: %q, want %q", tt.line, got, tt.want)
		}
	}
}
