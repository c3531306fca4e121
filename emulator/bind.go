package emulator

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// wholeBody is the body of a rule whose JSON body is the request itself.
const wholeBody = "*"

// bindBody reads a JSON body into the part of m that field names: m itself for
// "*", nothing for "". An empty body sets nothing. How deep a body nests needs no
// limit: no request is recursive, and an unknown field is an error at once.
func bindBody(m protoreflect.Message, field string, body []byte) error {
	trimmed := bytes.TrimSpace(body)
	if len(trimmed) == 0 {
		return nil
	}
	switch field {
	case wholeBody:
		return protojson.Unmarshal(body, m.Interface())
	case "":
		if string(trimmed) != "{}" {
			return errors.New("this method takes no body")
		}
		return nil
	default:
		fd := fieldByName(m, field)
		if fd == nil || !isMessage(fd) {
			return fmt.Errorf("body cannot be bound to %q", field)
		}
		return protojson.Unmarshal(body, m.Mutable(fd).Message().Interface())
	}
}

// setField sets the field at a dotted path of m from text, or adds to it when
// it is repeated. again means that the path was set before.
func setField(m protoreflect.Message, path, value string, again bool) error {
	name, rest, nested := strings.Cut(path, ".")
	fd := fieldByName(m, name)
	switch {
	case fd == nil:
		return fmt.Errorf("unknown name %s", clip(name))
	case nested && !isMessage(fd):
		return fmt.Errorf("%s has no fields", clip(name))
	case nested:
		return setField(m.Mutable(fd).Message(), rest, value, again)
	case fd.IsMap():
		return fmt.Errorf("%s cannot be set in a query", clip(name))
	case again && !fd.IsList():
		return fmt.Errorf("%s is given more than once", clip(name))
	}
	v, err := parseField(m, fd, value)
	if err != nil {
		return fmt.Errorf("invalid value for %s: %w", clip(name), err)
	}
	if fd.IsList() {
		m.Mutable(fd).List().Append(v)
	} else {
		m.Set(fd, v)
	}
	return nil
}

func fieldByName(m protoreflect.Message, name string) protoreflect.FieldDescriptor {
	fields := m.Descriptor().Fields()
	if fd := fields.ByName(protoreflect.Name(name)); fd != nil {
		return fd
	}
	return fields.ByJSONName(name)
}

// isMessage reports whether fd holds one message, not a list or map of them.
func isMessage(fd protoreflect.FieldDescriptor) bool {
	return fd.Kind() == protoreflect.MessageKind && fd.Cardinality() != protoreflect.Repeated
}

// parseField reads one value of fd's type.
func parseField(m protoreflect.Message, fd protoreflect.FieldDescriptor, s string) (protoreflect.Value, error) {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(strings.ToValidUTF8(s, "\uFFFD")), nil
	case protoreflect.BoolKind:
		b, err := strconv.ParseBool(s)
		return protoreflect.ValueOfBool(b), err
	case protoreflect.Int32Kind:
		n, err := strconv.ParseInt(s, 10, 32)
		return protoreflect.ValueOfInt32(int32(n)), err
	case protoreflect.Int64Kind:
		n, err := strconv.ParseInt(s, 10, 64)
		return protoreflect.ValueOfInt64(n), err
	case protoreflect.BytesKind:
		b, err := base64.StdEncoding.DecodeString(s)
		return protoreflect.ValueOfBytes(b), err
	case protoreflect.EnumKind:
		return parseEnum(fd, s)
	case protoreflect.MessageKind:
		return parseMessage(m, fd, s)
	default:
		// Requests of this service have no other kinds.
		return protoreflect.Value{}, fmt.Errorf("cannot read a %s from a query", fd.Kind())
	}
}

func parseEnum(fd protoreflect.FieldDescriptor, s string) (protoreflect.Value, error) {
	if v := fd.Enum().Values().ByName(protoreflect.Name(s)); v != nil {
		return protoreflect.ValueOfEnum(v.Number()), nil
	}
	n, err := strconv.ParseInt(s, 10, 32)
	return protoreflect.ValueOfEnum(protoreflect.EnumNumber(n)), err
}

// parseMessage reads what JSON writes as one string: a time, a duration, a
// field mask.
func parseMessage(m protoreflect.Message, fd protoreflect.FieldDescriptor, s string) (protoreflect.Value, error) {
	v := m.NewField(fd)
	if fd.IsList() {
		v = v.List().NewElement()
	}
	err := protojson.Unmarshal([]byte(strconv.Quote(s)), v.Message().Interface())
	return v, err
}

// bindRequest fills m from the parts of an HTTP request. Fields of the path win
// over those of the body and the query.
func (r *route) bindRequest(m proto.Message, vars []string, query url.Values, body []byte) error {
	msg := m.ProtoReflect()
	if err := bindBody(msg, r.body, body); err != nil {
		return fmt.Errorf("Invalid JSON payload received. %w", err) //nolint:staticcheck // Google's words
	}
	if r.body == wholeBody && len(query) > 0 {
		return errors.New("this method takes its fields from the body, not from the query")
	}
	for name, values := range query {
		for i, value := range values {
			if err := setField(msg, name, value, i > 0); err != nil {
				return err
			}
		}
	}
	for i, v := range r.path.vars {
		if err := setField(msg, v.field, vars[i], false); err != nil {
			return err
		}
	}
	return nil
}
