package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// canRead returns an error unless a reader with one type can read what was written with
// the other one: the resolution of schemas, as the specification of Avro has it.
func canRead(reader, writer *avroNode) error {
	c := avroReading{seen: make(map[[2]*avroNode]bool)}
	err := c.check(reader, writer)
	if err != nil && c.place != "" {
		err = inField(c.place, err)
	}
	return err
}

type avroReading struct {
	// seen holds the pairs of reader and writer looked at before, which may hold themselves.
	seen map[[2]*avroNode]bool
	// place is the field that is looked at, with its record.
	place string
}

func (c *avroReading) check(r, w *avroNode) error {
	pair := [2]*avroNode{r, w}
	if c.seen[pair] {
		return nil
	}
	c.seen[pair] = true
	switch {
	case w.kind == "union":
		for _, branch := range w.branches {
			if err := c.check(r, branch); err != nil {
				return err
			}
		}
		return nil
	case r.kind == "union":
		branch := bestBranch(r, w)
		if branch == nil {
			return fmt.Errorf("no branch of its union reads %s", w.tag)
		}
		return c.check(branch, w)
	case match(r, w) == 0:
		return fmt.Errorf("%s does not read %s", r.tag, w.tag)
	case r.precision > 0 && w.precision > 0 && (r.precision != w.precision || r.scale != w.scale):
		return errors.New("the decimals differ in precision or scale")
	}
	switch w.kind {
	case "record":
		return c.records(r, w)
	case "enum":
		return checkSymbols(r, w)
	case "array", "map":
		return c.check(r.items, w.items)
	}
	return nil
}

func (c *avroReading) records(r, w *avroNode) error {
	outside := c.place
	for i := range r.fields {
		f := &r.fields[i]
		c.place = r.tag + "." + f.name
		at, ok := w.index[f.name]
		for _, alias := range f.aliases {
			also, is := w.index[alias]
			if is && ok {
				return fmt.Errorf("it stands for two fields: %s and %s", w.fields[at].name, alias)
			}
			if is {
				at, ok = also, true
			}
		}
		switch {
		case !ok && !f.hasDefault:
			return errors.New("it is missing, and has no default")
		case !ok:
			continue
		}
		if err := c.check(f.node, w.fields[at].node); err != nil {
			return err
		}
	}
	c.place = outside
	return nil
}

func checkSymbols(r, w *avroNode) error {
	if r.fallback {
		return nil
	}
	lacks, first := "", len(w.index)
	for symbol, i := range w.index {
		if _, ok := r.index[symbol]; !ok && i < first {
			lacks, first = symbol, i
		}
	}
	if lacks != "" {
		return fmt.Errorf("enum %s lacks symbol %s, and has no default", r.tag, lacks)
	}
	return nil
}

// bestBranch returns the branch of r that reads w best, the first of equals, or nil.
func bestBranch(r, w *avroNode) (best *avroNode) {
	rank := 0
	for _, branch := range r.branches {
		if k := match(branch, w); k > rank {
			best, rank = branch, k
		}
	}
	return best
}

// match returns how well the reader's type r fits the writer's type w, both no unions,
// without a look at their parts: 0 for not at all.
func match(r, w *avroNode) int {
	if r.kind != w.kind {
		if promotes(w.kind, r.kind) {
			return 1
		}
		return 0
	}
	switch w.kind {
	case "record", "enum":
	case "fixed":
		if r.size != w.size {
			return 0
		}
	default:
		return 3
	}
	switch simple := simpleName(w.tag); {
	case r.tag == w.tag || slices.ContainsFunc(r.aliases, func(alias string) bool { return r.inSpace(alias) == w.tag }):
		return 3
	case simpleName(r.tag) == simple || slices.Contains(r.aliases, simple):
		return 2
	}
	return 0
}

// inSpace returns the full name of an alias of n.
func (n *avroNode) inSpace(alias string) string {
	if strings.Contains(alias, ".") {
		return strings.TrimPrefix(alias, ".")
	}
	return strings.TrimSuffix(n.tag, simpleName(n.tag)) + alias
}

// promotes reports whether readers of one type read what was written as another one.
func promotes(from, to string) bool {
	switch from {
	case "int":
		return to == "long" || to == "float" || to == "double"
	case "long":
		return to == "float" || to == "double"
	case "float":
		return to == "double"
	case "string":
		return to == "bytes"
	case "bytes":
		return to == "string"
	}
	return false
}
