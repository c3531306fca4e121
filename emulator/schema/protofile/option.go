package protofile

import (
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// A target is what an option is set for.
type target = descriptorpb.FieldOptions_OptionTargetType

// option reads an option behind its keyword, up to the semicolon, and sets it.
func (p *parser) option(t target, options proto.Message) {
	path, v := p.parseOption()
	p.setOption(t, options.ProtoReflect(), path, &v)
}

// options reads options in brackets, and sets them.
func (p *parser) options(t target, options proto.Message) {
	p.eachOption(func(path []token, v *value) { p.setOption(t, options.ProtoReflect(), path, v) })
}

// eachOption reads options in brackets.
func (p *parser) eachOption(f func(path []token, v *value)) {
	p.expect("[")
	for {
		path, v := p.parseOption()
		f(path, &v)
		if !p.accept(",") {
			p.expect("]")
			return
		}
	}
}

// parseOption reads the name of an option, the fields of messages with dots between them,
// and its value.
func (p *parser) parseOption() (path []token, v value) {
	for {
		if t := p.tok; p.accept("(") {
			fail(t.pos, "unknown extension %s: there are no custom options without imports", p.path(true).text)
		}
		path = append(path, p.name())
		if !p.accept(".") {
			break
		}
	}
	p.expect("=")
	return path, p.parseValue(false)
}

// fieldOptions reads the options of a field, if it has any. Two are not really options: the
// name in JSON, and the default, which it returns.
func (p *parser) fieldOptions(f *descriptorpb.FieldDescriptorProto) (byDefault *value) {
	if !p.tok.is("[") {
		return nil
	}
	hasName := false
	p.eachOption(func(path []token, v *value) {
		name := path[0]
		isPseudo := name.text == "default" || name.text == "json_name"
		switch {
		case !isPseudo || len(path) > 1:
			if f.Options == nil {
				f.Options = new(descriptorpb.FieldOptions)
			}
			p.setOption(descriptorpb.FieldOptions_TARGET_TYPE_FIELD, f.Options.ProtoReflect(), path, v)
		case name.text == "default" && byDefault == nil:
			byDefault = v
		case name.text == "json_name" && !hasName:
			hasName = true
			p.setJSONName(f, v)
		default:
			fail(name.pos, "option %s is set already", name.text)
		}
	})
	return byDefault
}

func (p *parser) setJSONName(f *descriptorpb.FieldDescriptorProto, v *value) {
	name := v.scalar(protoreflect.StringKind, false).(string)
	switch {
	case f.Extendee != nil && name != f.GetJsonName():
		fail(v.pos, "an extension has no json_name")
	case len(name) > 1 && name[0] == '[' && name[len(name)-1] == ']':
		fail(v.pos, "json_name is in brackets, as only extensions are")
	}
	if f.Extendee == nil {
		p.named[f] = true
	}
	f.JsonName = &name
}

// setOption sets an option in the message of all options.
func (p *parser) setOption(t target, options protoreflect.Message, path []token, v *value) {
	switch name := path[0]; name.text {
	case "features":
		if !p.isEditions() {
			fail(name.pos, "only editions have features")
		}
	case "packed":
		if t == descriptorpb.FieldOptions_TARGET_TYPE_FIELD && p.isEditions() {
			fail(name.pos, "editions have no option packed: use features.repeated_field_encoding")
		}
	case "map_entry":
		fail(name.pos, "use the type map instead of option map_entry")
	case "message_set_wire_format":
		if t == descriptorpb.FieldOptions_TARGET_TYPE_MESSAGE && v.text != "false" {
			fail(v.pos, "message sets are not supported")
		}
	case "uninterpreted_option":
		fail(name.pos, "uninterpreted_option cannot be set")
	}
	for len(path) > 1 {
		field := findOption(t, options, path[0])
		if field.Message() == nil || field.IsList() {
			fail(path[1].pos, "%s is no message, or a list of them", path[0].text)
		}
		options, path = options.Mutable(field).Message(), path[1:]
	}
	setField(t, options, path[0], v, false)
}

// findOption returns the field of options that has a name, if the target may have it.
func findOption(t target, options protoreflect.Message, name token) protoreflect.FieldDescriptor {
	d := options.Descriptor()
	field := d.Fields().ByName(protoreflect.Name(name.text))
	if field == nil {
		fail(name.pos, "unknown option: %s has no field %s", d.FullName(), name.text)
	}
	o, ok := field.Options().(*descriptorpb.FieldOptions)
	if !ok {
		return field
	}
	if targets := o.GetTargets(); len(targets) > 0 && !slices.Contains(targets, t) {
		fail(name.pos, "option %s cannot be set here", name.text)
	}
	if isFeature(field) {
		checkSupport(name.pos, o.GetFeatureSupport())
	}
	return field
}

func isFeature(field protoreflect.FieldDescriptor) bool {
	return field.ContainingMessage().FullName() == "google.protobuf.FeatureSet"
}

// checkSupport fails if edition 2023 does not have a feature, or one of its values.
func checkSupport(pos int, s *descriptorpb.FieldOptions_FeatureSupport) {
	const edition = descriptorpb.Edition_EDITION_2023
	if s != nil && (s.GetEditionIntroduced() > edition || s.EditionRemoved != nil && s.GetEditionRemoved() <= edition) {
		fail(pos, "edition 2023 does not have this")
	}
}

// setField sets a field of options, or of a message in them.
func setField(t target, options protoreflect.Message, name token, v *value, inLiteral bool) {
	field := findOption(t, options, name)
	switch {
	case v.kind == aList && !field.IsList():
		fail(v.pos, "%s is no list", name.text)
	case v.kind == aList:
		list := options.Mutable(field).List()
		for i := range v.list {
			list.Append(convert(t, field, list.NewElement, &v.list[i], inLiteral))
		}
	case field.IsList():
		list := options.Mutable(field).List()
		list.Append(convert(t, field, list.NewElement, v, inLiteral))
	case options.Has(field):
		fail(name.pos, "option %s is set already", name.text)
	default:
		options.Set(field, convert(t, field, func() protoreflect.Value { return options.NewField(field) }, v, inLiteral))
	}
}

// convert returns a value as one of a field. empty makes an empty message for it.
func convert(t target, field protoreflect.FieldDescriptor, empty func() protoreflect.Value, v *value, inLiteral bool) protoreflect.Value {
	switch {
	case field.Message() != nil:
		if v.kind != aLiteral {
			fail(v.pos, "the value is no message")
		}
		message := empty()
		for i := range v.fields {
			f := &v.fields[i]
			if sub := message.Message().Descriptor().Fields().ByName(protoreflect.Name(f.name.text)); !f.hasColon && sub != nil && sub.Message() == nil {
				fail(f.value.pos, "syntax error: a colon is missing")
			}
			setField(t, message.Message(), f.name, &f.value, true)
		}
		return message
	case field.Enum() != nil:
		found := v.enum(field.Enum().Values(), inLiteral)
		if o, ok := found.Options().(*descriptorpb.EnumValueOptions); ok && isFeature(field) {
			checkSupport(v.pos, o.GetFeatureSupport())
		}
		return protoreflect.ValueOfEnum(found.Number())
	default:
		return protoreflect.ValueOf(v.scalar(field.Kind(), inLiteral))
	}
}
