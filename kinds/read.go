package kinds

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/safefile"
)

// Limits of a kinds file.
const (
	MaxFile  = 8 << 20 // bytes
	MaxKinds = 10_000
)

// reserved are names that mean something else: the built-in kinds, jobs without a kind, and the
// operations of the Job API, which people name as they name kinds.
var reserved = map[string]string{
	"pdf": "a built-in kind", "mock": "a built-in kind", "zpe": "a built-in kind",
	"unknown": "how jobs without a kind are shown",
	"start":   operation, "drain": operation, "fsck": operation, "submit-batch": operation, "redrive": operation, "purge": operation,
	"cancel": operation, "retry": operation,
}

const operation = "an operation of the Job API"

// Set is the kinds of a file.
type Set struct {
	File  string  // as it was given to Read or Parse
	Kinds []*Kind // in the order of the file

	byName map[jobs.Kind]*Kind
	source *source
}

// Get returns the kind of that name, nil if there is none.
func (s *Set) Get(name jobs.Kind) *Kind {
	if s == nil {
		return nil
	}
	return s.byName[name]
}

// Read reads a kinds file, which may be a link to one, as in Kubernetes. What is wrong in it is
// a [*FileError].
func Read(path string) (*Set, error) {
	data, err := safefile.ReadLinked(path, MaxFile)
	if err != nil {
		return nil, fmt.Errorf("read kinds: %w", err)
	}
	return Parse(path, data)
}

// Parse is Read of a file that has been read: name is for mistakes, and programs that are
// given by a relative path are looked for beside it. It does not look for programs, which a
// server need not have: see [Set.Executables].
func Parse(name string, data []byte) (*Set, error) {
	src := &source{file: name, data: bytes.TrimPrefix(data, []byte("\ufeff"))} // of editors on Windows
	if len(data) > MaxFile {
		src.found = []found{{say: fmt.Sprintf("the file has %d bytes: at most %d are allowed", len(data), MaxFile)}}
		return nil, src.err()
	}
	root, ok := src.tree()
	if !ok {
		return nil, src.err()
	}
	set := &Set{File: name, byName: map[jobs.Kind]*Kind{}, source: src}
	for i, e := range root.entries {
		if i == MaxKinds {
			src.wrong(e.at, bareOrQuoted(e.name), "is one kind too many: at most %d are allowed", MaxKinds)
			break
		}
		if k := src.kind(e); k != nil {
			set.Kinds = append(set.Kinds, k)
			set.byName[k.Name] = k
		}
	}
	if err := src.err(); err != nil {
		return nil, err
	}
	return set, nil
}

var nameForm = jobs.Form(`^[a-z][a-z0-9-]{0,31}$`)

// withDefaults returns a kind for which nothing is set.
func withDefaults(name jobs.Kind) *Kind {
	return &Kind{Name: name, Disk: 10 << 30, MaxInput: 1 << 30, MaxFiles: 1000, Backoff: defaultBackoff, BackoffMax: defaultBackoffMax}
}

// kind reads one kind, and returns nil for what can be none.
func (s *source) kind(e *entry) *Kind {
	name := bareOrQuoted(e.name)
	switch {
	case e.table == nil && fieldOf(e.name) != nil:
		s.wrong(e.at, name, "stands above the first kind: write it below a line such as [thumbnail]")
		return nil
	case e.table == nil:
		s.wrong(e.at, name, "is %s: want a kind, which begins with a line [%s]", e.shown(), name)
		return nil
	case !nameForm().MatchString(e.name):
		s.wrong(e.at, name, "is no name of a kind: want a small letter, then at most 31 small letters, digits and -")
	case reserved[e.name] != "":
		s.wrong(e.at, name, "is %s: choose another name", reserved[e.name])
	}
	k := withDefaults(jobs.Kind(e.name))
	k.at = e.at
	misspelt := false // the command, which is not missing then
	for _, f := range e.entries {
		key := name + "." + bareOrQuoted(f.name)
		if field := fieldOf(f.name); field != nil {
			field.read(s, k, key, f.value)
			continue
		}
		if len(s.found) == maxMistakes {
			s.more++ // what is meant is not looked for without need
			continue
		}
		s.wrong(f.at, key, "is no key of a kind%s", meant(f.name, fieldNames))
		misspelt = misspelt || nearest(f.name, fieldNames) == "command"
	}
	s.exitCodes(k, name, e)
	s.checkpoints(k, name, e)
	if e.get("command") == nil && !misspelt {
		s.wrong(e.at, name, `has no command: want command = ["program", "argument"]`)
	}
	s.placeholders(k, name, e)
	return k
}

// A field is a key of a kind.
type field struct {
	name string
	read func(s *source, k *Kind, key string, v value)
}

var fields = []field{
	{"description", func(s *source, k *Kind, key string, v value) { k.Description = s.description(key, v) }},
	{"command", (*source).command},
	{"outputs", (*source).outputs},
	{"timeout", func(s *source, k *Kind, key string, v value) { k.Timeout = s.duration(key, v, minTime, maxTimeout) }},
	{"memory", func(s *source, k *Kind, key string, v value) { k.Memory = s.size(key, v, minSize) }},
	{"cpu", func(s *source, k *Kind, key string, v value) { k.CPU = s.duration(key, v, minTime, maxCPU) }},
	{"disk", func(s *source, k *Kind, key string, v value) { k.Disk = s.size(key, v, minSize) }},
	{"max_input", func(s *source, k *Kind, key string, v value) { k.MaxInput = s.size(key, v, 1) }},
	{"max_files", func(s *source, k *Kind, key string, v value) { k.MaxFiles = s.number(key, v, 1, maxFiles) }},
	{"slots", func(s *source, k *Kind, key string, v value) { k.Slots = s.number(key, v, 1, maxSlots) }},
	{"gpus", func(s *source, k *Kind, key string, v value) { k.GPUs = s.number(key, v, 0, maxGPUs) }},
	{"retries", func(s *source, k *Kind, key string, v value) { k.Retries = s.number(key, v, 0, maxRetries) }},
	{"backoff", (*source).backoff},
	{"retry_exit", func(s *source, k *Kind, key string, v value) { k.RetryExit = s.codes(key, v) }},
	{"final_exit", func(s *source, k *Kind, key string, v value) { k.FinalExit = s.codes(key, v) }},
	{"progress", (*source).progress},
	{"oom", (*source).oom},
	{"env", (*source).env},
	{"allow_dash", func(s *source, k *Kind, key string, v value) { k.AllowDash = s.boolean(key, v) }},
	{"keep_log", func(s *source, k *Kind, key string, v value) { k.KeepLog = s.boolean(key, v) }},
	{"checkpoint_max", func(s *source, k *Kind, key string, v value) { k.Checkpoints = s.size(key, v, 0) }},
	{"params", (*source).params},
}

var fieldNames = func() (names []string) {
	for _, f := range fields {
		names = append(names, f.name)
	}
	return names
}()

func fieldOf(name string) *field {
	if i := slices.Index(fieldNames, name); i >= 0 {
		return &fields[i]
	}
	return nil
}

func (s *source) command(k *Kind, key string, v value) {
	if v.kind == unstable.String {
		s.wrong(v.at, key, "is one string: want a list of the program and its arguments, such as [%s]", quotedWords(v.text))
		return
	}
	k.Command = s.texts(key, v, maxArguments, maxArgument, "arguments")
	if v.kind != unstable.Array {
		return
	}
	if len(v.list) == 0 {
		s.wrong(v.at, key, "is empty: want a program and its arguments")
		return
	}
	k.at = v.list[0].at
	switch program := v.list[0].text; {
	case v.list[0].kind != unstable.String:
	case program == "":
		s.wrong(v.list[0].at, key, "has an empty program: want its name or its path")
	case strings.ContainsAny(program, "{}"):
		s.wrong(v.list[0].at, key, "begins with %.60q: the program itself cannot hold placeholders or braces; each argument is a text of its own, as in [\"wc\", \"{input}\"]", program)
	}
}

// quotedWords shows what a command line would be as a list.
func quotedWords(line string) string {
	words := strings.Fields(line)
	if len(words) > 8 || len(line) > 200 || strings.ContainsAny(line, `'"\`) {
		return `"program", "argument"`
	}
	for i, w := range words {
		words[i] = fmt.Sprintf("%q", w)
	}
	return strings.Join(words, ", ")
}

func (s *source) outputs(k *Kind, key string, v value) {
	k.Outputs = s.texts(key, v, maxOutputs, maxPattern, "patterns")
	for _, one := range v.list {
		if one.kind == unstable.String && one.text != "" {
			if problem := badPattern(one.text); problem != "" {
				s.wrong(one.at, key, "has %.60q: %s", one.text, problem)
			}
		}
	}
}

func (s *source) progress(k *Kind, key string, v value) {
	k.Progress = s.regexp(key, v, false)
	if k.Progress != nil && (k.Progress.NumSubexp() < 1 || k.Progress.NumSubexp() > 2) {
		s.wrong(v.at, key, "has %d groups: want one (percent or a fraction) or two (done and total)", k.Progress.NumSubexp())
	}
}

func (s *source) oom(k *Kind, key string, v value) {
	k.OOM = s.regexp(key, v, false)
	if k.OOM != nil && k.OOM.MatchString("") {
		s.wrong(v.at, key, "is %.60q, which matches an empty line, so any failure: want what the program writes", v.text)
	}
}

var variableForm = jobs.Form(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (s *source) env(k *Kind, key string, v value) {
	k.Env = s.texts(key, v, maxEnv, maxPattern, "names")
	seen := map[string]bool{}
	for _, one := range v.list {
		switch name := one.text; {
		case one.kind != unstable.String || name == "":
			continue
		case strings.Contains(name, "="):
			s.wrong(one.at, key, "has %.60q: want only the name, the value is that of the worker", name)
		case !variableForm().MatchString(name):
			s.wrong(one.at, key, "has %.60q: want the name of a variable", name)
		case strings.HasPrefix(name, "BATCHFLEET_") || name == "PATH" || name == "HOME" || name == "LANG" || name == "TRACEPARENT":
			s.wrong(one.at, key, "has %s, which is set for every program", name)
		case seen[name]:
			s.wrong(one.at, key, "has %s twice", name)
		}
		seen[one.text] = true
	}
}

// exitCodes adds 75 (EX_TEMPFAIL) and 65 (EX_DATAERR), which mean what they mean elsewhere
// unless the kind says otherwise.
func (s *source) exitCodes(k *Kind, name string, e *entry) {
	for _, code := range k.FinalExit {
		if contains(k.RetryExit, code) {
			s.wrong(e.get("final_exit").value.at, name+".final_exit", "has %d, which is in retry_exit, too", code)
		}
	}
	if !contains(k.FinalExit, exitTempFail) {
		k.RetryExit = withCode(k.RetryExit, exitTempFail)
	}
	if !contains(k.RetryExit, exitDataErr) {
		k.FinalExit = withCode(k.FinalExit, exitDataErr)
	}
}

// checkpoints refuses checkpoints that the disk of the kind has no room for.
func (s *source) checkpoints(k *Kind, name string, e *entry) {
	if k.Checkpoints <= k.Disk {
		return
	}
	if disk := e.get("disk"); disk != nil {
		if n, ok := parseSize(disk.value); !ok || n != k.Disk {
			return // which has been said
		}
	}
	s.wrong(e.get("checkpoint_max").value.at, name+".checkpoint_max", "is more than disk, %s, which is for the checkpoint, too", FormatSize(k.Disk))
}

const (
	exitDataErr  = 65
	exitTempFail = 75
)

// regexp compiles a regular expression; one that is to match the whole of a text is
// returned so.
func (s *source) regexp(key string, v value, whole bool) *regexp.Regexp {
	text, ok := s.text(key, v, maxRegexp)
	if !ok {
		return nil
	}
	re, err := compile(text, whole)
	if err != nil {
		s.wrong(v.at, key, "is %.60q: %v", text, err)
		return nil
	}
	return re
}
