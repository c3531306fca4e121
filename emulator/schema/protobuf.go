package schema

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/batchfleet/batchfleet/emulator/schema/protofile"
)

// A protoChecker checks messages of one type.
type protoChecker struct {
	message protoreflect.MessageDescriptor
	// required says that a field somewhere in it is required, so that a message
	// must be put together to see whether it is complete.
	required bool
}

func compileProto(definition string) (checker, error) {
	message, err := parseProto(definition)
	if err != nil {
		return nil, err
	}
	return protoChecker{message, hasRequired(message, make(map[protoreflect.FullName]bool))}, nil
}

// parseProto returns the one message type a definition must have.
func parseProto(definition string) (protoreflect.MessageDescriptor, error) {
	file, err := protofile.Parse(definition)
	if err != nil {
		return nil, err
	}
	if n := file.Messages().Len(); n != 1 {
		return nil, fmt.Errorf("it has %d message types at the top level: want exactly one", n)
	}
	message := file.Messages().Get(0)
	if isWellKnown(string(file.Package())) || isWellKnown(string(message.FullName())) {
		return nil, errors.New("names in google.protobuf are taken")
	}
	return message, nil
}

// isWellKnown reports whether a name is, or is in, the package whose types the
// library knows by name: it reads their JSON in forms of their own, and panics
// when a type of such a name has other fields.
func isWellKnown(name string) bool {
	return name == "google.protobuf" || strings.HasPrefix(name, "google.protobuf.")
}

// hasRequired reports whether m or a message in it has a required field. seen
// holds the messages looked at before.
func hasRequired(m protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) bool {
	if seen[m.FullName()] {
		return false
	}
	seen[m.FullName()] = true
	if m.RequiredNumbers().Len() > 0 {
		return true
	}
	fields := m.Fields()
	for i := range fields.Len() {
		if sub := fields.Get(i).Message(); sub != nil && hasRequired(sub, seen) {
			return true
		}
	}
	return false
}

// checkJSON refuses fields the definition does not have.
func (c protoChecker) checkJSON(data []byte) error {
	objects, values := countJSON(data)
	if objects > maxJSONObjects || values > maxJSONValues {
		return fmt.Errorf("%d objects and %d values, at most %d and %d", objects, values, maxJSONObjects, maxJSONValues)
	}
	options := protojson.UnmarshalOptions{RecursionLimit: maxDepth, Resolver: new(protoregistry.Types)}
	return plain(options.Unmarshal(data, dynamicpb.NewMessage(c.message)))
}

// countJSON returns how many objects and, at most, how many values there are in
// a JSON text. They need far more memory than the text does.
func countJSON(data []byte) (objects, values int) {
	quoted := false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == '{':
			objects++
		case c == ',' || c == '[':
			values++
		}
	}
	return objects, values
}

// checkBinary passes fields the definition does not have, as every reader of
// protocol buffers does.
func (c protoChecker) checkBinary(data []byte) error {
	var w wire
	if err := w.message(c.message, data, 0); err != nil || !c.required {
		return err
	}
	if w.messages > maxMessages || w.values > maxJSONValues {
		return fmt.Errorf("%d messages and %d values, at most %d and %d where fields are required", w.messages, w.values, maxMessages, maxJSONValues)
	}
	return plain(proto.Unmarshal(data, dynamicpb.NewMessage(c.message)))
}

// plain returns an error of package proto without its prefix, whose white space
// varies from build to build on purpose.
func plain(err error) error {
	if err == nil {
		return nil
	}
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	return errors.New(strings.TrimPrefix(text, "proto: "))
}
