package archive

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

const (
	maxName = 1024 // bytes
	maxPart = 255  // bytes between slashes: the limit of most file systems
)

// names checks names: all of them must be valid together on every system.
type names struct {
	seen map[string]bool // whether a name is a file; by the name as wire.FoldCase returns it
}

func newNames() *names { return &names{map[string]bool{}} }

// add returns what is wrong with the name of a file, or with that of a directory, which ends with a slash.
func (n *names) add(name string) (problem string) {
	name, dir := strings.CutSuffix(name, "/")
	if problem := bad(name); problem != "" {
		return problem
	}
	folded := wire.FoldCase(name)
	for i, c := range folded {
		if c == '/' {
			if n.seen[folded[:i]] {
				return "is in a directory that is a file, too"
			}
			n.seen[folded[:i]] = false
		}
	}
	file, known := n.seen[folded]
	switch {
	case known && (file || !dir):
		return "is there twice, perhaps in other case"
	case !known:
		n.seen[folded] = !dir
	}
	return ""
}

// bad returns what is wrong with a name by itself.
func bad(name string) string {
	switch {
	case name == "":
		return "is no name"
	case len(name) > maxName:
		return fmt.Sprintf("has %d bytes, at most %d", len(name), maxName)
	case !utf8.ValidString(name) || !jobs.IsVisible(name):
		return "has characters that are not for names"
	case strings.ContainsAny(name, `\:*?"<>|`):
		return `has one of \ : * ? " < > |, which mean something else on Windows`
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "":
			return "begins with a slash, or has two in a row"
		case part == "." || part == "..":
			return "leaves its directory, or could"
		case len(part) > maxPart:
			return fmt.Sprintf("has a part of %d bytes, at most %d", len(part), maxPart)
		case strings.TrimRight(part, ". ") != part:
			return "has a part with a dot or a blank at its end, which Windows leaves out"
		case wire.IsDevice(part):
			return "has a part that is a device on Windows"
		}
	}
	return ""
}
