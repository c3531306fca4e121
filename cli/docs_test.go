package cli

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write docs/cli.md and docs/configuration.md")

// TestDocsAreGenerated compares the pages that are made from the commands and their settings
// with what is in docs: go test ./cli -run TestDocsAreGenerated -update.
func TestDocsAreGenerated(t *testing.T) {
	for name, text := range map[string]string{"cli.md": commandsPage(rootCommand()), "configuration.md": settingsPage()} {
		file := filepath.Join("../docs", name)
		if *update {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil { //nolint:gosec // everybody may read it
				t.Fatal(err)
			}
		}
		is, err := os.ReadFile(file)
		if err != nil || string(is) != text {
			t.Errorf("docs/%s is not what the commands say (%v): go test ./cli -run TestDocsAreGenerated -update", name, err)
		}
	}
}

// TestEveryCommandExplainsItself: a short text, flags that say what they are for, and an example
// of each that takes arguments or flags of its own.
func TestEveryCommandExplainsItself(t *testing.T) {
	for _, c := range shown(rootCommand()) {
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: short text %q", c.CommandPath(), c.Short)
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s --%s does not say what it is for", c.CommandPath(), f.Name)
			}
		})
		for line := range strings.Lines(c.Long) {
			if n := len([]rune(strings.TrimSpace(line))); n > 120 {
				t.Errorf("%s: a line of its help has %d characters", c.CommandPath(), n)
			}
		}
	}
}

// TestEveryCommandWantsWhatItsUsageLineSays: what is wrong with arguments is said in the words of
// that line.
func TestEveryCommandWantsWhatItsUsageLineSays(t *testing.T) {
	for _, c := range shown(rootCommand()) {
		names := strings.Fields(c.Use)[1:]
		least, most := 0, len(names)
		for i, name := range names {
			if !strings.HasPrefix(name, "[") {
				least = i + 1
			}
			if strings.HasSuffix(strings.TrimSuffix(name, "]"), "…") {
				most = 99
			}
		}
		for n := range 100 {
			if n == 0 && c.HasSubCommands() {
				continue
			}
			refuses := c.Args != nil && c.Args(c, slices.Repeat([]string{"x"}, n)) != nil
			if want := n < least || n > most; refuses != want && c.Name() != "run" { // of an operation that is not there more is said
				t.Errorf("`%s` refuses %d arguments: %t", c.UseLine(), n, refuses)
			}
		}
	}
}

// shown returns the commands that people see, each after its parent.
func shown(root *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{root}
	for _, c := range root.Commands() {
		if !c.Hidden && c.Name() != "help" && c.Name() != "completion" {
			all = append(all, shown(c)...)
		}
	}
	return all
}

const generated = "<!-- Made by `go test ./cli -run TestDocsAreGenerated -update` from the code: change that. -->\n"

func commandsPage(root *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n# Commands\n\n%s\n\n", generated, paragraph(root.Long))
	b.WriteString("Data goes to stdout; progress bars and notes go to stderr, bars only to a terminal. `--json` prints one object a line, jobs as the [Job API](../jobapi/SPEC.md) has\n" +
		"them. On a terminal tables are cut to its width and states are colored, not with `NO_COLOR`; in a pipe nothing is cut. Settings: [configuration.md](configuration.md).\n\n" +
		"A job in JSON has the names of that API: how it stands, in tables its state, is `status`, and `type` is its scope and its kind, such as `fleet.pdf`. Nothing else has these two:\n" +
		"a worker has `state` and `kinds`, a dead letter `kind`. Flags have our words, `--state` and `--kind`. What `result` prints, and the pages of `pdf --json`, are\n" +
		"[results](../processor/SPEC.md), whose names are written `has_text`.\n\n" +
		"| exit code | means |\n|---|---|\n| 0 | done |\n| 1 | a job or a document has failed, there is no such job or its state does not allow it, a check has found something, or the time to wait was over |\n" +
		"| 2 | wrong arguments or configuration, or a server refuses the request or the token |\n| 3 | a service cannot be reached |\n| 130 | interrupted |\n\n")
	for _, g := range root.Groups() {
		fmt.Fprintf(&b, "| %s | |\n|---|---|\n", strings.TrimSuffix(g.Title, ":"))
		for _, c := range root.Commands() {
			if c.GroupID == g.ID && !c.Hidden && c.Name() != "help" && c.Name() != "completion" {
				fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", c.Name(), anchor(c), cell(c.Short))
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("`batchfleet completion bash`, `zsh` or `fish` prints a script that completes commands, flags, kinds, states, scopes and ids of jobs; its `--help` says where to put it.\n")
	for _, c := range shown(root)[1:] {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n```\n%s\n```\n", c.CommandPath(), paragraph(longOf(c)), c.UseLine())
		if c.Example != "" {
			fmt.Fprintf(&b, "\nFor example:\n\n```\n%s\n```\n", strings.TrimRight(unindent(c.Example), "\n"))
		}
		var flags []string
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}
			name := "`--" + f.Name + "`"
			if f.Shorthand != "" {
				name = "`-" + f.Shorthand + "`, " + name
			}
			usage, of := f.Usage, f.DefValue
			if (f.Name == "slots" || f.Name == "workers") && !strings.HasPrefix(c.CommandPath(), "batchfleet relay") { // not those of this machine
				of = "the number of CPUs"
			}
			if of != "" && of != "false" && of != "[]" && of != "0" && !strings.Contains(usage, "(default ") {
				usage += " (default " + of + ")"
			}
			flags = append(flags, fmt.Sprintf("| %s | %s |\n", name, cell(usage)))
		})
		if len(flags) > 0 {
			fmt.Fprintf(&b, "\n| flag | |\n|---|---|\n%s", strings.Join(flags, ""))
		}
	}
	return b.String()
}

func longOf(c *cobra.Command) string {
	if c.Long != "" {
		return c.Long
	}
	return c.Short + "."
}

// paragraph joins the lines of each paragraph: a page has its own width.
func paragraph(text string) string {
	var all []string
	for p := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		all = append(all, cell(strings.Join(strings.Fields(p), " ")))
	}
	return strings.Join(all, "\n\n")
}

func unindent(text string) string {
	return strings.TrimPrefix(strings.ReplaceAll(text, "\n  ", "\n"), "  ")
}

func anchor(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// cell keeps a text in a cell of a table.
func cell(text string) string {
	return strings.NewReplacer("|", "\\|", "<", "&lt;", "\n", " ").Replace(text)
}

func settingsPage() string {
	var b strings.Builder
	b.WriteString(generated + `
# Configuration

Settings are variables of the environment, or lines of a file ` + "`.env`" + ` in the directory where a command starts; the environment wins, and an empty value is none. All mistakes
are reported at once, before anything starts, and a variable that is probably misspelt is named. Durations are ` + "`90s`, `5m`" + ` or a number of seconds; sizes are in bytes. ` +
		"`batchfleet config`" + `
shows every setting, its value and where that comes from. Some have another default, or mean something else, in another section.
`)
	for _, s := range sections() {
		fmt.Fprintf(&b, "\n## %s\n\n| variable | default | takes | |\n|---|---|---|---|\n", s.title)
		for _, one := range s.settings {
			of := ""
			if one.Default != "" {
				of = "`" + one.Default + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", one.Name, of, cell(one.Want), cell(one.Doc))
		}
	}
	b.WriteString("\nPasswords and tokens: `REDIS_PASSWORD` may be beside `REDIS_URL`; tokens are in files, whose owner alone may read them. [security.md](security.md) says more.\n")
	return b.String()
}

// TestEverySettingIsExplained in the page of settings.
func TestEverySettingIsExplained(t *testing.T) {
	for _, s := range sections() {
		for _, one := range s.settings {
			if one.Doc == "" {
				t.Errorf("%s has no doc tag", one.Name)
			}
		}
	}
}
