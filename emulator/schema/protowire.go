package schema

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// A wire checks a binary message and stores nothing of it: a message in memory
// takes fifty bytes for one on the wire. It accepts what package proto does, except
// that it does not check required fields, which may come in parts.
type wire struct {
	messages, values int
}

func (w *wire) message(m protoreflect.MessageDescriptor, b []byte, depth int) error {
	if depth > maxDepth {
		return errTooDeep
	}
	w.messages++
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errWire(n)
		}
		if num > protowire.MaxValidNumber {
			return fmt.Errorf("not a protocol buffer: field number %d", num)
		}
		b = b[n:]
		// The library bounds how deep unknown groups nest by itself.
		size := protowire.ConsumeFieldValue(num, kind, b)
		if size < 0 {
			return errWire(size)
		}
		if fd := m.Fields().ByNumber(num); fd != nil {
			if err := w.field(fd, kind, b[:size], depth); err != nil {
				return err
			}
		}
		b = b[size:]
	}
	return nil
}

// field checks one value of a field the definition has. One of another wire
// type is an unknown field.
func (w *wire) field(fd protoreflect.FieldDescriptor, kind protowire.Type, b []byte, depth int) error {
	w.values++
	want := wireTypes[fd.Kind()]
	if kind != want {
		if kind == protowire.BytesType && fd.IsList() && want != protowire.StartGroupType {
			return w.packed(fd, want, b)
		}
		return nil
	}
	switch fd.Kind() {
	case protoreflect.StringKind:
		text, _ := protowire.ConsumeBytes(b)
		if isUTF8(fd) && !utf8.Valid(text) {
			return fmt.Errorf("field %s contains invalid UTF-8", fd.FullName())
		}
	case protoreflect.MessageKind:
		content, _ := protowire.ConsumeBytes(b)
		return w.message(fd.Message(), content, depth+1)
	case protoreflect.GroupKind:
		content, n := protowire.ConsumeGroup(fd.Number(), b)
		if n < 0 {
			return errWire(n)
		}
		return w.message(fd.Message(), content, depth+1)
	default: // any value is valid
	}
	return nil
}

// packed checks a list of numbers in one value.
func (w *wire) packed(fd protoreflect.FieldDescriptor, kind protowire.Type, b []byte) error {
	content, _ := protowire.ConsumeBytes(b)
	for len(content) > 0 {
		w.values++
		n := protowire.ConsumeFieldValue(fd.Number(), kind, content)
		if n < 0 {
			return errWire(n)
		}
		content = content[n:]
	}
	return nil
}

// isUTF8 reports whether the strings of a field must be UTF-8, which proto2
// does not ask for.
func isUTF8(fd protoreflect.FieldDescriptor) bool {
	if fd, ok := fd.(interface{ EnforceUTF8() bool }); ok {
		return fd.EnforceUTF8()
	}
	return fd.Syntax() == protoreflect.Proto3
}

func errWire(n int) error {
	return errors.New("not a protocol buffer: " + plain(protowire.ParseError(n)).Error())
}

var wireTypes = map[protoreflect.Kind]protowire.Type{
	protoreflect.BoolKind:     protowire.VarintType,
	protoreflect.EnumKind:     protowire.VarintType,
	protoreflect.Int32Kind:    protowire.VarintType,
	protoreflect.Sint32Kind:   protowire.VarintType,
	protoreflect.Uint32Kind:   protowire.VarintType,
	protoreflect.Int64Kind:    protowire.VarintType,
	protoreflect.Sint64Kind:   protowire.VarintType,
	protoreflect.Uint64Kind:   protowire.VarintType,
	protoreflect.Sfixed32Kind: protowire.Fixed32Type,
	protoreflect.Fixed32Kind:  protowire.Fixed32Type,
	protoreflect.FloatKind:    protowire.Fixed32Type,
	protoreflect.Sfixed64Kind: protowire.Fixed64Type,
	protoreflect.Fixed64Kind:  protowire.Fixed64Type,
	protoreflect.DoubleKind:   protowire.Fixed64Type,
	protoreflect.StringKind:   protowire.BytesType,
	protoreflect.BytesKind:    protowire.BytesType,
	protoreflect.MessageKind:  protowire.BytesType,
	protoreflect.GroupKind:    protowire.StartGroupType,
}
