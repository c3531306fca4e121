package zpe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/batchfleet/batchfleet/jobs"
)

// object is a JSON object that is read strictly: no field may come twice, and
// none may be left over. encoding/json would take the last of two fields, ignore
// case, and read null as nothing.
//
// The first error is kept, and later reads return zero values, so that a reader
// of fields need not look for one after each.
type object struct {
	path   string // of the object itself, "" for the outermost
	fields map[string]json.RawMessage
	order  []string
	known  []string // fields that were asked for
	err    error
}

// readObject reads text, which must be exactly one object.
func readObject(path string, text []byte) *object {
	o := &object{path: path, fields: map[string]json.RawMessage{}}
	o.err = o.read(json.NewDecoder(bytes.NewReader(text)))
	return o
}

func (o *object) read(dec *json.Decoder) error {
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("%s must be a JSON object", o.self())
	}
	for dec.More() {
		t, err := dec.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return fmt.Errorf("%s is not valid JSON", o.self())
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return fmt.Errorf("%s is not valid JSON", o.name(name))
		}
		if _, twice := o.fields[name]; twice {
			return fmt.Errorf("%s is given twice", o.name(name))
		}
		o.fields[name] = value
		o.order = append(o.order, name)
	}
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("%s is not valid JSON", o.self())
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s is followed by something else", o.self())
	}
	return nil
}

func (o *object) self() string {
	if o.path == "" {
		return "payload"
	}
	return o.path
}

// name returns the full name of a field for an error; one that is not ours is cut.
func (o *object) name(field string) string {
	field = shorten(field)
	if o.path == "" {
		return field
	}
	return o.path + "." + field
}

// shorten makes text from outside fit to be quoted in an error.
func shorten(s string) string {
	const most = 40
	if len(s) > most {
		s = jobs.Clip(s, most+len("…"), "…")
	}
	if !utf8.ValidString(s) || strconv.Quote(s) != `"`+s+`"` {
		return strconv.QuoteToASCII(s)
	}
	return s
}

// quote returns text from outside in quotes, cut.
func quote(s string) string {
	if s = shorten(s); strings.HasPrefix(s, `"`) {
		return s // quotes were needed
	}
	return `"` + s + `"`
}

func (o *object) fail(field, format string, args ...any) {
	if o.err == nil {
		o.err = fmt.Errorf("%s %s", o.name(field), fmt.Sprintf(format, args...))
	}
}

// take returns a field's value and strikes it off the list of those not read.
func (o *object) take(field string) (json.RawMessage, bool) {
	o.known = append(o.known, field)
	v, ok := o.fields[field]
	delete(o.fields, field)
	return v, ok && o.err == nil
}

// end returns the first error, or one for an unknown field, with those that there are.
func (o *object) end() error {
	for _, field := range o.order {
		if _, left := o.fields[field]; left {
			if o.err == nil {
				o.err = fmt.Errorf("%s is not a field of %s: it may have %s", quote(field), o.self(), strings.Join(o.known, ", "))
			}
			break
		}
	}
	return o.err
}

// field returns what parse makes of a field, or fallback if there is none.
func field[T any](o *object, name string, fallback T, parse func(json.RawMessage) (T, error)) T {
	v, ok := o.take(name)
	if !ok {
		return fallback
	}
	x, err := parse(v)
	if err != nil {
		o.fail(name, "%v", err)
	}
	return x
}

// vital is field for one that must be there.
func vital[T any](o *object, name string, parse func(json.RawMessage) (T, error)) (none T) {
	if _, ok := o.fields[name]; !ok {
		o.fail(name, "is missing")
	}
	return field(o, name, none, parse)
}

// text returns a string field, or fallback if there is none.
func (o *object) text(name, fallback string, most int) string {
	return field(o, name, fallback, func(v json.RawMessage) (s string, err error) {
		if v[0] != '"' || json.Unmarshal(v, &s) != nil {
			return s, errors.New("must be a string")
		}
		if len(s) > most {
			return s, fmt.Errorf("is %d bytes long, at most %d are allowed", len(s), most)
		}
		return s, nil
	})
}

// flag returns a boolean field, or fallback if there is none.
func (o *object) flag(name string, fallback bool) bool {
	return field(o, name, fallback, func(v json.RawMessage) (bool, error) {
		if s := string(v); s != "true" && s != "false" {
			return false, errors.New("must be true or false")
		}
		return v[0] == 't', nil
	})
}

// number returns a field from low to high, or fallback if there is none.
func (o *object) number(name string, fallback, low, high float64) float64 {
	return field(o, name, fallback, func(v json.RawMessage) (float64, error) { return jsonNumber(v, low, high) })
}

// whole returns an integer field from low to high, or fallback if there is none.
func (o *object) whole(name string, fallback, low, high int) int {
	return field(o, name, fallback, func(v json.RawMessage) (int, error) { return jsonWhole(v, low, high) })
}

// list returns the elements of an array field of at most most; nil if there is
// none.
func (o *object) list(name string, most int) []json.RawMessage {
	return field(o, name, nil, func(v json.RawMessage) ([]json.RawMessage, error) { return jsonList(v, most) })
}

func jsonList(v json.RawMessage, most int) ([]json.RawMessage, error) {
	var l []json.RawMessage
	if v[0] != '[' || json.Unmarshal(v, &l) != nil {
		return nil, errors.New("must be an array")
	}
	if len(l) > most {
		return nil, fmt.Errorf("has %s, at most %d are allowed", jobs.Count(len(l), "element"), most)
	}
	return l, nil
}

func jsonNumber(v json.RawMessage, low, high float64) (float64, error) {
	if c := v[0]; c != '-' && (c < '0' || c > '9') {
		return 0, errors.New("must be a number")
	}
	x, err := strconv.ParseFloat(string(v), 64)
	if err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
		return 0, fmt.Errorf("is %s, which is no number that can be computed with", shorten(string(v)))
	}
	return x, within(x, low, high)
}

func jsonWhole(v json.RawMessage, low, high int) (int, error) {
	x, err := jsonNumber(v, float64(low), float64(high))
	if err != nil {
		return 0, err
	}
	if x != math.Trunc(x) {
		return 0, fmt.Errorf("is %v, but must be a whole number", x)
	}
	return int(x), nil
}

// jsonThree reads an array of three elements.
func jsonThree[T any](v json.RawMessage, parse func(json.RawMessage) (T, error)) (three [3]T, err error) {
	l, err := jsonList(v, 3)
	if err == nil && len(l) != 3 {
		err = fmt.Errorf("has %s, 3 are needed", jobs.Count(len(l), "element"))
	}
	for i := range l {
		if err == nil {
			three[i], err = parse(l[i])
		}
	}
	return three, err
}

// jsonVector reads an array of three numbers, none larger than most.
func jsonVector(v json.RawMessage, most float64) ([3]float64, error) {
	return jsonThree(v, func(v json.RawMessage) (float64, error) { return jsonNumber(v, -most, most) })
}

func within(x, low, high float64) error {
	if !(low <= x && x <= high) { // also for NaN
		return fmt.Errorf("is %v, but must be from %v to %v", x, low, high)
	}
	return nil
}
