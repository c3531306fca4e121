package kinds

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// table is a table of the file. The parser reports what is no TOML; what is given twice is
// found here, so that it is one mistake beside others.
type table struct {
	entries []*entry // in the order of the file
	index   map[string]*entry

	header bool // it has a line [NAME] of its own
	dotted bool // a dotted key has made it
	inline bool // it was written {…}, and is complete
}

// entry is a key and its value.
type entry struct {
	name string // as in the file, without quotes
	at   int    // of the key
	value
}

// value is what a key has. It is not followed into lists of lists or of tables, which mean
// nothing in a kinds file.
type value struct {
	kind unstable.Kind
	at   int
	text string  // of a string, the string; of other scalars, how the file writes them
	list []value // of an array
	*table
}

// maxDepth is how many names a key has at most: KIND.params.NAME.KEY.
const maxDepth = 4

func (t *table) get(name string) *entry {
	if t == nil {
		return nil
	}
	return t.index[name]
}

func (t *table) add(e *entry) {
	if t.index == nil {
		t.index = map[string]*entry{}
	}
	t.index[e.name] = e
	t.entries = append(t.entries, e)
}

// tree returns the tables of the file, and false if it is no TOML.
func (s *source) tree() (root *table, ok bool) {
	p := &unstable.Parser{}
	p.Reset(s.data)
	root = &table{}
	current, path := root, []string(nil)
	for p.NextExpression() {
		switch e := p.Expression(); e.Kind {
		case unstable.Table:
			current, path = s.header(root, e)
		case unstable.ArrayTable:
			at, names := keyOf(e)
			s.wrong(at, keyName(names), "is a list of tables: write [%s] for one table", keyName(names))
			current, path = &table{}, names
		default:
			s.set(current, path, e)
		}
	}
	err := p.Error()
	if err == nil {
		return root, true
	}
	s.found, s.more = nil, 0 // what follows is unknown, and so is what is missing
	at := len(s.data)
	if e := (*unstable.ParserError)(nil); errors.As(err, &e) && e.Highlight != nil {
		at = cap(s.data) - cap(e.Highlight)
	}
	text := err.Error()
	if strings.Contains(text, "invalid escape character") {
		text += ": write the text between ' and ', where a backslash needs no other"
	}
	s.found = []found{{at: at, say: "the file is not TOML: " + text}}
	return nil, false
}

// keyOf returns the offset of a key, and its names, at most one more than make sense.
func keyOf(e *unstable.Node) (at int, names []string) {
	at = -1
	for it := e.Key(); it.Next(); {
		if at < 0 {
			at = int(it.Node().Raw.Offset)
		}
		if len(names) <= maxDepth {
			names = append(names, string(it.Node().Data))
		}
	}
	return at, names
}

// header returns the table of a line [NAME], which it makes.
func (s *source) header(root *table, e *unstable.Node) (*table, []string) {
	at, names := keyOf(e)
	if len(names) > maxDepth {
		s.tooDeep(at, names)
		return &table{}, names
	}
	t := root
	for i, name := range names {
		last := i == len(names)-1
		known := t.get(name)
		switch {
		case known == nil:
			known = &entry{name, at, value{kind: unstable.Table, at: at, table: &table{header: last}}}
			t.add(known)
		case known.table == nil || known.inline || last && (known.header || known.dotted):
			s.twice(at, names[:i+1], known)
			return &table{}, names
		case last:
			known.header = true
		}
		t = known.table
	}
	return t, names
}

// set puts a line KEY = VALUE into t, the table of that path.
func (s *source) set(t *table, path []string, e *unstable.Node) {
	at, names := keyOf(e)
	all := append(slices.Clip(path), names...)
	if len(all) > maxDepth {
		s.tooDeep(at, all)
		return
	}
	for i, name := range names[:len(names)-1] {
		known := t.get(name)
		switch {
		case known == nil:
			known = &entry{name, at, value{kind: unstable.Table, at: at, table: &table{dotted: true}}}
			t.add(known)
		case known.table == nil || !known.dotted:
			s.twice(at, all[:len(path)+i+1], known)
			return
		}
		t = known.table
	}
	name := names[len(names)-1]
	if known := t.get(name); known != nil {
		s.twice(at, all, known)
		return
	}
	t.add(&entry{name, at, s.value(at, all, e.Value())})
}

// value returns a value. Lists and tables have no place of their own and get that of their key.
func (s *source) value(at int, path []string, n *unstable.Node) value {
	v := value{kind: n.Kind, at: at, text: string(n.Data)}
	switch n.Kind {
	case unstable.Array:
		for it := n.Children(); it.Next(); {
			v.list = append(v.list, s.scalar(at, it.Node()))
		}
	case unstable.InlineTable:
		v.kind, v.table = unstable.Table, &table{dotted: true}
		for it := n.Children(); it.Next(); {
			s.set(v.table, path, it.Node())
		}
		v.dotted, v.inline = false, true
	default:
		return s.scalar(at, n)
	}
	return v
}

func (s *source) scalar(at int, n *unstable.Node) value {
	if n.Kind == unstable.Array || n.Kind == unstable.InlineTable {
		return value{kind: n.Kind, at: at}
	}
	return value{kind: n.Kind, at: int(n.Raw.Offset), text: string(n.Data)}
}

func (s *source) twice(at int, names []string, first *entry) {
	s.wrong(at, keyName(names), "is given twice: first in line %d", s.line(first.at))
}

func (s *source) tooDeep(at int, names []string) {
	s.wrong(at, keyName(names[:maxDepth])+".…", "has too many names: the longest keys are KIND.params.NAME.KEY")
}

// keyName joins names to a key, as the file may write it.
func keyName(names []string) string {
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = bareOrQuoted(name)
	}
	return strings.Join(parts, ".")
}

func bareOrQuoted(name string) string {
	if name != "" && len(name) <= 64 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == "" {
		return name
	}
	return fmt.Sprintf("%.64q", name)
}

// shown returns a value as a mistake quotes it.
func (v value) shown() string {
	switch v.kind {
	case unstable.String:
		return fmt.Sprintf("%.60q", v.text)
	case unstable.Array:
		return "a list"
	case unstable.Table, unstable.InlineTable:
		return "a table"
	default:
		return fmt.Sprintf("%.60s", v.text)
	}
}

// integer returns a whole number, and false for what is none or has more than 64 bits.
func (v value) integer() (int64, bool) {
	if v.kind != unstable.Integer {
		return 0, false
	}
	digits := strings.ReplaceAll(v.text, "_", "")
	base := 10
	if len(digits) > 2 && digits[0] == '0' {
		base = 0 // 0x, 0o and 0b mean the same to Go
	}
	n, err := strconv.ParseInt(digits, base, 64)
	return n, err == nil
}

// float returns a number, whole or not, and false for what is none.
func (v value) float() (float64, bool) {
	if n, ok := v.integer(); ok {
		return float64(n), true
	}
	if v.kind != unstable.Float {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(v.text, "_", ""), 64)
	return f, err == nil && f-f == 0 // neither infinite nor NaN
}
