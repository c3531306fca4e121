package kinds

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/batchfleet/batchfleet/jobs"
)

// The types of parameters.
const (
	String  = "string"
	Integer = "integer"
	Number  = "number"
	Boolean = "boolean"
	Enum    = "enum"
)

var paramTypes = []string{String, Integer, Number, Boolean, Enum}

const (
	maxParams = 100  // of a kind
	maxValues = 1000 // of an enum

	// DefaultMaxLength is how many bytes a string has at most unless its parameter says
	// otherwise.
	DefaultMaxLength = 4096
	maxMaxLength     = 64 << 10
	// maxInteger is the largest whole number, in either direction, that every reader of
	// JSON keeps as it is.
	maxInteger int64 = 1<<53 - 1
)

var paramForm = jobs.Form(`^[a-z][a-z0-9_]{0,63}$`)

func (s *source) params(k *Kind, key string, v value) {
	if v.table == nil {
		s.want(key, v, "parameters, each below a line such as ["+key+".NAME]")
		return
	}
	for i, e := range v.entries {
		own := key + "." + bareOrQuoted(e.name)
		switch {
		case i == maxParams:
			s.wrong(e.at, own, "is one parameter too many: at most %d are allowed", maxParams)
			return
		case !paramForm().MatchString(e.name):
			s.wrong(e.at, own, "is no name of a parameter: want a small letter, then at most 63 small letters, digits and _")
		case e.table == nil:
			s.want(own, e.value, `a parameter, such as {type = "integer", default = 1}`)
		default:
			k.Params = append(k.Params, s.param(own, e))
		}
	}
}

// paramKeys are the keys of a parameter, each with the types that it is for; none for all.
var paramKeys = []struct {
	name  string
	types []string
}{
	{"type", nil},
	{"description", nil},
	{"required", nil},
	{"default", nil},
	{"min", []string{Integer, Number}},
	{"max", []string{Integer, Number}},
	{"pattern", []string{String}},
	{"max_length", []string{String}},
	{"values", []string{Enum}},
}

var paramKeyNames = func() (names []string) {
	for _, k := range paramKeys {
		names = append(names, k.name)
	}
	return names
}()

func (s *source) param(key string, e *entry) Param {
	p := Param{Name: e.name}
	switch typ := e.get("type"); {
	case typ == nil:
		s.wrong(e.at, key, "has no type: want type = %s", quotedTypes)
	case typ.kind != unstable.String || !slices.Contains(paramTypes, typ.text):
		near := ""
		if typ.kind == unstable.String {
			near = nearest(typ.text, paramTypes)
		}
		if near != "" {
			s.wrong(typ.value.at, key+".type", "is %s: do you mean %s?", typ.shown(), near)
		} else {
			s.want(key+".type", typ.value, quotedTypes)
		}
	default:
		p.Type = typ.text
	}
	for _, f := range e.entries {
		i := slices.Index(paramKeyNames, f.name)
		own := key + "." + bareOrQuoted(f.name)
		switch {
		case i < 0:
			s.wrong(f.at, own, "is no key of a parameter%s", meant(f.name, paramKeyNames))
		case p.Type != "" && paramKeys[i].types != nil && !slices.Contains(paramKeys[i].types, p.Type):
			s.wrong(f.at, own, "does not go with type %s: it is for %s", p.Type, oneOf(paramKeys[i].types))
		default:
			s.paramKey(&p, own, f)
		}
	}
	s.together(&p, key, e)
	return p
}

var quotedTypes = `"` + strings.Join(paramTypes[:len(paramTypes)-1], `", "`) + `" or "` + Enum + `"`

// paramKey reads one key of a parameter, but for its type and its default.
func (s *source) paramKey(p *Param, key string, f *entry) {
	v := f.value
	switch f.name {
	case "description":
		p.Description = s.description(key, v)
	case "required":
		p.Required = s.boolean(key, v)
	case "min":
		p.Min = s.bound(p.Type, key, v)
	case "max":
		p.Max = s.bound(p.Type, key, v)
	case "pattern":
		p.Pattern = s.regexp(key, v, true)
		if p.Pattern != nil {
			p.PatternText = v.text
		}
	case "max_length":
		p.MaxLength = s.number(key, v, 1, maxMaxLength)
	case "values":
		p.Values = s.values(key, v)
	}
}

func (s *source) bound(typ, key string, v value) *float64 {
	n, ok := v.float()
	whole := typ != Integer || math.Abs(n) <= float64(maxInteger) && n == math.Trunc(n)
	if ok && whole {
		return &n
	}
	if typ == Integer {
		s.want(key, v, fmt.Sprintf("a whole number from -%d to %d", maxInteger, maxInteger))
	} else {
		s.want(key, v, "a number")
	}
	return nil
}

func (s *source) values(key string, v value) (all []string) {
	all = s.texts(key, v, maxValues, maxPattern, "values")
	if v.kind == unstable.Array && len(v.list) == 0 {
		s.wrong(v.at, key, "is empty: want the values that there are")
	}
	seen := map[string]bool{}
	for _, one := range v.list {
		if one.kind == unstable.String && seen[one.text] {
			s.wrong(one.at, key, "has %.60q twice", one.text)
		}
		seen[one.text] = true
	}
	return all
}

// together looks at what keys of a parameter mean for each other, and reads its default.
func (s *source) together(p *Param, key string, e *entry) {
	if p.Type == String && p.MaxLength == 0 {
		p.MaxLength = DefaultMaxLength
	}
	if p.Type == Enum && e.get("values") == nil {
		s.wrong(e.at, key, `has no values: want values = ["a", "b"]`)
	}
	if p.Min != nil && p.Max != nil && *p.Min > *p.Max {
		s.wrong(e.get("min").value.at, key+".min", "is %s, which is more than max, %s", e.get("min").shown(), e.get("max").shown())
		return // whatever the default is, it would be wrong
	}
	def := e.get("default")
	if def == nil || p.Type == "" {
		return
	}
	if p.Required {
		s.wrong(def.at, key+".default", "is never used: the parameter is required")
	}
	v, ok := p.fromTOML(def.value)
	if !ok {
		s.want(key+".default", def.value, p.want())
		return
	}
	if problem := p.problem(v); problem != "" {
		s.wrong(def.value.at, key+".default", "%s", problem)
		return
	}
	p.Default = v
}

func (p *Param) fromTOML(v value) (any, bool) {
	switch p.Type {
	case Integer:
		n, ok := v.integer()
		return n, ok
	case Number:
		f, ok := v.float()
		return f + 0, ok // + 0: there is no use for a negative zero
	case Boolean:
		return v.text == "true", v.kind == unstable.Bool
	}
	return v.text, v.kind == unstable.String
}

// want says what a value of the parameter must be.
func (p *Param) want() string {
	switch p.Type {
	case Integer:
		return "a whole number"
	case Number:
		return "a number"
	case Boolean:
		return "true or false"
	case Enum:
		if len(p.Values) > 0 && len(p.Values) <= 20 {
			return oneOf(each(p.Values, strconv.Quote))
		}
	}
	return "a string"
}

func each(words []string, of func(string) string) []string {
	made := make([]string, len(words))
	for i, w := range words {
		made[i] = of(w)
	}
	return made
}

// problem says what is wrong with a value of the right type: string, int64, float64 or bool.
// It is empty if nothing is. Whether a value may begin with "-" is the kind's to say.
func (p *Param) problem(v any) string {
	switch v := v.(type) {
	case int64:
		if v < -maxInteger || v > maxInteger {
			return fmt.Sprintf("is %d: must be from -%d to %d", v, maxInteger, maxInteger)
		}
		return p.outside(float64(v))
	case float64:
		return p.outside(v)
	case string:
		return p.badString(v)
	}
	return ""
}

func (p *Param) outside(n float64) string {
	switch {
	case (p.Min == nil || n >= *p.Min) && (p.Max == nil || n <= *p.Max):
		return ""
	case p.Min == nil:
		return fmt.Sprintf("is %s: must be at most %s", numberText(n), numberText(*p.Max))
	case p.Max == nil:
		return fmt.Sprintf("is %s: must be at least %s", numberText(n), numberText(*p.Min))
	}
	return fmt.Sprintf("is %s: must be from %s to %s", numberText(n), numberText(*p.Min), numberText(*p.Max))
}

func (p *Param) badString(v string) string {
	longest := p.MaxLength
	if longest == 0 {
		longest = DefaultMaxLength
	}
	switch {
	case p.Type == Enum:
		if slices.Contains(p.Values, v) {
			return ""
		}
		if near := nearest(v, p.Values); near != "" {
			return fmt.Sprintf("is %.40q: do you mean %q?", v, near)
		}
		return fmt.Sprintf("is %.40q: want %s", v, cmpOr(p.want(), "a string", "one of its values"))
	case len(v) > longest:
		return fmt.Sprintf("has %d bytes: at most %d are allowed", len(v), longest)
	case strings.Contains(v, "\x00"):
		return "holds a NUL byte, which a program cannot be given"
	case !utf8.ValidString(v):
		return "is not UTF-8"
	case p.Pattern != nil && !p.Pattern.MatchString(v):
		return fmt.Sprintf("is %.40q: must match %s", v, p.patternText())
	}
	return ""
}

func cmpOr(s, unless, then string) string {
	if s == unless {
		return then
	}
	return s
}

func (p *Param) patternText() string {
	if p.PatternText != "" {
		return p.PatternText
	}
	return p.Pattern.String()
}

// Limits says for people which values there are, beside what the type says: "10 to 600". It is
// empty for any.
func (p *Param) Limits() string {
	var all []string
	switch {
	case p.Min != nil && p.Max != nil:
		all = append(all, numberText(*p.Min)+" to "+numberText(*p.Max))
	case p.Min != nil:
		all = append(all, "at least "+numberText(*p.Min))
	case p.Max != nil:
		all = append(all, "at most "+numberText(*p.Max))
	}
	if p.Type == String && p.MaxLength != 0 && p.MaxLength != DefaultMaxLength {
		all = append(all, fmt.Sprintf("at most %d bytes", p.MaxLength))
	}
	if p.Pattern != nil {
		all = append(all, "matches "+p.patternText())
	}
	if p.Type == Enum {
		all = append(all, oneOf(p.Values))
	}
	return strings.Join(all, ", ")
}

// numberText writes a number as JSON does, without an exponent where it is short enough.
func numberText(f float64) string {
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.FormatFloat(f, format, -1, 64)
}
