package kinds

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxParams bounds the parameters of a job as JSON, in bytes.
const MaxParams = 256 << 10

// maxParamErrors bounds how many mistakes a [ParamsError] has.
const maxParamErrors = 10

// maxNumber bounds a number as JSON has it, in bytes.
const maxNumber = 64

// ParamError is what is wrong with one parameter.
type ParamError struct {
	Name string // empty if it is about all of them
	Text string // for people: what comes after the name
}

// Error returns the name and what is wrong, such as "params.dpi is 7: must be from 10 to 600".
func (e *ParamError) Error() string {
	if e.Name == "" {
		return "params " + e.Text
	}
	return "params." + quoted(e.Name) + " " + e.Text
}

// ParamsError is what is wrong with the parameters of a job, at most 10 mistakes.
type ParamsError struct{ Errors []*ParamError }

// Error returns the mistakes in one line.
func (e *ParamsError) Error() string {
	all := make([]string, len(e.Errors))
	for i, one := range e.Errors {
		all[i] = one.Error()
	}
	return strings.Join(all, "; ")
}

func (e *ParamsError) add(name, format string, args ...any) {
	e.Errors = append(e.Errors, &ParamError{name, fmt.Sprintf(format, args...)})
}

// CheckParams checks the parameters of a job, a JSON object, or empty or null for none. It
// returns them with the defaults of those that are missing, in the order of the file and in one
// form, or a [*ParamsError]. What it returns it would return again.
func (k *Kind) CheckParams(raw json.RawMessage) (json.RawMessage, error) {
	if k.free {
		return freeParams(raw)
	}
	wrong := &ParamsError{}
	values := k.readParams(raw, wrong)
	var normalized []byte
	if len(wrong.Errors) == 0 {
		normalized = k.normalize(values, wrong)
	}
	if len(wrong.Errors) > 0 {
		return nil, wrong
	}
	return normalized, nil
}

func (k *Kind) readParams(raw json.RawMessage, wrong *ParamsError) (values map[string]any) {
	values = map[string]any{}
	if len(raw) > MaxParams {
		wrong.add("", "are %d bytes long: at most %d are allowed", len(raw), MaxParams)
		return nil
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return values
	}
	// Names are checked here, where the error can say which parameter it is.
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true))
	first, err := d.ReadToken()
	switch {
	case err != nil:
		wrong.add("", "%s", badJSON(err))
		return nil
	case first.Kind() == 'n':
	case first.Kind() != '{':
		wrong.add("", "are %s: want an object", jsonName(first.Kind()))
		return nil
	default:
		for d.PeekKind() == '"' && len(wrong.Errors) < maxParamErrors {
			if err := k.readParam(d, values, wrong); err != nil {
				wrong.add("", "%s", badJSON(err))
				return nil
			}
		}
		if len(wrong.Errors) >= maxParamErrors {
			return nil
		}
		if _, err := d.ReadToken(); err != nil {
			wrong.add("", "%s", badJSON(err))
			return nil
		}
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		wrong.add("", "have something behind their end")
	}
	return values
}

// readParam reads one name and its value. Its error is for what is not JSON.
func (k *Kind) readParam(d *jsontext.Decoder, values map[string]any, wrong *ParamsError) error {
	token, err := d.ReadToken()
	if err != nil {
		return err
	}
	name := token.String()
	p := k.param(name)
	_, twice := values[name]
	switch {
	case p == nil && len(k.Params) == 0:
		wrong.add(name, "is unknown: %s has no params", k.Name)
	case p == nil:
		wrong.add(name, "is unknown%s", meant(name, k.paramNames()))
	case twice:
		wrong.add(name, "is given twice")
	}
	if p == nil || twice {
		return d.SkipValue()
	}
	kind := d.PeekKind()
	if kind == '{' || kind == '[' {
		wrong.add(name, "is %s: want %s", jsonName(kind), p.want())
		values[name] = nil
		return d.SkipValue()
	}
	if token, err = d.ReadToken(); err != nil {
		return err
	}
	v, problem := p.fromJSON(token)
	if problem == "" {
		problem = p.problem(v)
	}
	if problem == "" {
		problem = k.badDash(p, v)
	}
	if problem != "" {
		wrong.add(name, "%s", problem)
	}
	values[name] = v
	return nil
}

// fromJSON returns a value as p's type has it, or what is wrong with it.
func (p *Param) fromJSON(token jsontext.Token) (v any, problem string) {
	switch kind := token.Kind(); {
	case kind == '"' && (p.Type == String || p.Type == Enum):
		return token.String(), ""
	case (kind == 't' || kind == 'f') && p.Type == Boolean:
		return token.Bool(), ""
	case kind == '0' && (p.Type == Integer || p.Type == Number):
		return p.number(token.String())
	case kind == '"':
		return nil, fmt.Sprintf("is the string %.40q: want %s", token.String(), p.want())
	case kind == '0':
		return nil, fmt.Sprintf("is the number %.40s: want %s", token.String(), p.want())
	default:
		return nil, fmt.Sprintf("is %s: want %s", jsonName(kind), p.want())
	}
}

// number reads a number. A whole one may be written 3.0 or 1e3, which are the same to JSON.
func (p *Param) number(text string) (v any, problem string) {
	if len(text) > maxNumber {
		return nil, fmt.Sprintf("is a number of %d characters: at most %d are allowed", len(text), maxNumber)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Sprintf("is %s, which is too large", text)
	}
	if p.Type == Number {
		return f + 0, "" // + 0: there is no use for a negative zero
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, ""
	}
	if f != math.Trunc(f) {
		return nil, fmt.Sprintf("is %s: want a whole number", text)
	}
	if math.Abs(f) > float64(maxInteger) {
		return nil, fmt.Sprintf("is %s: must be from -%d to %d", text, maxInteger, maxInteger)
	}
	return int64(f), ""
}

func (k *Kind) normalize(values map[string]any, wrong *ParamsError) []byte {
	text := []byte{'{'}
	for i := range k.Params {
		p := &k.Params[i]
		v, given := values[p.Name]
		if !given {
			v = p.Default
		}
		switch {
		case v == nil && p.Required && len(wrong.Errors) < maxParamErrors:
			wrong.add(p.Name, "is missing: want %s", p.want())
			continue
		case v == nil:
			continue
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = append(strconv.AppendQuote(text, p.Name), ':')
		text = append(text, jsonValue(v)...)
	}
	text = append(text, '}')
	if len(text) > MaxParams {
		wrong.add("", "are %d bytes long with their defaults: at most %d are allowed", len(text), MaxParams)
	}
	return text
}

// jsonValue writes a value in the one form that normalized parameters have.
func jsonValue(v any) []byte {
	switch v := v.(type) {
	case string:
		text, _ := jsontext.AppendQuote(nil, v) // it is UTF-8
		return text
	case int64:
		return strconv.AppendInt(nil, v, 10)
	case float64:
		return []byte(numberText(v))
	case bool:
		return strconv.AppendBool(nil, v)
	}
	panic(fmt.Sprintf("kinds: %T is no value of a parameter", v))
}

// ParseParam reads what a person gave as NAME=TEXT and returns it as JSON. It is of the
// parameter's type; whether it is within its limits is for [Kind.CheckParams] to say. The error
// is a [*ParamError].
func (k *Kind) ParseParam(name, text string) (json.RawMessage, error) {
	if k.free {
		return freeParam(text), nil
	}
	p := k.param(name)
	if p == nil {
		wrong := &ParamsError{}
		if wrong.add(name, "is unknown%s", meant(name, k.paramNames())); len(k.Params) == 0 {
			wrong.Errors[0].Text = fmt.Sprintf("is unknown: %s has no params", k.Name)
		}
		return nil, wrong.Errors[0]
	}
	refused := func(format string, args ...any) (json.RawMessage, error) {
		return nil, &ParamError{name, fmt.Sprintf(format, args...)}
	}
	switch p.Type {
	case Integer, Number:
		token := jsontext.Value(strings.TrimSpace(text))
		if token.Kind() != '0' || !token.IsValid() {
			return refused("is %.40q: want %s", text, p.want())
		}
		v, problem := p.number(string(token))
		if problem != "" {
			return refused("%s", problem)
		}
		return jsonValue(v), nil
	case Boolean:
		if text != "true" && text != "false" {
			return refused("is %.40q: want true or false", text)
		}
		return json.RawMessage(text), nil
	}
	quoted, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		return refused("is not UTF-8")
	}
	return json.RawMessage(quoted), nil
}

func jsonName(kind jsontext.Kind) string {
	switch kind {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 'n':
		return "null"
	default:
		return "true or false"
	}
}

// badJSON says what is wrong with a text that is not JSON, without the prefix of the library.
func badJSON(err error) string {
	return "are not JSON: " + strings.TrimPrefix(err.Error(), "jsontext: ")
}
