package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/own"
	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
	"github.com/batchfleet/batchfleet/pubsub/provider"
)

// builtIn is what people read of the kinds that need no file.
var builtIn = map[string]string{
	"pdf":   provider.BuiltIn["pdf"],
	"mock":  provider.BuiltIn["mock"],
	zpeKind: "zero-point energies with Quantum ESPRESSO, by a gateway's agents",
}

func kindsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "kinds", Short: "List the kinds of jobs: the built-in ones and those of the kinds file", Args: cobra.NoArgs,
		Long: "List the kinds of jobs: the built-in ones, and those that the kinds file describes. docs/kinds.md says how to write one.\n" +
			"A program that is not installed on this machine is marked (missing): only a worker needs it. A param in brackets may be\n" +
			"left out.",
		Example: "  batchfleet kinds --kinds kinds.toml",
	}
	file := kindsFlag(cmd)
	jsonFlag(cmd, &asJSON)
	cmd.RunE = settings.With(func(cmd *cobra.Command, env *own.Env, _ []string) error {
		env.File = cmp.Or(*file, env.File)
		set, err := readKinds(env)
		if err != nil {
			return err
		}
		_ = set.Executables(os.Getenv("PATH")) // those that are missing are marked
		rows := append(each(knownKinds, builtInRow), each(set.Kinds, newKindRow)...)
		head := []any{"KIND", "PROGRAM", "SLOTS", "RETRIES", "PARAMS", "DESCRIPTION"}
		err = printRows(cmd.OutOrStdout(), asJSON, rows, head, func(r kindRow) []any {
			return []any{r.Kind, r.program(), number(r.Slots), number(r.Retries), r.paramNames(), r.Description}
		})
		if err == nil && len(set.Kinds) == 0 {
			fmt.Fprintln(cmd.ErrOrStderr(), "only built-in kinds: --kinds or KINDS_FILE names a file with others")
		}
		return err
	})
	cmd.AddCommand(kindsCheckCommand(), kindsShowCommand(), kindStatusCommand(&connection{}))
	cmd.AddCommand(kindPauseCommands()...)
	return cmd
}

func kindsFlag(cmd *cobra.Command) *string {
	file := cmd.Flags().String("kinds", "", "the kinds file (default KINDS_FILE)")
	if err := cmd.MarkFlagFilename("kinds", "toml"); err != nil {
		panic(err) // there is no such flag
	}
	return file
}

// useKindsFile has all of this process read the kinds file that a flag names; nothing without one.
func useKindsFile(file string) error {
	if file == "" {
		return nil
	}
	return os.Setenv("KINDS_FILE", file)
}

// readKinds returns the kinds of the file and those that the program was built with. What is wrong in the file is a mistake of
// the settings.
func readKinds(e *own.Env) (*kinds.Set, error) {
	set, err := e.Set()
	if wrong := (*kinds.FileError)(nil); errors.As(err, &wrong) {
		return nil, program.Exit(program.Usage, fmt.Errorf("%s:\n%w", mistakes(len(wrong.Mistakes)+wrong.More), err))
	}
	if err != nil {
		return nil, program.Exit(program.Usage, err)
	}
	return set, nil
}

func mistakes(n int) string { return jobs.Count(n, "mistake") + " in the kinds file" }

// mistakeRow is how a mistake is printed as JSON.
type mistakeRow struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Key    string `json:"key,omitempty"`
	Text   string `json:"text"`
}

func kindsCheckCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "check FILE", Short: "Check a kinds file, and whether its programs are installed here", Args: cobra.ExactArgs(1),
		Long: "Print all that is wrong in a kinds file, a line each, with file, line and column. The exit code is 2 for mistakes in the\n" +
			"file, and 1 if only programs cannot start on this machine. It needs no fleet.",
		Example: "  batchfleet kinds check kinds.toml",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"toml"}, cobra.ShellCompDirectiveFilterFileExt
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		set, err := kinds.Read(args[0])
		code := program.Usage
		if err == nil {
			code, err = program.Failed, set.Executables(os.Getenv("PATH"))
		}
		wrong := (*kinds.FileError)(nil)
		switch {
		case errors.As(err, &wrong):
			return errors.Join(printMistakes(cmd.OutOrStdout(), asJSON, wrong), program.Exit(code, errors.New(found(code, wrong))))
		case err != nil:
			return program.Exit(program.Usage, err)
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s, no mistakes\n", oneLine(args[0]), jobs.Count(len(set.Kinds), "kind"))
		return nil
	}
	return cmd
}

func found(code int, wrong *kinds.FileError) string {
	n := len(wrong.Mistakes) + wrong.More
	if wrong.More > 0 {
		return fmt.Sprintf("%s, the first %d are shown", mistakes(n), len(wrong.Mistakes))
	}
	if code == program.Failed {
		return jobs.Count(n, "program") + " cannot start on this machine; the file has no mistakes"
	}
	return mistakes(n)
}

func printMistakes(out io.Writer, asJSON bool, wrong *kinds.FileError) error {
	for _, m := range wrong.Mistakes {
		if !asJSON {
			if _, err := fmt.Fprintln(out, oneLine(m.String())); err != nil {
				return err
			}
		} else if err := printJSON(out, mistakeRow(m)); err != nil {
			return err
		}
	}
	return nil
}

func kindsShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "show KIND", Short: "Show a kind: its command, its limits and its params", Args: cobra.ExactArgs(1),
		Example: "  batchfleet kinds show --kinds kinds.toml thumbnail",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return kindNames(), cobra.ShellCompDirectiveNoFileComp
		},
	}
	file := kindsFlag(cmd)
	jsonFlag(cmd, &asJSON)
	cmd.RunE = settings.With(func(cmd *cobra.Command, env *own.Env, args []string) error {
		env.File = cmp.Or(*file, env.File)
		set, err := readKinds(env)
		if err != nil {
			return err
		}
		_ = set.Executables(os.Getenv("PATH")) // one that is missing is marked
		out, name := cmd.OutOrStdout(), args[0]
		k := set.Get(jobs.Kind(name))
		switch {
		case k == nil && !slices.Contains(knownKinds, name):
			return program.Exit(program.Usage, unknownKind(name, env.File, set))
		case k == nil && asJSON:
			return printJSON(out, builtInRow(name))
		case k == nil:
			t := newTable(out)
			t.pairs("kind", name, "description", builtIn[name], "program", "built in")
			return t.flush()
		case asJSON:
			return printJSON(out, newKindRow(k))
		}
		return showKind(out, k)
	})
	return cmd
}

// unknownKind says that there is no kind of that name, and where kinds come from.
func unknownKind(name, file string, set *kinds.Set) error {
	switch {
	case file != "":
		return fmt.Errorf("%.40q is no kind; `batchfleet kinds --kinds %s` lists them", name, program.ShellWord(oneLine(file)))
	case len(set.Kinds) == 0:
		return fmt.Errorf("%.40q is no built-in kind, and neither --kinds nor KINDS_FILE names a file with others", name)
	}
	return fmt.Errorf("%.40q is no kind; `batchfleet kinds` lists them", name)
}

// kindNames returns the kinds of KINDS_FILE and the built-in ones, for completion.
func kindNames() []string {
	names := slices.Clone(knownKinds)
	if set, err := readKinds(&own.Env{File: os.Getenv("KINDS_FILE")}); err == nil {
		for _, k := range set.Kinds {
			names = append(names, string(k.Name))
		}
	}
	return names
}

func showKind(out io.Writer, k *kinds.Kind) error {
	r := newKindRow(k)
	t := newTable(out)
	backoff := kinds.FormatDuration(k.Backoff)
	if k.BackoffMax != k.Backoff {
		backoff += " to " + kinds.FormatDuration(k.BackoffMax)
	}
	limit := func(is bool, text string) string {
		if is {
			return text
		}
		return ""
	}
	t.pairs(
		"kind", k.Name, "description", k.Description, "program", r.program(), "path", k.Path, "command", strings.Join(each(k.Command, quotedWord), " "),
		"outputs", strings.Join(k.Outputs, " "), "timeout", limit(k.Timeout > 0, kinds.FormatDuration(k.Timeout)), "memory", limit(k.Memory > 0, kinds.FormatSize(k.Memory)),
		"cpu", limit(k.CPU > 0, kinds.FormatDuration(k.CPU)), "disk", kinds.FormatSize(k.Disk), "input", "at most "+kinds.FormatSize(k.MaxInput), "files", "at most "+fmt.Sprint(k.MaxFiles),
		"slots", number(k.Slots), "gpus", number(k.GPUs), "retries", k.Retries, "backoff", backoff, "retry exit", limit(!k.IsOwn(), fmt.Sprint(k.RetryExit)), "final exit", limit(!k.IsOwn(), fmt.Sprint(k.FinalExit)),
		"progress", r.Progress, "oom", r.OOM, "env", strings.Join(k.Env, " "), "allow dash", limit(k.AllowDash, "yes"), "keep log", limit(k.KeepLog, "yes"),
		"checkpoints", limit(k.Checkpoints > 0, "at most "+kinds.FormatSize(k.Checkpoints)),
	)
	if err := t.flush(); err != nil || len(k.Params) == 0 {
		return err
	}
	fmt.Fprintln(out)
	return printRows(out, false, k.Params, []any{"PARAM", "TYPE", "DEFAULT", "VALUES", "DESCRIPTION"}, func(p kinds.Param) []any {
		def := "required"
		if !p.Required {
			def = ""
		}
		if p.Default != nil {
			def = fmt.Sprint(p.Default)
		}
		return []any{p.Name, p.Type, def, p.Limits(), p.Description}
	})
}

// quotedWord shows an argument so that it is seen where it ends.
func quotedWord(arg string) string {
	if arg != "" && !strings.ContainsAny(arg, " \t\n\"'") {
		return arg
	}
	return fmt.Sprintf("%q", arg)
}

// kindRow is how a kind is printed as JSON.
type kindRow struct {
	Kind              string          `json:"kind"`
	Description       string          `json:"description,omitempty"`
	BuiltIn           bool            `json:"builtIn"`
	Command           []string        `json:"command,omitempty"`
	Path              string          `json:"path,omitempty"` // of the program on this machine
	Outputs           []string        `json:"outputs,omitempty"`
	TimeoutSeconds    float64         `json:"timeoutSeconds,omitempty"`
	MemoryBytes       int64           `json:"memoryBytes,omitempty"`
	CPUSeconds        float64         `json:"cpuSeconds,omitempty"`
	DiskBytes         int64           `json:"diskBytes,omitempty"`
	MaxInputBytes     int64           `json:"maxInputBytes,omitempty"`
	MaxFiles          int             `json:"maxFiles,omitempty"`
	Slots             int             `json:"slots,omitempty"`
	GPUs              int             `json:"gpus,omitempty"`
	Retries           int             `json:"retries,omitempty"`
	BackoffSeconds    float64         `json:"backoffSeconds,omitempty"`
	BackoffMaxSeconds float64         `json:"backoffMaxSeconds,omitempty"`
	RetryExit         []int           `json:"retryExit,omitempty"`
	FinalExit         []int           `json:"finalExit,omitempty"`
	Progress          string          `json:"progress,omitempty"`
	OOM               string          `json:"oom,omitempty"`
	Env               []string        `json:"env,omitempty"`
	AllowDash         bool            `json:"allowDash,omitempty"`
	KeepLog           bool            `json:"keepLog,omitempty"`
	CheckpointBytes   int64           `json:"checkpointBytes,omitempty"`
	Params            json.RawMessage `json:"params,omitempty"` // their JSON Schema

	kind *kinds.Kind
}

func builtInRow(name string) kindRow {
	return kindRow{Kind: name, Description: builtIn[name], BuiltIn: true}
}

func newKindRow(k *kinds.Kind) kindRow {
	r := kindRow{
		Kind: string(k.Name), Description: k.Description, Command: k.Command, Path: k.Path, Outputs: k.Outputs, TimeoutSeconds: k.Timeout.Seconds(), MemoryBytes: k.Memory,
		CPUSeconds: k.CPU.Seconds(), DiskBytes: k.Disk, MaxInputBytes: k.MaxInput, MaxFiles: k.MaxFiles, Slots: k.Slots, GPUs: k.GPUs, Retries: k.Retries,
		BackoffSeconds: k.Backoff.Seconds(), BackoffMaxSeconds: k.BackoffMax.Seconds(), RetryExit: k.RetryExit, FinalExit: k.FinalExit, Env: k.Env, AllowDash: k.AllowDash,
		KeepLog: k.KeepLog, CheckpointBytes: k.Checkpoints, Params: k.Schema(), kind: k,
	}
	if k.Progress != nil {
		r.Progress = k.Progress.String()
	}
	if k.OOM != nil {
		r.OOM = k.OOM.String()
	}
	return r
}

func (r kindRow) program() string {
	switch {
	case r.BuiltIn:
		return "built in"
	case r.kind.IsOwn():
		return "in this program"
	case r.Path == "":
		return r.Command[0] + " (missing)"
	}
	return r.Command[0]
}

// paramNames lists params, those that may be left out in brackets.
func (r kindRow) paramNames() string {
	if r.kind == nil {
		return ""
	}
	return strings.Join(each(r.kind.Params, func(p kinds.Param) string {
		if p.Required {
			return p.Name
		}
		return "[" + p.Name + "]"
	}), " ")
}
