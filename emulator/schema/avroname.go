package schema

import (
	"fmt"
	"strings"
)

// isName reports whether s is a name without a namespace.
func isName(s string) bool {
	for i, r := range s {
		letter := r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r == '_'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

// name reads the name of a type and registers it before its parts are parsed: they may
// refer to it. It returns their namespace. space is the one around the type.
func (p *avroParser) name(n *avroNode, o map[string]any, space string) (string, error) {
	name, err := attribute[string](o, "name")
	if err != nil {
		return "", fmt.Errorf("%s: %w", n.kind, err)
	}
	if _, ok := o["namespace"]; ok {
		if space, err = attribute[string](o, "namespace"); err != nil {
			return "", fmt.Errorf("%s %s: %w", n.kind, name, err)
		}
	}
	if n.tag = name; space != "" && !strings.Contains(name, ".") {
		n.tag = space + "." + name
	}
	for part := range strings.SplitSeq(n.tag, ".") {
		if !isName(part) {
			return "", fmt.Errorf("%q is not a name of a type", n.tag)
		}
	}
	if isPrimitive(n.tag) || p.named[n.tag] != nil {
		return "", fmt.Errorf("the name %s is taken", n.tag)
	}
	p.named[n.tag] = n
	n.aliases, err = texts(o, "aliases")
	return n.tag[:max(0, strings.LastIndexByte(n.tag, '.'))], err
}

// simpleName returns a name without its namespace.
func simpleName(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }
