package schema

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bufbuild/protocompile/ast"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/options"
	"github.com/bufbuild/protocompile/parser"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
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

// protoFile is what errors call the definition.
const protoFile = "schema.proto"

// parseProto returns the one message type a definition must have.
//
//nolint:contextcheck,nolintlint // the compiler waits for nothing; contextcheck looks for this here and complains at callers
func parseProto(definition string) (protoreflect.MessageDescriptor, error) {
	if err := checkProtoDepth(definition); err != nil {
		return nil, err
	}
	file, err := compileFile(definition)
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

// compileFile takes the steps of protocompile.Compiler, for one file without imports. The
// Compiler itself would link the files that protoc comes with, and read some at each start.
func compileFile(definition string) (linker.Result, error) {
	handler := reporter.NewHandler(nil)
	tree, err := parser.Parse(protoFile, strings.NewReader(definition), handler)
	if err != nil {
		return nil, err
	}
	parsed, err := parser.ResultFromAST(tree, true, handler)
	if err != nil {
		return nil, err
	}
	for _, decl := range tree.Decls {
		if i, ok := decl.(*ast.ImportNode); ok {
			return nil, reporter.Error(tree.NodeInfo(i.Name), errors.New("imports are not supported"))
		}
	}
	symbols := new(linker.Symbols)
	file, err := linker.Link(parsed, nil, symbols, handler)
	if err != nil {
		return nil, err
	}
	if _, err := options.InterpretOptions(file, handler); err != nil {
		return nil, err
	}
	if err := file.ValidateOptions(handler, symbols); err != nil {
		return nil, err
	}
	file.RemoveAST() // which needs more memory than the rest
	return file, handler.Error()
}

// isWellKnown reports whether a name is, or is in, the package whose types the
// library knows by name: it reads their JSON in forms of their own, and panics
// when a type of such a name has other fields.
func isWellKnown(name string) bool {
	return name == "google.protobuf" || strings.HasPrefix(name, "google.protobuf.")
}

// checkProtoDepth refuses definitions whose brackets nest too deep. What the
// compiler needs grows with the square of the depth.
func checkProtoDepth(s string) error {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '{', '[', '(', '<':
			if depth++; depth > maxProtoDepth {
				return fmt.Errorf("brackets nest deeper than %d", maxProtoDepth)
			}
		case '}', ']', ')', '>':
			depth = max(0, depth-1)
		case '"', '\'':
			i = skipProtoString(s, i)
		case '/':
			i = skipProtoComment(s, i)
		}
	}
	return nil
}

// skipProtoString returns where the string that begins at i ends. One that is
// not closed ends with its line, as the compiler sees it.
func skipProtoString(s string, i int) int {
	for j := i + 1; j < len(s); j++ {
		switch s[j] {
		case s[i], '\n':
			return j
		case '\\':
			j++
		}
	}
	return len(s)
}

// skipProtoComment returns where the comment at i ends, or i.
func skipProtoComment(s string, i int) int {
	var end string
	switch rest := s[i:]; {
	case strings.HasPrefix(rest, "//"):
		end = "\n"
	case strings.HasPrefix(rest, "/*"):
		end = "*/"
	default:
		return i
	}
	n := strings.Index(s[i+2:], end)
	if n < 0 {
		return len(s)
	}
	return i + 2 + n + len(end) - 1
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
