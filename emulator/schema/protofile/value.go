package protofile

import (
	"math"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// A valueKind is the form that the value of an option has.
type valueKind uint8

const (
	aWord valueKind = iota + 1
	aText
	anInteger
	aFloat
	aLiteral // of a message
	aList
)

// A value is the value of an option.
type value struct {
	kind     valueKind
	pos      int
	text     string // a word or string
	negative bool   // an integer with a minus
	integer  uint64 // without its sign
	float    float64
	fields   []literalField
	list     []value
}

// A literalField is a field in the literal of a message.
type literalField struct {
	name     token
	hasColon bool
	value    value
}

// parseValue reads the value of an option. In the literal of a message, there are lists and
// literals in angle brackets too.
func (p *parser) parseValue(inLiteral bool) value {
	v := value{pos: p.tok.pos}
	switch t := p.tok; {
	case t.kind == text:
		v.kind, v.text = aText, p.string().text
	case t.is("{"), inLiteral && t.is("<"):
		v.kind, v.fields = aLiteral, p.parseLiteral()
	case inLiteral && t.is("["):
		v.kind, v.list = aList, p.parseList()
	case t.is("-"):
		p.next()
		p.parseNegative(&v, inLiteral)
	case t.kind == ident:
		v.kind, v.text = aWord, p.next().text
	case t.kind == integer:
		v.kind, v.integer = anInteger, p.next().number
	case t.kind == float:
		v.kind, v.float = aFloat, p.next().float
	default:
		p.unexpected("a value")
	}
	return v
}

// parseNegative reads a number behind its minus.
func (p *parser) parseNegative(v *value, inLiteral bool) {
	v.kind = aFloat
	switch t := p.tok; {
	case t.kind == integer && t.number <= -math.MinInt64:
		v.kind, v.integer, v.negative = anInteger, t.number, true
	case t.kind == integer:
		v.float = -float64(t.number)
	case t.kind == float:
		v.float = -t.float
	case t.is("inf"), inLiteral && t.is("infinity"):
		v.float = math.Inf(-1)
	case t.is("nan"):
		v.float = math.NaN()
	default:
		p.unexpected("a number")
	}
	p.next()
}

// parseLiteral reads the literal of a message.
func (p *parser) parseLiteral() (fields []literalField) {
	closing := "}"
	if p.next().is("<") {
		closing = ">"
	}
	for !p.accept(closing) {
		if p.tok.is("[") {
			fail(p.tok.pos, "options have no extensions here")
		}
		f := literalField{name: p.name(), hasColon: p.accept(":")}
		if !f.hasColon && !p.tok.is("{") && !p.tok.is("<") && !p.tok.is("[") {
			p.unexpected(`":"`)
		}
		f.value = p.parseValue(true)
		fields = append(fields, f)
		if !p.accept(",") {
			p.accept(";")
		}
	}
	return fields
}

// parseList reads a list, which has no lists in it.
func (p *parser) parseList() (list []value) {
	p.expect("[")
	if p.accept("]") {
		return nil
	}
	for {
		if p.tok.is("[") {
			p.unexpected("a value")
		}
		list = append(list, p.parseValue(true))
		if !p.accept(",") {
			p.expect("]")
			return list
		}
	}
}

// scalar returns a value as the Go type for a kind of fields. Literals of messages have more
// words for booleans.
func (v *value) scalar(k protoreflect.Kind, inLiteral bool) any {
	switch k {
	case protoreflect.BoolKind:
		if b, ok := v.bool(inLiteral); ok {
			return b
		}
	case protoreflect.StringKind:
		if v.kind == aText {
			return v.text
		}
	case protoreflect.BytesKind:
		if v.kind == aText {
			return []byte(v.text)
		}
	case protoreflect.FloatKind:
		if f, ok := v.number(); ok {
			return float32(f)
		}
	case protoreflect.DoubleKind:
		if f, ok := v.number(); ok {
			return f
		}
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return int32(v.signed(math.MaxInt32, k))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return v.signed(math.MaxInt64, k)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return uint32(v.unsigned(math.MaxUint32, k))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return v.unsigned(math.MaxUint64, k)
	default:
	}
	fail(v.pos, "the value is not of type %s", k)
	return nil
}

func (v *value) bool(inLiteral bool) (b, ok bool) {
	if v.kind != aWord {
		return false, false
	}
	switch v.text {
	case "true":
		return true, true
	case "false":
		return false, true
	case "t", "True":
		return true, inLiteral
	case "f", "False":
		return false, inLiteral
	default:
		return false, false
	}
}

func (v *value) number() (f float64, ok bool) {
	switch {
	case v.kind == aFloat:
		return v.float, true
	case v.kind == anInteger && v.negative:
		return -float64(v.integer), true
	case v.kind == anInteger:
		return float64(v.integer), true
	case v.kind == aWord && v.text == "inf":
		return math.Inf(1), true
	case v.kind == aWord && v.text == "nan":
		return math.NaN(), true
	default:
		return 0, false
	}
}

// signed returns an integer that is at most limit, and at least the negative of one more.
func (v *value) signed(limit uint64, k protoreflect.Kind) int64 {
	switch {
	case v.kind == anInteger && v.negative && v.integer <= limit+1:
		return -int64(v.integer)
	case v.kind == anInteger && !v.negative && v.integer <= limit:
		return int64(v.integer)
	default:
		fail(v.pos, "the value is not of type %s", k)
		return 0
	}
}

func (v *value) unsigned(limit uint64, k protoreflect.Kind) uint64 {
	if v.kind != anInteger || v.integer > limit || v.negative && v.integer > 0 {
		fail(v.pos, "the value is not of type %s", k)
	}
	return v.integer
}

// enum returns a value as a number of an enum. Only the literal of a message may have a number.
func (v *value) enum(values protoreflect.EnumValueDescriptors, inLiteral bool) protoreflect.EnumValueDescriptor {
	var found protoreflect.EnumValueDescriptor
	switch {
	case v.kind == aWord:
		found = values.ByName(protoreflect.Name(v.text))
	case v.kind == anInteger && inLiteral:
		found = values.ByNumber(protoreflect.EnumNumber(v.signed(math.MaxInt32, protoreflect.EnumKind)))
	default:
	}
	if found == nil {
		names := make([]string, values.Len())
		for i := range names {
			names[i] = string(values.Get(i).Name())
		}
		fail(v.pos, "the value is not one of %s", strings.Join(names, ", "))
	}
	return found
}
