package relay

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
)

// Limits of a request.
const (
	maxPriority = 100
	maxBody     = 256 << 10 // bytes
	maxPrompt   = 16 << 10
	maxOptions  = 16 << 10
	maxAssets   = 16
	maxAsset    = 4096 // bytes of a URL
)

// request is the body of POST /v1/tasks, as it is kept in input/request.json.
type request struct {
	JobID       string          `json:"job_id" required:"true"`
	Kind        string          `json:"kind" required:"true"`
	Input       input           `json:"input,omitzero"`
	Options     json.RawMessage `json:"options,omitempty"`
	CallbackURL *string         `json:"callback_url,omitempty"`
}

type input struct {
	Prompt *string  `json:"prompt,omitempty"`
	Assets []string `json:"assets,omitempty"`
}

func (in input) prompt() string {
	if in.Prompt == nil {
		return ""
	}
	return *in.Prompt
}

// invalid is the error of a request with a field that cannot be used. The problem is shown to the caller, and repeats
// nothing that may be secret.
func invalid(field, problem string) error { return &httpd.BodyError{Field: field, Problem: problem} }

// options returns the options of the request as they were written, without the priority, and the priority.
func (r *request) options() (options map[string]json.RawMessage, priority int, err error) {
	if len(r.Options) > maxOptions {
		return nil, 0, invalid("options", fmt.Sprintf("has %d bytes: at most %d are allowed", len(r.Options), maxOptions))
	}
	if len(r.Options) > 0 {
		if err := json.Unmarshal(r.Options, &options); err != nil { // null is as good as left out
			return nil, 0, invalid("options", "want an object")
		}
	}
	if _, ok := options["prompt"]; ok {
		return nil, 0, invalid("options.prompt", "the prompt belongs to input.prompt")
	}
	if raw, ok := options[priorityKey]; ok {
		delete(options, priorityKey)
		if err := json.Unmarshal(raw, &priority); err != nil || string(raw) == "null" || priority < -maxPriority || priority > maxPriority {
			return nil, 0, invalid("options.priority", fmt.Sprintf("want a whole number from %d to %d", -maxPriority, maxPriority))
		}
	}
	return options, priority, nil
}

// payload returns the parameters of the task's job: the options, and the prompt.
func (r *request) payload() (string, error) {
	options, _, err := r.options()
	if err != nil {
		return "", err
	}
	if r.Input.Prompt != nil {
		text, err := json.Marshal(*r.Input.Prompt)
		if err != nil {
			return "", err
		}
		if options == nil {
			options = map[string]json.RawMessage{}
		}
		options["prompt"] = text
	}
	if options == nil {
		return "", nil
	}
	text, err := json.Marshal(options)
	return string(text), err
}

// check returns what is wrong with a request, or the priority of its task.
func (r *request) check(set *kinds.Set) (priority int, err error) {
	if _, err := jobs.ParseID(r.JobID); err != nil {
		return 0, invalid("job_id", `want ^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$ without ".."`)
	}
	kind := set.Get(jobs.Kind(r.Kind))
	if kind == nil {
		var known []string
		for _, k := range set.Kinds {
			known = append(known, string(k.Name))
		}
		return 0, invalid("kind", "there is no such kind; this relay has "+strings.Join(known, ", "))
	}
	if r.Input.Prompt != nil {
		if n := len(*r.Input.Prompt); n > maxPrompt {
			return 0, invalid("input.prompt", fmt.Sprintf("has %d bytes: at most %d are allowed", n, maxPrompt))
		}
	}
	if len(r.Input.Assets) > maxAssets {
		return 0, invalid("input.assets", fmt.Sprintf("there are %d: at most %d are allowed", len(r.Input.Assets), maxAssets))
	}
	switch n := len(r.Input.Assets); {
	case n == 0 && kind.NeedsInput():
		return 0, invalid("input.assets", fmt.Sprintf("the program of kind %s needs a file: want at least one", kind.Name))
	case n > 1 && kind.OneInput():
		return 0, invalid("input.assets", fmt.Sprintf("there are %d: the program of kind %s takes one file", n, kind.Name))
	}
	if _, priority, err = r.options(); err != nil {
		return 0, err
	}
	payload, err := r.payload()
	if err != nil {
		return 0, err
	}
	if _, err := kind.CheckParams(json.RawMessage(payload)); err != nil {
		return 0, fieldOf(err, kind)
	}
	return priority, nil
}

// fieldOf returns which field of the request is wrong, when the parameters of a kind are.
func fieldOf(err error, kind *kinds.Kind) error {
	all, ok := errors.AsType[*kinds.ParamsError](err)
	if !ok || len(all.Errors) == 0 {
		return invalid("options", err.Error())
	}
	switch first := all.Errors[0]; {
	case first.Name == "":
		return invalid("options", strings.TrimSpace(first.Text))
	case first.Name != "prompt":
		return invalid("options."+first.Name, strings.TrimSpace(first.Text))
	case !slices.ContainsFunc(kind.Params, func(p kinds.Param) bool { return p.Name == "prompt" }):
		return invalid("input.prompt", fmt.Sprintf("kind %s takes no prompt", kind.Name))
	default:
		return invalid("input.prompt", quoted.ReplaceAllString(strings.TrimSpace(first.Text), "…"))
	}
}

// quoted is a part of a value in the text about a mistake.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// promptOf returns what may be told of a prompt.
func promptOf(text string) Prompt {
	if text == "" {
		return Prompt{}
	}
	return Prompt{Bytes: len(text), SHA256: hashOf(text)[:16]}
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// validName reports whether a file may have this name: R-47 of the contract, for artifacts and assets.
func validName(name string) bool {
	return nameForm().MatchString(name) && !strings.HasSuffix(name, ".") && !deviceName().MatchString(name)
}

var (
	nameForm   = jobs.Form(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	deviceName = jobs.Form(`(?i)^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?$`)
)
