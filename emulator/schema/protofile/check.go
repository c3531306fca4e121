package protofile

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// check has the rules of the language that package protodesc does not have.
func (p *parser) check(built protoreflect.FileDescriptor) {
	c := checker{parser: p, declared: make(map[string]declaration), ranges: make(map[*descriptorpb.DescriptorProto][]*extensionRange)}
	if o := p.file.GetOptions(); p.isEditions() && o != nil {
		if o.GetFeatures().GetFieldPresence() == descriptorpb.FeatureSet_LEGACY_REQUIRED {
			fail(0, "a file cannot have features.field_presence = LEGACY_REQUIRED")
		}
		if o.JavaStringCheckUtf8 != nil {
			fail(0, "editions have no option java_string_check_utf8")
		}
	}
	strict := isStrict(!p.isProto2(), p.file.GetOptions().GetFeatures())
	for i, e := range p.file.EnumType {
		c.enum(e, built.Enums().Get(i), strict)
	}
	for i, m := range p.file.MessageType {
		c.message(m, built.Messages().Get(i), strict)
	}
	for i, x := range p.file.Extension {
		c.extension(x, built.Extensions().Get(i))
	}
}

// A checker checks one file.
type checker struct {
	*parser

	declared map[string]declaration                              // by the full names of extensions
	ranges   map[*descriptorpb.DescriptorProto][]*extensionRange // of messages, those that allow only what is declared
}

// isStrict reports whether names in JSON must differ, given whether they must around it.
func isStrict(outside bool, f *descriptorpb.FeatureSet) bool {
	if f == nil || f.JsonFormat == nil {
		return outside
	}
	return f.GetJsonFormat() == descriptorpb.FeatureSet_ALLOW
}

func (c *checker) message(m *descriptorpb.DescriptorProto, d protoreflect.MessageDescriptor, strict bool) {
	strict = isStrict(strict, m.GetOptions().GetFeatures())
	for i, f := range m.Field {
		c.field(f, d.Fields().Get(i))
	}
	c.jsonNames(m, false, strict)
	c.jsonNames(m, true, strict)
	c.declarations(m, d)
	for i, e := range m.EnumType {
		c.enum(e, d.Enums().Get(i), strict)
	}
	for i, sub := range m.NestedType {
		c.message(sub, d.Messages().Get(i), strict)
	}
	for i, x := range m.Extension {
		c.extension(x, d.Extensions().Get(i))
	}
}

// field checks the options of a field or extension.
func (c *checker) field(f *descriptorpb.FieldDescriptorProto, d protoreflect.FieldDescriptor) {
	o := f.Options
	if o == nil {
		return
	}
	kind := d.Kind()
	isText := kind == protoreflect.StringKind || kind == protoreflect.BytesKind
	switch {
	case o.GetPacked() && (d.Cardinality() != protoreflect.Repeated || d.Message() != nil || isText):
		c.fail(f, "option packed is for repeated numbers, booleans and enums")
	case (o.GetLazy() || o.GetUnverifiedLazy()) && kind != protoreflect.MessageKind:
		c.fail(f, "option lazy is for messages")
	case o.GetJstype() != descriptorpb.FieldOptions_JS_NORMAL && !isLong(kind):
		c.fail(f, "option jstype is for integers of 64 bits")
	case c.isEditions() && o.Ctype != nil && !isText:
		c.fail(f, "option ctype is for strings and bytes")
	case c.isEditions() && o.GetCtype() == descriptorpb.FieldOptions_CORD && d.IsExtension():
		c.fail(f, "option ctype = CORD is not for extensions")
	case o.Features != nil && !isEntry(d):
		c.features(f, o.Features, d)
	}
}

func (c *checker) fail(f *descriptorpb.FieldDescriptorProto, text string) {
	fail(c.at[f], "field %s: %s", f.GetName(), text)
}

// isEntry reports whether a field is the key or value of a map. It has the features of the map.
func isEntry(d protoreflect.FieldDescriptor) bool {
	return !d.IsExtension() && d.ContainingMessage().IsMapEntry()
}

func isLong(k protoreflect.Kind) bool {
	switch k {
	case protoreflect.Int64Kind, protoreflect.Uint64Kind, protoreflect.Sint64Kind, protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		return true
	default:
		return false
	}
}

func (c *checker) features(f *descriptorpb.FieldDescriptorProto, features *descriptorpb.FeatureSet, d protoreflect.FieldDescriptor) {
	isRepeated := d.Cardinality() == protoreflect.Repeated
	isText := d.Kind() == protoreflect.StringKind
	if d.IsMap() {
		isText = d.MapKey().Kind() == protoreflect.StringKind || d.MapValue().Kind() == protoreflect.StringKind
	}
	switch {
	case features.FieldPresence != nil && (f.OneofIndex != nil || isRepeated || d.IsExtension()):
		c.fail(f, "field_presence is not for fields of oneofs, repeated fields or extensions")
	case features.GetFieldPresence() == descriptorpb.FeatureSet_IMPLICIT && d.Message() != nil:
		c.fail(f, "field_presence = IMPLICIT is not for messages")
	case features.RepeatedFieldEncoding != nil && !isRepeated:
		c.fail(f, "repeated_field_encoding is for repeated fields")
	case features.GetRepeatedFieldEncoding() == descriptorpb.FeatureSet_PACKED && (d.Message() != nil || isText || d.Kind() == protoreflect.BytesKind):
		c.fail(f, "repeated_field_encoding = PACKED is for numbers, booleans and enums")
	case features.Utf8Validation != nil && !isText:
		c.fail(f, "utf8_validation is for strings")
	case features.MessageEncoding != nil && (d.Message() == nil || d.IsMap()):
		c.fail(f, "message_encoding is for messages")
	}
}

// jsonNames fails if two fields of a message have the same name in JSON. First the names that
// fields have by default are compared, then those that they are given.
func (c *checker) jsonNames(m *descriptorpb.DescriptorProto, given, strict bool) {
	seen := make(map[string]*descriptorpb.FieldDescriptorProto, len(m.Field))
	for _, f := range m.Field {
		name := camelCase(f.GetName())
		if given {
			name = f.GetJsonName()
		}
		other, ok := seen[name]
		if !ok {
			seen[name] = f
			continue
		}
		isGiven := given && (c.named[f] || c.named[other])
		if isGiven || strict && !given {
			fail(c.at[f], "fields %s and %s have the same name %q in JSON", other.GetName(), f.GetName(), name)
		}
	}
}

// enum fails if two values of an enum have the same name in JSON, where the name of the enum
// may be left out.
func (c *checker) enum(e *descriptorpb.EnumDescriptorProto, d protoreflect.EnumDescriptor, strict bool) {
	if !isStrict(strict, e.GetOptions().GetFeatures()) {
		return
	}
	seen := make(map[string]*descriptorpb.EnumValueDescriptorProto, len(e.Value))
	for _, v := range e.Value {
		name := enumName(v.GetName(), e.GetName())
		if other, ok := seen[name]; ok && other.GetNumber() != v.GetNumber() {
			fail(c.at[e], "values %s and %s of enum %s have the same name %q in JSON", other.GetName(), v.GetName(), d.FullName(), name)
		} else if !ok {
			seen[name] = v
		}
	}
}

// enumName returns the name that a value has in JSON without that of its enum: in words
// that begin with a capital letter, and without underscores.
func enumName(value, enum string) string {
	rest := withoutPrefix(value, enum)
	var b strings.Builder
	for word := range strings.SplitSeq(rest, "_") {
		if word != "" {
			b.WriteString(strings.ToUpper(word[:1]) + strings.ToLower(word[1:]))
		}
	}
	return b.String()
}

// withoutPrefix returns the name of a value without that of its enum, if it begins with that
// in any case and with any underscores.
func withoutPrefix(value, enum string) string {
	prefix := strings.ToLower(strings.ReplaceAll(enum, "_", ""))
	for i := range len(value) {
		switch {
		case value[i] == '_':
		case prefix == "":
			return value[i:]
		case strings.ToLower(value[i:i+1]) == prefix[:1]:
			prefix = prefix[1:]
		default:
			return value
		}
	}
	return value
}
