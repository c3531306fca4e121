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
	err    error
}

// readObject reads text, which must be exactly one object.
func readObject(path string, text []byte) *object {
	o := &object{path: path, fields: map[string]json.RawMessage{}}
	dec := json.NewDecoder(bytes.NewReader(text))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		o.err = fmt.Errorf("%s must be a JSON object", o.self())
		return o
	}
	for dec.More() {
		t, err := dec.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			o.err = fmt.Errorf("%s is not valid JSON", o.self())
			return o
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			o.err = fmt.Errorf("%s is not valid JSON", o.name(name))
			return o
		}
		if _, twice := o.fields[name]; twice {
			o.err = fmt.Errorf("%s is given twice", o.name(name))
			return o
		}
		o.fields[name] = value
		o.order = append(o.order, name)
	}
	if _, err := dec.Token(); err != nil {
		o.err = fmt.Errorf("%s is not valid JSON", o.self())
		return o
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		o.err = fmt.Errorf("%s is followed by something else", o.self())
	}
	return o
}

func (o *object) self() string {
	if o.path == "" {
		return "payload"
	}
	return o.path
}

// name returns the full name of a field for an error; a stranger's is cut.
func (o *object) name(field string) string {
	field = shorten(field)
	if o.path == "" {
		return field
	}
	return o.path + "." + field
}

// shorten makes a stranger's text fit to be quoted in an error.
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

// quote returns a stranger's text in quotes, cut.
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
	v, ok := o.fields[field]
	delete(o.fields, field)
	return v, ok && o.err == nil
}

// end returns the first error, or one for a field that nobody has asked for.
func (o *object) end() error {
	for _, field := range o.order {
		if _, left := o.fields[field]; left {
			if o.err == nil {
				o.err = fmt.Errorf("%s is not a field of %s", quote(field), o.self())
			}
			break
		}
	}
	return o.err
}

// text returns a string field, or fallback if there is none.
func (o *object) text(field, fallback string, most int) string {
	v, ok := o.take(field)
	if !ok {
		return fallback
	}
	var s string
	switch {
	case v[0] != '"' || json.Unmarshal(v, &s) != nil:
		o.fail(field, "must be a string")
	case len(s) > most:
		o.fail(field, "is %d bytes long, at most %d are allowed", len(s), most)
	}
	return s
}

// flag returns a boolean field, or fallback if there is none.
func (o *object) flag(field string, fallback bool) bool {
	v, ok := o.take(field)
	switch {
	case !ok:
		return fallback
	case string(v) == "true":
		return true
	case string(v) != "false":
		o.fail(field, "must be true or false")
	}
	return false
}

// number returns a field from low to high, or fallback if there is none.
func (o *object) number(field string, fallback, low, high float64) float64 {
	v, ok := o.take(field)
	if !ok {
		return fallback
	}
	x, err := jsonNumber(v)
	if err == nil {
		err = within(x, low, high)
	}
	if err != nil {
		o.fail(field, "%v", err)
	}
	return x
}

// whole returns an integer field from low to high, or fallback if there is none.
func (o *object) whole(field string, fallback, low, high int) int {
	v, ok := o.take(field)
	if !ok {
		return fallback
	}
	x, err := jsonWhole(v, low, high)
	if err != nil {
		o.fail(field, "%v", err)
	}
	return x
}

// list returns the elements of an array field of at most most; nil if there is
// none.
func (o *object) list(field string, most int) []json.RawMessage {
	v, ok := o.take(field)
	if !ok {
		return nil
	}
	l, err := jsonList(v, most)
	if err != nil {
		o.fail(field, "%v", err)
	}
	return l
}

func jsonList(v json.RawMessage, most int) ([]json.RawMessage, error) {
	var l []json.RawMessage
	if v[0] != '[' || json.Unmarshal(v, &l) != nil {
		return nil, errors.New("must be an array")
	}
	if len(l) > most {
		return nil, fmt.Errorf("has %d elements, at most %d are allowed", len(l), most)
	}
	return l, nil
}

func jsonNumber(v json.RawMessage) (float64, error) {
	if c := v[0]; c != '-' && (c < '0' || c > '9') {
		return 0, errors.New("must be a number")
	}
	x, err := strconv.ParseFloat(string(v), 64)
	if err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
		return 0, fmt.Errorf("is %s, which is no number that can be computed with", shorten(string(v)))
	}
	return x, nil
}

func jsonWhole(v json.RawMessage, low, high int) (int, error) {
	x, err := jsonNumber(v)
	if err == nil {
		err = within(x, float64(low), float64(high))
	}
	if err == nil && x != math.Trunc(x) {
		err = fmt.Errorf("is %v, but must be a whole number", x)
	}
	if err != nil {
		return 0, err
	}
	return int(x), nil
}

// jsonVector reads an array of three numbers, none larger than most.
func jsonVector(v json.RawMessage, most float64) (vec [3]float64, err error) {
	l, err := jsonList(v, 3)
	if err == nil && len(l) != 3 {
		err = fmt.Errorf("has %d elements, 3 are needed", len(l))
	}
	for i := range l {
		if err == nil {
			vec[i], err = jsonNumber(l[i])
		}
		if err == nil {
			err = within(vec[i], -most, most)
		}
	}
	return vec, err
}

func within(x, low, high float64) error {
	if !(low <= x && x <= high) { // also for NaN
		return fmt.Errorf("is %v, but must be from %v to %v", x, low, high)
	}
	return nil
}
