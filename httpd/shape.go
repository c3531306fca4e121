package httpd

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// shape is what the scanner must know of a Go type; nil is any value at all.
type shape struct {
	fields   map[string]field // of a struct, by name; nil for others
	required []string         // in the order of the struct
	elem     *shape           // of a slice, an array or a map
	whole    bool             // of an integer
}

// field is a field of a struct; bit is its index among the required ones, or -1.
type field struct {
	shape *shape
	bit   int
}

var (
	shapes          sync.Map // reflect.Type to *shape
	unmarshaler     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func shapeOf(t reflect.Type) *shape {
	if sh, ok := shapes.Load(t); ok {
		return sh.(*shape)
	}
	sh := buildShape(t, map[reflect.Type]*shape{})
	shapes.Store(t, sh)
	return sh
}

// buildShape panics where a type cannot be supported: a mistake in the program, which
// its first request shows.
func buildShape(t reflect.Type, open map[reflect.Type]*shape) *shape {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || reflect.PointerTo(t).Implements(unmarshaler) || reflect.PointerTo(t).Implements(textUnmarshaler) {
		return nil // it reads itself
	}
	if sh, ok := open[t]; ok {
		return sh
	}
	sh := &shape{}
	open[t] = sh
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		sh.elem = buildShape(t.Elem(), open)
	case reflect.Struct:
		sh.fields = map[string]field{}
		sh.addFields(t, open)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		sh.whole = true
	default:
		return nil
	}
	return sh
}

func (sh *shape) addFields(t reflect.Type, open map[reflect.Type]*shape) {
	for f := range t.Fields() {
		tag := f.Tag.Get("json")
		name, _, _ := strings.Cut(tag, ",")
		if tag == "-" {
			continue
		}
		if f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct {
			sh.addFields(f.Type, open)
			continue
		}
		if !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		if _, twice := sh.fields[name]; twice {
			panic(fmt.Sprintf("httpd: type %s has two fields %q", t, name))
		}
		bit := -1
		if f.Tag.Get("required") == "true" {
			bit = len(sh.required)
			sh.required = append(sh.required, name)
		}
		if bit >= 64 {
			panic(fmt.Sprintf("httpd: type %s has more than 64 required fields", t))
		}
		sh.fields[name] = field{buildShape(f.Type, open), bit}
	}
}

// like returns the name of the field that equals key but for case.
func (sh *shape) like(key string) (string, bool) {
	for name := range sh.fields {
		if strings.EqualFold(name, key) {
			return name, true
		}
	}
	return "", false
}

// maxNames is how many fields an error names.
const maxNames = 20

// names says which fields there are.
func (sh *shape) names() string {
	names := slices.Sorted(maps.Keys(sh.fields))
	if len(names) == 0 {
		return "there are no fields"
	}
	if len(names) > maxNames {
		names = append(names[:maxNames], "…")
	}
	return "the fields are " + strings.Join(names, ", ")
}
