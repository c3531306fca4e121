package httpd

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/batchfleet/batchfleet/jobs"
)

// BodyError is a body that cannot be used, by a mistake of the caller. Field is the
// path of the wrong field (meta.tags[2].name), empty for the body as a whole. The
// text may be shown to the caller.
type BodyError struct {
	Field, Problem string
}

// missing is the Problem of a required field that is not there, or null.
const missing = "missing"

// Error returns "Missing required field: NAME" or a sentence that names the
// field and what is wrong with it.
func (e *BodyError) Error() string {
	switch {
	case e.Problem == missing:
		return "Missing required field: " + e.Field
	case e.Field == "":
		return "Invalid body: " + e.Problem
	default:
		return "Invalid field " + e.Field + ": " + e.Problem
	}
}

// promoted returns a path of encoding/json without the embedded structs at its
// beginning, which the JSON text does not have.
func promoted(t reflect.Type, path string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	first, rest, ok := strings.Cut(path, ".")
	if !ok || t.Kind() != reflect.Struct {
		return path
	}
	if f, has := t.FieldByName(first); has && f.Anonymous && f.Tag.Get("json") == "" {
		return promoted(f.Type, rest)
	}
	return path
}

// wanted names a Go type in the words of JSON.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return fmt.Sprintf("a whole number of %d bits", t.Bits())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return fmt.Sprintf("a whole number of %d bits, not negative", t.Bits())
	case reflect.Float32, reflect.Float64:
		return "a number in the range of a double"
	case reflect.Slice, reflect.Array:
		return "an array"
	default:
		return "an object"
	}
}

// clip shortens a part of the caller's text that an error repeats.
func clip(s string) string {
	return jobs.Clip(s, 64+len("…"), "…")
}
