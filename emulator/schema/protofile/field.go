package protofile

import (
	"math"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// A span is what numbers may be.
type span struct{ min, max int64 }

var (
	fieldNumbers = span{1, 1<<29 - 1}
	enumNumbers  = span{math.MinInt32, math.MaxInt32}
)

// Numbers of fields between these are the library's own.
const firstReserved, lastReserved = 19_000, 19_999

// number reads a number.
func (p *parser) number(s span) int32 {
	pos := p.tok.pos
	negative := s.min < 0 && p.accept("-")
	t := p.want(integer, "an integer")
	n := int64(min(t.number, math.MaxInt64))
	if negative {
		n = -n
	}
	if n < s.min || n > s.max {
		fail(pos, "a number from %d to %d is wanted here", s.min, s.max)
	}
	return int32(n)
}

// ranges reads numbers and ranges of them, both ends included.
func (p *parser) ranges(s span, add func(first, last int32)) {
	for {
		pos := p.tok.pos
		first := p.number(s)
		last := first
		if p.accept("to") {
			if p.accept("max") {
				last = int32(s.max)
			} else {
				last = p.number(s)
			}
		}
		if first > last {
			fail(pos, "the range ends before it begins")
		}
		add(first, last)
		if !p.accept(",") {
			return
		}
	}
}

// parseReserved reads reserved numbers or names behind the keyword. With editions, names
// are words, and before that they were strings.
func (p *parser) parseReserved(names *[]string, s span, add func(first, last int32)) {
	if p.tok.kind == integer || p.tok.is("-") {
		p.ranges(s, add)
		p.expect(";")
		return
	}
	known := make(map[string]bool, len(*names))
	for _, name := range *names {
		known[name] = true
	}
	for {
		var t token
		if p.isEditions() {
			t = p.name()
		} else {
			t = p.string()
		}
		switch {
		case known[t.text]:
			fail(t.pos, "the name %q is reserved already", t.text)
		case !isName(t.text):
			fail(t.pos, "%q is no name", t.text)
		}
		known[t.text] = true
		*names = append(*names, t.text)
		if !p.accept(",") {
			break
		}
	}
	p.expect(";")
}

func isName(s string) bool {
	for i := range len(s) {
		if !isLetter(s[i]) && (i == 0 || !isDigit(s[i])) {
			return false
		}
	}
	return s != ""
}

// parseExtensions reads ranges of extensions behind the keyword, which share their options.
func (p *parser) parseExtensions(m *descriptorpb.DescriptorProto, t token) {
	if p.isProto3() {
		fail(t.pos, "proto3 has no extensions")
	}
	before := len(m.ExtensionRange)
	p.ranges(fieldNumbers, func(first, last int32) {
		last++ // ranges of fields end before it
		r := &descriptorpb.DescriptorProto_ExtensionRange{Start: &first, End: &last}
		p.at[r] = t.pos
		m.ExtensionRange = append(m.ExtensionRange, r)
	})
	if p.tok.is("[") {
		options := new(descriptorpb.ExtensionRangeOptions)
		p.options(descriptorpb.FieldOptions_TARGET_TYPE_EXTENSION_RANGE, options)
		for _, r := range m.ExtensionRange[before:] {
			r.Options = options
		}
	}
	p.expect(";")
}

// parseExtend reads extensions of a message behind the keyword.
func (p *parser) parseExtend(in *scope) {
	extendee := p.path(true)
	p.expect("{")
	if p.tok.is("}") {
		p.unexpected("an extension")
	}
	if p.isProto3() {
		fail(extendee.pos, "proto3 has no extensions")
	}
	for !p.accept("}") {
		f := p.parseField(in, nil, &extendee)
		if in.message == nil {
			p.file.Extension = append(p.file.Extension, f)
		} else {
			in.message.Extension = append(in.message.Extension, f)
		}
	}
}

// parseOneof reads a oneof behind its keyword.
func (p *parser) parseOneof(in *scope) {
	m := in.message
	name := p.name()
	o := &descriptorpb.OneofDescriptorProto{Name: &name.text}
	p.declare(in, name, other)
	index := new(int32(len(m.OneofDecl)))
	m.OneofDecl = append(m.OneofDecl, o)
	before := len(m.Field)
	p.expect("{")
	for !p.accept("}") {
		if !p.accept("option") {
			m.Field = append(m.Field, p.parseField(in, index, nil))
			continue
		}
		if o.Options == nil {
			o.Options = new(descriptorpb.OneofOptions)
		}
		p.option(descriptorpb.FieldOptions_TARGET_TYPE_ONEOF, o.Options)
		p.expect(";")
	}
	if len(m.Field) == before {
		fail(name.pos, "oneof %s has no fields", name.text)
	}
}

var labels = map[string]descriptorpb.FieldDescriptorProto_Label{
	"optional": descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL,
	"required": descriptorpb.FieldDescriptorProto_LABEL_REQUIRED,
	"repeated": descriptorpb.FieldDescriptorProto_LABEL_REPEATED,
}

// parseField reads a field of a message, or of a oneof of it, or an extension.
func (p *parser) parseField(in *scope, oneof *int32, extendee *token) *descriptorpb.FieldDescriptorProto {
	f := &descriptorpb.FieldDescriptorProto{OneofIndex: oneof}
	start := p.tok
	if label, ok := labels[start.text]; ok && start.kind == ident {
		if oneof != nil {
			p.unexpected("a type")
		}
		p.next()
		f.Label = &label
		p.checkLabel(f, start.pos, extendee != nil)
	}
	if extendee != nil {
		f.Extendee = &extendee.text
		p.linked = append(p.linked, func() { p.linkExtension(f, in, *extendee) })
	}
	switch typ := p.path(true); {
	case typ.text == "map" && p.tok.is("<") && f.Label == nil && oneof == nil && extendee == nil:
		p.parseMap(f, in)
	case strings.HasPrefix(typ.text, "group.") || typ.text == "group" && f.Label == nil && oneof == nil:
		fail(typ.pos, "syntax error: a group has a label")
	case typ.text == "group":
		p.parseGroup(f, in, typ.pos)
	case p.isProto2() && f.Label == nil && oneof == nil:
		fail(start.pos, "the field has no label: want optional, required or repeated")
	default:
		p.parseTyped(f, in, typ)
	}
	if f.Label == nil {
		f.Label = descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()
	}
	return f
}

func (p *parser) checkLabel(f *descriptorpb.FieldDescriptorProto, pos int, isExtension bool) {
	switch *f.Label {
	case descriptorpb.FieldDescriptorProto_LABEL_REQUIRED:
		if isExtension || !p.isProto2() {
			fail(pos, "only fields of messages of proto2 can be required")
		}
	case descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL:
		if p.isEditions() {
			fail(pos, "editions have no label optional: use features.field_presence")
		}
		if p.isProto3() {
			f.Proto3Optional = new(true)
		}
	default: // repeated fields are everywhere
	}
}

// parseTyped reads a field behind its type.
func (p *parser) parseTyped(f *descriptorpb.FieldDescriptorProto, in *scope, typ token) {
	p.nameField(f, in, p.name())
	byDefault := p.fieldOptions(f)
	p.expect(";")
	p.linkType(f, in, typ)
	p.linkDefault(f, byDefault)
}

// parseGroup reads a group behind its keyword. It is a field and the message that the field has.
func (p *parser) parseGroup(f *descriptorpb.FieldDescriptorProto, in *scope, pos int) {
	if !p.isProto2() {
		fail(pos, "only proto2 has groups")
	}
	name := p.name()
	if c := name.text[0]; c < 'A' || c > 'Z' {
		fail(name.pos, "the name of group %s does not begin with a capital letter", name.text)
	}
	lower := name
	lower.text = strings.ToLower(name.text)
	p.nameField(f, in, lower)
	f.Type = descriptorpb.FieldDescriptorProto_TYPE_GROUP.Enum()
	byDefault := p.fieldOptions(f)
	if byDefault != nil {
		fail(byDefault.pos, "a message has no default")
	}
	message := p.addMessage(in, name)
	p.parseBody(message)
	p.linked = append(p.linked, func() { f.TypeName = message.fullName() })
}

// parseMap reads a map behind its keyword. It is a list of messages with a key and a value.
func (p *parser) parseMap(f *descriptorpb.FieldDescriptorProto, in *scope) {
	p.expect("<")
	key := p.name()
	switch t := fieldTypes[key.text]; t {
	case 0, descriptorpb.FieldDescriptorProto_TYPE_DOUBLE, descriptorpb.FieldDescriptorProto_TYPE_FLOAT, descriptorpb.FieldDescriptorProto_TYPE_BYTES:
		fail(key.pos, "syntax error: %q cannot be the key of a map", key.text)
	default:
	}
	p.expect(",")
	value := p.path(true)
	p.expect(">")
	name := p.name()
	f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	p.nameField(f, in, name)
	byDefault := p.fieldOptions(f)
	p.expect(";")
	if byDefault != nil {
		fail(byDefault.pos, "a map has no default")
	}

	entry := token{pos: name.pos, text: camelCase("_"+name.text) + "Entry"}
	message := p.addMessage(in, entry)
	message.isMap = true
	message.message.Options = &descriptorpb.MessageOptions{MapEntry: new(true)}
	for i, part := range []struct {
		name string
		typ  token
	}{{"key", key}, {"value", value}} {
		field := &descriptorpb.FieldDescriptorProto{Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
		field.Name, field.JsonName, field.Number = &part.name, &part.name, new(int32(i+1))
		if features := f.GetOptions().GetFeatures(); features != nil {
			field.Options = &descriptorpb.FieldOptions{Features: proto.CloneOf(features)}
		}
		p.at[field] = name.pos
		p.declare(message, token{pos: name.pos, text: part.name}, aField)
		p.linkType(field, message, part.typ)
		message.message.Field = append(message.message.Field, field)
	}
	f.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
	p.linked = append(p.linked, func() { f.TypeName = message.fullName() })
}

// nameField reads the number of a field, and declares the field.
func (p *parser) nameField(f *descriptorpb.FieldDescriptorProto, in *scope, name token) {
	what := aField
	if f.Extendee != nil {
		what = anExtension
	}
	p.declare(in, name, what)
	p.at[f] = name.pos
	f.Name, f.JsonName = &name.text, new(camelCase(name.text))
	p.expect("=")
	pos := p.tok.pos
	f.Number = new(p.number(fieldNumbers))
	if *f.Number >= firstReserved && *f.Number <= lastReserved {
		fail(pos, "the numbers from %d to %d cannot be used", firstReserved, lastReserved)
	}
	if f.Extendee == nil {
		in.number(f, name.pos)
	}
}

// number notes which field of a message, or extension of it, has a number.
func (s *scope) number(f *descriptorpb.FieldDescriptorProto, pos int) {
	if other, ok := s.numbers[*f.Number]; ok {
		fail(pos, "%s and %s have the same number %d", other, f.GetName(), f.GetNumber())
	}
	if s.numbers == nil {
		s.numbers = make(map[int32]string)
	}
	s.numbers[*f.Number] = f.GetName()
}

// camelCase returns the name that a field has in JSON, unless it gives another.
func camelCase(name string) string {
	var b strings.Builder
	up := false
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '_':
			up = true
			continue
		case up && 'a' <= c && c <= 'z':
			c -= 'a' - 'A'
		}
		up = false
		b.WriteByte(c)
	}
	return b.String()
}
