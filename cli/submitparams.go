package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/batchfleet/batchfleet/cli/own"
	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
)

// asked is what jobs are asked to do, beside their kind and their files.
type asked struct {
	kindsFile   string
	params      []string // NAME=VALUE
	paramsFile  string
	input       []string // of one job
	id          string
	idempotency string
}

func (a *asked) flags(flags *pflag.FlagSet) {
	flags.StringVar(&a.kindsFile, "kinds", "", "kinds file by which parameters are checked (default KINDS_FILE); if it has one kind, --kind may be left out")
	a.paramFlags(flags)
	flags.StringArrayVar(&a.input, "input", nil, "instead of FILE: a file, - for standard input, or what is no file here: an object of the storage, such as uploads/a.pdf or gs://bucket/a.pdf; several times for a job with several")
	flags.StringVar(&a.id, "id", "", "id of the job, which must be new")
	flags.StringVar(&a.idempotency, "idempotency-key", "", "1 to 255 visible ASCII characters: the same command with the same key is the same job, and is queued once")
}

// paramFlags are the flags of parameters alone.
func (a *asked) paramFlags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&a.params, "param", nil, "parameter, as NAME=VALUE; may be given several times, and wins over one of --params. Without a kinds file, numbers, true and false are these, and all else is text")
	flags.StringVar(&a.paramsFile, "params", "", "file with the parameters, an object in JSON; - for standard input")
}

// any reports whether anything is asked for.
func (a *asked) any() bool {
	return len(a.params) > 0 || a.paramsFile != "" || len(a.input) > 0 || a.id != "" || a.idempotency != "" || a.kindsFile != ""
}

// check finds mistakes in the flags.
func (a *asked) check(cmd *cobra.Command, kind string, files []string) error {
	switch {
	case len(files) > 0 && len(a.input) > 0:
		return errors.New("--input is for one job without a FILE: leave out one of them")
	case len(files) == 0 && kind == "" && len(a.input) == 0:
		return errors.New("FILE is missing: name one, or give --kind for a job that needs none, or --input")
	case a.id != "" && a.idempotency != "":
		return errors.New("--id and --idempotency-key are two ways to name a job: leave out one of them")
	case len(files) > 1 && (a.id != "" || a.idempotency != ""):
		return errors.New("--id and --idempotency-key are for one job, and there are several files")
	case slices.Contains(a.input, ""):
		return errors.New("--input is empty: want a file, - for standard input, or an object of the storage")
	case a.paramsFile == "-" && slices.Contains(a.input, "-"):
		return errors.New("--params and --input cannot both be standard input")
	case len(slices.DeleteFunc(slices.Clone(a.input), func(name string) bool { return name != "-" })) > 1:
		return errors.New("--input - is given twice: there is one standard input")
	case cmd.Flags().Changed("idempotency-key") && a.idempotency == "":
		return errors.New("--idempotency-key is empty")
	}
	if a.id != "" {
		if _, err := jobs.ParseID(a.id); err != nil {
			return fmt.Errorf("--id: %w", err)
		}
	}
	return nil
}

// readKinds returns the kinds of --kinds or KINDS_FILE, and those of this program.
func (a *asked) readKinds() (*kinds.Set, error) {
	return readKinds(&own.Env{File: cmp.Or(a.kindsFile, os.Getenv("KINDS_FILE"))})
}

// paramsOf returns the parameters of a job, an object; nil if none are given. k may be nil.
func (a *asked) paramsOf(ctx context.Context, k *kinds.Kind) (json.RawMessage, error) {
	fields := map[string]json.RawMessage{}
	if a.paramsFile != "" {
		text, err := readParams(ctx, a.paramsFile)
		if err != nil {
			return nil, program.Mistake(ctx, fmt.Errorf("--params: %w", err))
		}
		if len(a.params) == 0 {
			return text, nil // as it is: a key that comes twice is a mistake, and not lost
		}
		if err := json.Unmarshal(text, &fields); err != nil {
			return nil, program.Exit(program.Usage, errors.New("--params: want an object in JSON"))
		}
	}
	if len(a.params) == 0 {
		return nil, nil
	}
	seen := map[string]bool{}
	for _, param := range a.params {
		name, text, ok := strings.Cut(param, "=")
		if !ok || name == "" {
			return nil, program.Exit(program.Usage, fmt.Errorf("--param is %.80q: want NAME=VALUE", param))
		}
		if seen[name] {
			return nil, program.Exit(program.Usage, fmt.Errorf("--param %.80s is given twice", name))
		}
		seen[name] = true
		value, err := valueOf(k, name, text)
		if err != nil {
			return nil, program.Exit(program.Usage, err)
		}
		fields[name] = value
	}
	return json.Marshal(fields)
}

// valueOf reads a value: as the kind says, or else as what it looks like.
func valueOf(k *kinds.Kind, name, text string) (json.RawMessage, error) {
	if k != nil {
		return k.ParseParam(name, text)
	}
	isNumber := text != "" && strings.Trim(text, "0123456789+-.eE") == "" && json.Valid([]byte(text))
	if isNumber || text == "true" || text == "false" {
		return json.RawMessage(text), nil
	}
	return json.Marshal(text)
}

// readParams reads an object.
func readParams(ctx context.Context, file string) (json.RawMessage, error) {
	var f io.ReadCloser
	if file == "-" {
		f = program.Stdin(ctx)
	} else {
		var err error
		if f, err = os.Open(file); err != nil && strings.HasPrefix(file, "{") {
			return nil, errors.New("want the name of a file: --param NAME=VALUE gives a single one")
		}
		if err != nil {
			return nil, err
		}
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, kinds.MaxParams+1))
	if err != nil {
		return nil, err
	}
	if len(text) > kinds.MaxParams {
		return nil, fmt.Errorf("it is longer than %d bytes", kinds.MaxParams)
	}
	text = bytes.TrimSpace(text)
	if len(text) == 0 || text[0] != '{' || !json.Valid(text) {
		return nil, errors.New(`want an object in JSON, such as {"dpi":300}`)
	}
	return text, nil
}
