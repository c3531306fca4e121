package protofile

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// A parser reads one text.
type parser struct {
	lexer

	tok    token // the next one
	file   *descriptorpb.FileDescriptorProto
	top    *scope   // of what the file declares
	names  int      // bytes of all full names, without the package
	linked []func() // what needs all names, to be called in this order

	at       map[proto.Message]int                                                // where something is declared
	named    map[*descriptorpb.FieldDescriptorProto]bool                          // whether a field has a json_name
	extended map[*descriptorpb.FieldDescriptorProto]*descriptorpb.DescriptorProto // what an extension extends
}

func (p *parser) isProto2() bool   { return p.file.Syntax == nil }
func (p *parser) isProto3() bool   { return p.file.GetSyntax() == "proto3" }
func (p *parser) isEditions() bool { return p.file.GetSyntax() == "editions" }

// next returns the token that is next, and goes on to the one behind it.
func (p *parser) next() token {
	t := p.tok
	p.tok = p.lex()
	return t
}

// accept skips the next token if it is s.
func (p *parser) accept(s string) bool {
	if !p.tok.is(s) {
		return false
	}
	p.next()
	return true
}

func (p *parser) expect(s string) {
	if !p.accept(s) {
		p.unexpected(`"` + s + `"`)
	}
}

// unexpected fails because of the next token.
func (p *parser) unexpected(want string) {
	fail(p.tok.pos, "syntax error: unexpected %s, want %s", p.tok.describe(), want)
}

// want returns the next token, which must be of a kind.
func (p *parser) want(k kind, what string) token {
	if p.tok.kind != k {
		p.unexpected(what)
	}
	return p.next()
}

// name reads a word. Keywords are words too.
func (p *parser) name() token { return p.want(ident, "a name") }

// string reads a string, which may be in parts.
func (p *parser) string() token {
	t := p.want(text, "a string")
	for p.tok.kind == text {
		t.text += p.next().text
	}
	return t
}

// path reads names with dots between them, the first of them behind a dot if dotted.
func (p *parser) path(dotted bool) token {
	t := p.tok
	var b strings.Builder
	if dotted && p.accept(".") {
		b.WriteByte('.')
	}
	b.WriteString(p.name().text)
	for p.accept(".") {
		b.WriteByte('.')
		b.WriteString(p.name().text)
	}
	t.text = b.String()
	return t
}

func (p *parser) parseFile() {
	p.parseSyntax()
	for p.tok.kind != end {
		t := p.tok
		switch {
		case p.accept(";"):
		case p.accept("import"):
			fail(t.pos, "imports are not supported")
		case p.accept("package"):
			p.parsePackage(t)
		case p.accept("option"):
			if p.file.Options == nil {
				p.file.Options = new(descriptorpb.FileOptions)
			}
			p.option(descriptorpb.FieldOptions_TARGET_TYPE_FILE, p.file.Options)
			p.expect(";")
		case p.accept("message"):
			p.parseMessage(p.top)
		case p.accept("enum"):
			p.file.EnumType = append(p.file.EnumType, p.parseEnum(p.top))
		case p.accept("extend"):
			p.parseExtend(p.top)
		case p.accept("service"):
			p.parseService()
		default:
			p.unexpected("message, enum, extend, service, option or package")
		}
	}
}

// parseSyntax reads the first statement, if it names the language. Without it, it is proto2.
func (p *parser) parseSyntax() {
	isEdition := p.tok.is("edition")
	if !isEdition && !p.tok.is("syntax") {
		return
	}
	p.next()
	p.expect("=")
	switch t := p.string(); {
	case isEdition && t.text == "2023":
		p.file.Syntax = new("editions")
		p.file.Edition = descriptorpb.Edition_EDITION_2023.Enum()
	case isEdition:
		fail(t.pos, "unknown edition %q: want \"2023\"", t.text)
	case t.text == "proto3":
		p.file.Syntax = &t.text
	case t.text != "proto2":
		fail(t.pos, "unknown syntax %q: want \"proto2\" or \"proto3\"", t.text)
	}
	p.expect(";")
}

func (p *parser) parsePackage(t token) {
	name := p.path(false)
	p.expect(";")
	switch {
	case p.file.Package != nil:
		fail(t.pos, "there is a package already")
	case len(name.text) >= 512 || strings.Count(name.text, ".") > 100:
		fail(name.pos, "the name of the package is too long: 511 bytes and 100 dots are allowed")
	}
	p.file.Package = &name.text
}

// parseMessage reads a message behind its keyword.
func (p *parser) parseMessage(in *scope) {
	name := p.name()
	p.parseBody(p.addMessage(in, name))
}

// addMessage declares a message.
func (p *parser) addMessage(in *scope, name token) *scope {
	m := &descriptorpb.DescriptorProto{Name: &name.text}
	s := p.declare(in, name, aMessage)
	s.message, s.depth = m, in.depth+1
	if s.depth >= maxDepth {
		fail(name.pos, "messages nest deeper than %d", maxDepth-1)
	}
	p.at[m] = name.pos
	if in.message == nil {
		p.file.MessageType = append(p.file.MessageType, m)
	} else {
		in.message.NestedType = append(in.message.NestedType, m)
	}
	return s
}

// parseBody reads what a message has in its braces.
func (p *parser) parseBody(s *scope) {
	m := s.message
	p.expect("{")
	for !p.accept("}") {
		switch t := p.tok; {
		case p.accept(";"):
		case p.accept("option"):
			if m.Options == nil {
				m.Options = new(descriptorpb.MessageOptions)
			}
			p.option(descriptorpb.FieldOptions_TARGET_TYPE_MESSAGE, m.Options)
			p.expect(";")
		case p.accept("message"):
			p.parseMessage(s)
		case p.accept("enum"):
			m.EnumType = append(m.EnumType, p.parseEnum(s))
		case p.accept("extend"):
			p.parseExtend(s)
		case p.accept("oneof"):
			p.parseOneof(s)
		case p.accept("extensions"):
			p.parseExtensions(m, t)
		case p.accept("reserved"):
			p.parseReserved(&m.ReservedName, fieldNumbers, func(first, last int32) {
				last++ // ranges of fields end before it
				m.ReservedRange = append(m.ReservedRange, &descriptorpb.DescriptorProto_ReservedRange{Start: &first, End: &last})
			})
		default:
			m.Field = append(m.Field, p.parseField(s, nil, nil))
		}
	}
	if p.isProto3() {
		s.addSyntheticOneofs()
	}
}

// addSyntheticOneofs gives each field of proto3 that is marked as optional a oneof of its
// own, behind all others. Its name is one that the message does not have.
func (s *scope) addSyntheticOneofs() {
	taken := make(map[string]bool)
	for _, f := range s.message.Field {
		if !f.GetProto3Optional() {
			continue
		}
		name := f.GetName()
		if !strings.HasPrefix(name, "_") {
			name = "_" + name
		}
		for s.children[name] != nil || taken[name] {
			name = "X" + name
		}
		taken[name] = true
		f.OneofIndex = new(int32(len(s.message.OneofDecl)))
		s.message.OneofDecl = append(s.message.OneofDecl, &descriptorpb.OneofDescriptorProto{Name: &name})
	}
}

// parseEnum reads an enum behind its keyword.
func (p *parser) parseEnum(in *scope) *descriptorpb.EnumDescriptorProto {
	name := p.name()
	e := &descriptorpb.EnumDescriptorProto{Name: &name.text}
	p.at[e] = name.pos
	p.declare(in, name, anEnum).enum = e
	p.expect("{")
	for !p.accept("}") {
		switch {
		case p.accept(";"):
		case p.accept("option"):
			if e.Options == nil {
				e.Options = new(descriptorpb.EnumOptions)
			}
			p.option(descriptorpb.FieldOptions_TARGET_TYPE_ENUM, e.Options)
			p.expect(";")
		case p.accept("reserved"):
			p.parseReserved(&e.ReservedName, enumNumbers, func(first, last int32) {
				e.ReservedRange = append(e.ReservedRange, &descriptorpb.EnumDescriptorProto_EnumReservedRange{Start: &first, End: &last})
			})
		default:
			e.Value = append(e.Value, p.parseEnumValue(in))
		}
	}
	if len(e.Value) == 0 {
		fail(name.pos, "enum %s has no values", name.text)
	}
	return e
}

// parseEnumValue reads a value of an enum, whose name is one of the scope that the enum is in.
func (p *parser) parseEnumValue(in *scope) *descriptorpb.EnumValueDescriptorProto {
	name := p.name()
	p.declare(in, name, anEnumValue)
	p.expect("=")
	v := &descriptorpb.EnumValueDescriptorProto{Name: &name.text, Number: new(p.number(enumNumbers))}
	if p.tok.is("[") {
		v.Options = new(descriptorpb.EnumValueOptions)
		p.options(descriptorpb.FieldOptions_TARGET_TYPE_ENUM_ENTRY, v.Options)
	}
	p.expect(";")
	return v
}

// parseService reads a service behind its keyword.
func (p *parser) parseService() {
	name := p.name()
	s := &descriptorpb.ServiceDescriptorProto{Name: &name.text}
	p.file.Service = append(p.file.Service, s)
	in := p.declare(p.top, name, aService)
	p.expect("{")
	for !p.accept("}") {
		switch {
		case p.accept(";"):
		case p.accept("option"):
			if s.Options == nil {
				s.Options = new(descriptorpb.ServiceOptions)
			}
			p.option(descriptorpb.FieldOptions_TARGET_TYPE_SERVICE, s.Options)
			p.expect(";")
		case p.accept("rpc"):
			s.Method = append(s.Method, p.parseMethod(in))
		default:
			p.unexpected("rpc or option")
		}
	}
}

// parseMethod reads a method behind its keyword.
func (p *parser) parseMethod(in *scope) *descriptorpb.MethodDescriptorProto {
	name := p.name()
	m := &descriptorpb.MethodDescriptorProto{Name: &name.text}
	p.declare(in, name, other)
	m.ClientStreaming = p.parseMethodType(in, &m.InputType)
	p.expect("returns")
	m.ServerStreaming = p.parseMethodType(in, &m.OutputType)
	if !p.accept("{") {
		p.expect(";")
		return m
	}
	m.Options = new(descriptorpb.MethodOptions)
	for !p.accept("}") {
		if !p.accept(";") {
			p.expect("option")
			p.option(descriptorpb.FieldOptions_TARGET_TYPE_METHOD, m.Options)
			p.expect(";")
		}
	}
	return m
}

// parseMethodType reads what a method takes or returns. It returns true for a stream, and
// nil for one message.
func (p *parser) parseMethodType(in *scope, full **string) (stream *bool) {
	p.expect("(")
	if p.accept("stream") {
		stream = new(true)
	}
	name := p.path(true)
	p.expect(")")
	p.linked = append(p.linked, func() { *full = in.resolveMessage(name).fullName() })
	return stream
}

// link resolves all names.
func (p *parser) link() {
	if p.file.Package != nil {
		p.top.setPackage(strings.Split(p.file.GetPackage(), "."))
	}
	for _, f := range p.linked {
		f()
	}
	p.linked = nil
}
