package protofile

import (
	"fmt"
	"math"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// fieldTypes are the types that have words of their own.
var fieldTypes = map[string]descriptorpb.FieldDescriptorProto_Type{
	"double":   descriptorpb.FieldDescriptorProto_TYPE_DOUBLE,
	"float":    descriptorpb.FieldDescriptorProto_TYPE_FLOAT,
	"int32":    descriptorpb.FieldDescriptorProto_TYPE_INT32,
	"int64":    descriptorpb.FieldDescriptorProto_TYPE_INT64,
	"uint32":   descriptorpb.FieldDescriptorProto_TYPE_UINT32,
	"uint64":   descriptorpb.FieldDescriptorProto_TYPE_UINT64,
	"sint32":   descriptorpb.FieldDescriptorProto_TYPE_SINT32,
	"sint64":   descriptorpb.FieldDescriptorProto_TYPE_SINT64,
	"fixed32":  descriptorpb.FieldDescriptorProto_TYPE_FIXED32,
	"fixed64":  descriptorpb.FieldDescriptorProto_TYPE_FIXED64,
	"sfixed32": descriptorpb.FieldDescriptorProto_TYPE_SFIXED32,
	"sfixed64": descriptorpb.FieldDescriptorProto_TYPE_SFIXED64,
	"bool":     descriptorpb.FieldDescriptorProto_TYPE_BOOL,
	"string":   descriptorpb.FieldDescriptorProto_TYPE_STRING,
	"bytes":    descriptorpb.FieldDescriptorProto_TYPE_BYTES,
}

// linkType gives a field its type, when all names are known.
func (p *parser) linkType(f *descriptorpb.FieldDescriptorProto, in *scope, typ token) {
	if t, ok := fieldTypes[typ.text]; ok {
		f.Type = &t
		return
	}
	p.linked = append(p.linked, func() {
		switch found := in.resolve(typ, true); {
		case found.isMap:
			fail(typ.pos, "%s is an entry of a map, which cannot be used elsewhere", typ.text)
		case found.what == aMessage:
			f.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
			f.TypeName = found.fullName()
		case found.what == anEnum:
			f.Type = descriptorpb.FieldDescriptorProto_TYPE_ENUM.Enum()
			f.TypeName = found.fullName()
		default:
			fail(typ.pos, "%s is no message or enum", typ.text)
		}
	})
}

// linkExtension finds the message that is extended.
func (p *parser) linkExtension(f *descriptorpb.FieldDescriptorProto, in *scope, extendee token) {
	found := in.resolveMessage(extendee)
	f.Extendee = found.fullName()
	p.extended[f] = found.message
	found.number(f, p.at[f]) // protodesc looks whether it is in a range of extensions
}

// linkDefault gives a field its default, when its type is known.
func (p *parser) linkDefault(f *descriptorpb.FieldDescriptorProto, v *value) {
	if v == nil {
		return
	}
	if p.isProto3() {
		fail(v.pos, "proto3 has no defaults")
	}
	if f.GetLabel() == descriptorpb.FieldDescriptorProto_LABEL_REPEATED {
		fail(v.pos, "a repeated field has no default")
	}
	p.linked = append(p.linked, func() {
		switch f.GetType() {
		case descriptorpb.FieldDescriptorProto_TYPE_MESSAGE:
			fail(v.pos, "a message has no default")
		case descriptorpb.FieldDescriptorProto_TYPE_ENUM:
			if v.kind != aWord { // protodesc looks whether the enum has it
				fail(v.pos, "the default of an enum is the name of a value")
			}
			f.DefaultValue = &v.text
		default:
			f.DefaultValue = new(scalarDefault(v.scalar(protoreflect.Kind(f.GetType()), false)))
		}
	})
}

// scalarDefault returns a value in the form that descriptors have defaults in.
func scalarDefault(v any) string {
	switch v := v.(type) {
	case float64:
		return floatDefault(v, v)
	case float32:
		return floatDefault(float64(v), v)
	case []byte:
		return escape(v)
	default:
		return fmt.Sprint(v)
	}
}

func floatDefault(f float64, v any) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	default:
		return fmt.Sprint(v)
	}
}

// escape returns bytes as a string of C.
func escape(data []byte) string {
	var b strings.Builder
	for _, c := range data {
		if n := strings.IndexByte("\n\r\t\"'\\", c); n >= 0 {
			b.WriteByte('\\')
			b.WriteByte("nrt\"'\\"[n])
		} else if c >= 0x20 && c < 0x7f {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "\\%03o", c)
		}
	}
	return b.String()
}
