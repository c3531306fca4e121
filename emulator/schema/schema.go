// Package schema checks the definitions of Pub/Sub schemas and validates messages
// against them: Avro and protocol buffers, as JSON and as binary.
//
// Both come from clients, so their cost is bounded: by [MaxDefinitionBytes], by the
// depths and counts below, and by time that is linear in the input. A message is
// checked as it is read; only JSON and required fields of protocol buffers are
// built in memory.
package schema

import (
	"errors"
	"fmt"
	"strings"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

// MaxDefinitionBytes is Google's limit of 300 kB.
const MaxDefinitionBytes = 300_000

// Limits that Google does not have, or does not document.
const (
	maxDepth       = 100       // levels of records, arrays or messages in a message
	maxFreeValues  = 1_000_000 // in an Avro message, beyond eight for each byte
	maxJSONObjects = 100_000   // in a JSON message of a protocol buffer
	maxJSONValues  = 1_000_000 // the same
	maxMessages    = 100_000   // in a binary protocol buffer with required fields
	maxAvroDepth   = 1000      // levels of types in an Avro schema
	maxDefaults    = 1_000_000 // values in the defaults of an Avro schema, tried as each branch of a union
	maxBranchPairs = 4_000_000 // the squares of the lengths of all unions, summed
)

// A Schema is a compiled definition. It never changes, and its methods may be
// called concurrently.
type Schema struct {
	checker
}

// A checker validates a message in either encoding.
type checker interface {
	checkJSON(data []byte) error
	checkBinary(data []byte) error
}

// Compile checks a definition. The error is for people to read.
func Compile(kind pubsubpb.Schema_Type, definition string) (_ *Schema, err error) {
	defer recovered(&err)
	if len(definition) > MaxDefinitionBytes {
		return nil, fmt.Errorf("definition too large: %d bytes, at most %d", len(definition), MaxDefinitionBytes)
	}
	var c checker
	switch kind {
	case pubsubpb.Schema_AVRO:
		c, err = compileAvro(definition)
	case pubsubpb.Schema_PROTOCOL_BUFFER:
		c, err = compileProto(definition)
	default:
		return nil, fmt.Errorf("unknown schema type %v: want AVRO or PROTOCOL_BUFFER", kind)
	}
	if err != nil {
		return nil, clip(err)
	}
	return &Schema{c}, nil
}

// Validate returns an error for a message that does not match the schema.
func (s *Schema) Validate(encoding pubsubpb.Encoding, data []byte) (err error) {
	defer recovered(&err)
	switch encoding {
	case pubsubpb.Encoding_JSON:
		return clip(s.checkJSON(data))
	case pubsubpb.Encoding_BINARY:
		return clip(s.checkBinary(data))
	default:
		return fmt.Errorf("unknown encoding %v: want JSON or BINARY", encoding)
	}
}

// Compatible returns an error unless messages of each definition can be read with
// the other one, as successive revisions of a schema must. Both definitions have
// been compiled before.
func Compatible(kind pubsubpb.Schema_Type, a, b string) (err error) {
	defer recovered(&err)
	if kind == pubsubpb.Schema_AVRO {
		return clip(compatibleAvro(a, b))
	}
	return clip(compatibleProto(a, b))
}

// recovered turns a panic of a library that parses what clients send into an error:
// one definition must not end the server for all clients.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = clip(fmt.Errorf("it makes its reader panic: %v", r))
	}
}

// clip cuts an error to what suits a message: one line, of a length that does
// not grow with the depths clients choose. gRPC wants it in UTF-8.
func clip(err error) error {
	if err == nil {
		return nil
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(strings.ToValidUTF8(shorten(text, 500), "?"))
}

// shorten leaves out the middle of what is longer than limit bytes: the place of an
// error is at the start, and the error itself at the end.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return s[:limit/2] + "…" + s[len(s)-limit/2:]
}

// inField adds the name of the field to an error.
func inField(name string, err error) error {
	return fmt.Errorf("field %s: %w", shorten(name, 100), err)
}

var (
	errTooDeep  = fmt.Errorf("nests deeper than %d levels", maxDepth)
	errTrailing = errors.New("there is more data behind the end")
)
