package kinds

import (
	"strings"

	"github.com/agnivade/levenshtein"

	"github.com/batchfleet/batchfleet/jobs"
)

// otherWords are what people write for keys and types of ours.
var otherWords = map[string]string{
	"cmd": "command", "args": "command", "program": "command", "exec": "command", "run": "command", "argv": "command",
	"desc": "description", "help": "description", "title": "description",
	"output": "outputs", "artifacts": "outputs", "files": "outputs",
	"ram": "memory", "mem": "memory", "memory_limit": "memory", "gpu": "gpus", "cpus": "cpu", "cpu_time": "cpu",
	"concurrency": "slots", "parallel": "slots", "max_retries": "retries", "attempts": "retries", "time_limit": "timeout",
	"environment": "env", "parameters": "params", "inputs": "params", "checkpoint": "checkpoint_max", "log": "keep_log",
	"int": "integer", "float": "number", "double": "number", "bool": "boolean", "str": "string", "text": "string", "choice": "enum",
	"regex": "pattern", "regexp": "pattern", "choices": "values", "options": "values", "enum": "values", "maxlen": "max_length", "length": "max_length",
	"minimum": "min", "maximum": "max", "optional": "required",
}

// meant is the end of a mistake that says which of the known words may be meant.
func meant(word string, known []string) string {
	if near := nearest(word, known); near != "" {
		return ": do you mean " + near + "?"
	}
	if len(known) == 0 || len(known) > 30 {
		return ""
	}
	return ": want " + oneOf(known)
}

// nearest returns which of the known words may be meant, empty for none: the same one in
// another spelling, another word for the same, or one that is at most two letters away, one if it is short.
func nearest(word string, known []string) (near string) {
	if len(word) > 80 {
		return ""
	}
	folded := fold(word)
	best := 1 // of two letters, nothing is near to anything
	switch {
	case len(folded) > 4:
		best = 3
	case len(folded) > 2:
		best = 2
	}
	for _, k := range known {
		if otherWords[strings.ToLower(word)] == k || fold(k) == folded {
			return k
		}
		if best > 1 && swapped(folded, fold(k)) {
			near, best = k, 1
		}
		if len(known) > 100 || len(fold(k)) >= len(folded)+best || len(folded) >= len(fold(k))+best {
			continue // far apart, or too many to compare for whoever sends us words
		}
		if d := levenshtein.ComputeDistance(folded, fold(k)); d < best {
			near, best = k, d
		}
	}
	return near
}

// swapped reports whether two words differ in the order of two neighbours.
func swapped(a, b string) bool {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	return len(a) == len(b) && i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
}

var folding = strings.NewReplacer("_", "", "-", "")

func fold(word string) string { return folding.Replace(strings.ToLower(word)) }

// oneOf lists words: a, b or c.
func oneOf(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// quoted shows a word that somebody gave, cut and safe for a terminal.
func quoted(word string) string { return jobs.VisibleLine(bareOrQuoted(word)) }
