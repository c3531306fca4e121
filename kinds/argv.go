package kinds

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/batchfleet/batchfleet/jobs"
)

// maxArgv bounds an argument with its values, in bytes: Linux takes no longer one.
const maxArgv = 128<<10 - 1

// placeholders are what a command may hold beside {params.NAME}.
var placeholders = []string{"input", "output", "work", "checkpoint", "params", "job_id", "attempt"}

const paramPrefix = "params."

// piece is a part of an argument: a text, or a placeholder.
type piece struct {
	text  string
	place string // without braces; empty for a text
}

// pieces cuts an argument into its texts and placeholders.
func pieces(arg string) (all []piece, err error) {
	var text strings.Builder
	for i := 0; i < len(arg); i++ {
		switch c := arg[i]; {
		case c != '{' && c != '}':
			text.WriteByte(c)
		case i+1 < len(arg) && arg[i+1] == c:
			text.WriteByte(c)
			i++
		case c == '}':
			return nil, errors.New(`has a } without its {: write }} for a brace`)
		default:
			name, _, closed := strings.Cut(arg[i+1:], "}")
			if !closed {
				return nil, errors.New(`has a { without its }: write {{ for a brace`)
			}
			if text.Len() > 0 {
				all = append(all, piece{text: text.String()})
				text.Reset()
			}
			all = append(all, piece{place: name})
			i += len(name) + 1
		}
	}
	if text.Len() > 0 || len(all) == 0 {
		all = append(all, piece{text: text.String()})
	}
	return all, nil
}

// placeholders reports what is wrong with the command of a kind, once its params are read.
func (s *source) placeholders(k *Kind, name string, e *entry) {
	command := e.get("command")
	if command == nil || len(k.Command) != len(command.list) {
		s.dashes(k, name, e)
		return // what is wrong with it was said
	}
	key := name + ".command"
	for i, arg := range k.Command {
		at := command.list[i].at
		if i == 0 || command.list[i].kind != unstable.String {
			continue
		}
		all, err := pieces(arg)
		if err != nil {
			s.wrong(at, key, "%v", err)
			continue
		}
		inScript := isScript(k.Command, i)
		for _, p := range all {
			switch param, isParam := strings.CutPrefix(p.place, paramPrefix); {
			case p.place == "" && p.text != "" || len(all) == 1 && arg == "":
				continue
			case isParam && k.param(param) != nil, slices.Contains(placeholders, p.place):
			case isParam:
				s.wrong(at, key, "has {params.%.64s}, and there is no parameter %s%s", param, quoted(param), meant(param, k.paramNames()))
				continue
			case p.place == "" || k.param(p.place) == nil:
				s.wrong(at, key, "has {%.64s}, which is no placeholder%s; write {{ and }} for braces", p.place, k.meantPlace(p.place))
				continue
			default:
				s.wrong(at, key, "has {%s}, which is no placeholder: do you mean {params.%s}?", p.place, p.place)
				continue
			}
			if inScript && (p.place == "input" || strings.HasPrefix(p.place, paramPrefix)) {
				s.wrong(at, key, "has {%s} in a script, which would run what a value says: give it as an argument of its own, behind the script", p.place)
			}
		}
	}
	s.dashes(k, name, e)
}

// otherPlaces are what people write for placeholders of ours.
var otherPlaces = map[string]string{"inputs": "input", "file": "input", "files": "input", "outputs": "output", "out": "output", "dir": "work", "id": "job_id"}

func (k *Kind) meantPlace(word string) string {
	param := word[strings.LastIndexByte(word, '.')+1:] // {param.dpi}
	switch near := cmp.Or(otherPlaces[word], nearest(word, placeholders)); {
	case k.param(param) != nil:
		return ": do you mean {" + paramPrefix + param + "}?"
	case near != "":
		return ": do you mean {" + near + "}?"
	}
	return ""
}

// shells and interpreters run an argument as a script, after an option that ends with one of
// these letters; of a shell, that has it anywhere.
var (
	shells       = []string{"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish"}
	interpreters = map[string]string{"python": "c", "perl": "eE", "ruby": "e", "node": "ep", "php": "r", "Rscript": "e"}
)

// isScript reports whether an argument is a script that an interpreter of the command runs. It
// is there to catch the usual mistake, not every way to write it.
func isScript(command []string, i int) bool {
	for first := range i {
		name := strings.TrimRight(filepath.Base(command[first]), "0123456789.") // python3.12
		if slices.Contains(shells, name) {
			return runsAsScript(command[first+1:i+1], func(option string) bool { return strings.Contains(option, "c") })
		}
		if letters := interpreters[name]; letters != "" {
			return runsAsScript(command[first+1:i+1], func(option string) bool { return strings.ContainsAny(option[len(option)-1:], letters) }) ||
				len(command[i]) > 2 && command[i][0] == '-' && strings.IndexByte(letters, command[i][1]) >= 0 // -cCODE
		}
	}
	return false
}

// runsAsScript reports whether the last of the arguments of an interpreter is a script: the
// first that is no option, behind an option that says so.
func runsAsScript(args []string, says func(option string) bool) bool {
	isNext := false
	for j := 0; j < len(args); j++ {
		switch arg := args[j]; {
		case len(arg) < 2 || arg[0] != '-' && arg[0] != '+':
			return isNext && j == len(args)-1
		case arg == "--eval":
			isNext = true
		case arg[1] == '-':
		case says(arg[1:]):
			isNext = true
		case strings.HasSuffix(arg, "o"):
			j++ // the name of an option: bash -o pipefail -c
		}
	}
	return false
}

// dashes reports values in the file that begin with "-" where the kind does not allow them.
func (s *source) dashes(k *Kind, name string, e *entry) {
	if k.AllowDash {
		return
	}
	params := e.get("params")
	for _, p := range k.Params {
		key := name + "." + paramPrefix + p.Name
		for i, v := range p.Values {
			if strings.HasPrefix(v, "-") {
				s.wrong(params.get(p.Name).get("values").list[i].at, key+".values", "has %.60q, which begins with -: the kind needs allow_dash = true", v)
			}
		}
		if problem := k.badDash(&p, p.Default); p.Default != nil && problem != "" && p.Type != Enum {
			s.wrong(params.get(p.Name).get("default").value.at, key+".default", "%s", problem)
		}
	}
}

// badDash says why a value may not begin with "-", and is empty if it does not or may. A string
// could be taken for an option by any program that it reaches. A number can only where it is
// the beginning of an argument.
func (k *Kind) badDash(p *Param, v any) string {
	if k.AllowDash {
		return ""
	}
	switch v := v.(type) {
	case string:
		if strings.HasPrefix(v, "-") {
			return fmt.Sprintf("is %.40q: it must not begin with -", v)
		}
	case int64:
		if v < 0 && k.begins(p.Name) {
			return fmt.Sprintf("is %d: it must not be negative, because it begins an argument", v)
		}
	case float64:
		if v < 0 && k.begins(p.Name) {
			return fmt.Sprintf("is %s: it must not be negative, because it begins an argument", numberText(v))
		}
	}
	return ""
}

// begins reports whether a parameter's value can be the beginning of an argument: whether
// nothing stands before it but other parameters, which may be empty.
func (k *Kind) begins(name string) bool {
	for _, arg := range k.Command {
		all, _ := pieces(arg)
		for _, p := range all {
			if p.place == paramPrefix+name {
				return true
			}
			if !strings.HasPrefix(p.place, paramPrefix) {
				break
			}
		}
	}
	return false
}

func (k *Kind) param(name string) *Param {
	if i := slices.IndexFunc(k.Params, func(p Param) bool { return p.Name == name }); i >= 0 {
		return &k.Params[i]
	}
	return nil
}

func (k *Kind) paramNames() []string {
	names := make([]string, len(k.Params))
	for i, p := range k.Params {
		names[i] = p.Name
	}
	return names
}

// NeedsInput reports whether the command names its input, so that a job without one cannot run.
func (k *Kind) NeedsInput() bool {
	return slices.ContainsFunc(k.Command, func(arg string) bool {
		all, _ := pieces(arg)
		return slices.ContainsFunc(all, func(p piece) bool { return p.place == "input" })
	})
}

// OneInput reports whether a job must not have several inputs: the command has {input} within an argument.
func (k *Kind) OneInput() bool {
	return slices.ContainsFunc(k.Command, func(arg string) bool {
		all, _ := pieces(arg)
		return arg != "{input}" && slices.ContainsFunc(all, func(p piece) bool { return p.place == "input" })
	})
}

// Inputs says in a word which inputs a job has: one or many, if it needs any, or else optional.
func (k *Kind) Inputs() string {
	switch {
	case !k.NeedsInput():
		return "optional"
	case k.OneInput():
		return "one"
	}
	return "many"
}

// Values are what the placeholders of a command stand for.
type Values struct {
	Input      []string // absolute paths, in the order of the job; empty for a job without input
	Output     string   // absolute path of the directory
	Work       string   // absolute path of the directory
	Checkpoint string   // absolute path of the directory
	Params     string   // absolute path of the file with the parameters as JSON
	Param      json.RawMessage
	JobID      jobs.ID
	Attempt    int
}

// Argv returns the program, as the file names it, and its arguments. Param of v must be what
// [Kind.CheckParams] returned.
//
// Every argument of the command becomes one argument, whatever the values hold, with two
// exceptions. One that holds the placeholder of a parameter that has no value is left out. And
// one that is {input} alone is repeated for each input; if there are several, {input} within
// an argument is an error, and if there is none, anywhere.
func (k *Kind) Argv(v Values) ([]string, error) {
	params, err := textsOf(v.Param)
	if err != nil {
		return nil, err
	}
	argv := make([]string, 0, len(k.Command)+len(v.Input))
	for i, arg := range k.Command {
		if arg == "{input}" && i > 0 && len(v.Input) > 1 {
			argv = append(argv, v.Input...)
			continue
		}
		text, ok, err := k.fill(arg, v, params)
		if err != nil {
			return nil, err
		}
		if ok {
			argv = append(argv, text)
		}
	}
	for _, arg := range argv {
		switch {
		case len(arg) > maxArgv:
			return nil, fmt.Errorf("an argument of %s has %d bytes: at most %d are possible", k.Name, len(arg), maxArgv)
		case strings.Contains(arg, "\x00"):
			return nil, fmt.Errorf("an argument of %s holds a NUL byte", k.Name)
		}
	}
	return argv, nil
}

// fill returns an argument with its values, and false if it is left out.
func (k *Kind) fill(arg string, v Values, params map[string]string) (text string, ok bool, err error) {
	all, err := pieces(arg)
	if err != nil {
		return "", false, fmt.Errorf("command of %s: %.60q %w", k.Name, arg, err)
	}
	var b strings.Builder
	for _, p := range all {
		b.WriteString(p.text)
		switch p.place {
		case "":
			if p.text == "" && arg != "" {
				return "", false, fmt.Errorf("command of %s: %.60q has {}, which is no placeholder", k.Name, arg)
			}
		case "input":
			if len(v.Input) != 1 {
				return "", false, fmt.Errorf("command of %s: %.60q is for one input, and the job has %d", k.Name, arg, len(v.Input))
			}
			b.WriteString(v.Input[0])
		case "output":
			b.WriteString(v.Output)
		case "work":
			b.WriteString(v.Work)
		case "checkpoint":
			b.WriteString(v.Checkpoint)
		case "params":
			b.WriteString(v.Params)
		case "job_id":
			b.WriteString(string(v.JobID))
		case "attempt":
			b.WriteString(strconv.Itoa(v.Attempt))
		default:
			name, isParam := strings.CutPrefix(p.place, paramPrefix)
			value, given := params[name]
			switch {
			case !isParam || k.param(name) == nil:
				return "", false, fmt.Errorf("command of %s: %.60q has {%.64s}, which is no placeholder", k.Name, arg, p.place)
			case !given:
				return "", false, nil
			}
			b.WriteString(value)
		}
	}
	return b.String(), true, nil
}

// textsOf returns parameters as arguments have them: a string as it is, anything else as JSON
// writes it.
func textsOf(normalized json.RawMessage) (map[string]string, error) {
	texts := map[string]string{}
	if len(normalized) == 0 {
		return texts, nil
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(normalized, &raw); err != nil {
		return nil, fmt.Errorf("params: %w", err)
	}
	for name, value := range raw {
		text := string(value)
		if len(value) > 0 && value[0] == '"' {
			if err := json.Unmarshal(value, &text); err != nil {
				return nil, fmt.Errorf("params.%s: %w", name, err)
			}
		}
		texts[name] = text
	}
	return texts, nil
}
