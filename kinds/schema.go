package kinds

import (
	"encoding/json"
	"slices"
	"strconv"
)

// Schema returns the JSON Schema (draft 2020-12) of the parameters of a job, an object whose
// properties are in the order of the file.
//
// All that [Kind.CheckParams] accepts is valid by it; null in place of an object is not. What is
// valid and not accepted is rare: a string that is too long in bytes and not in characters, one
// that does not match a pattern which only Go can read, and an object that is too long as a
// whole.
func (k *Kind) Schema() json.RawMessage {
	if k.free {
		return json.RawMessage(`{"type":"object"}`)
	}
	properties, required := &object{}, &object{}
	for i := range k.Params {
		p := &k.Params[i]
		properties.put(p.Name, k.schemaOf(p))
		if p.Required {
			required.put("", jsonValue(p.Name))
		}
	}
	o := &object{}
	o.put("type", jsonValue("object"))
	o.put("properties", properties.in("{", "}"))
	if len(required.text) > 0 {
		o.put("required", required.in("[", "]"))
	}
	o.put("additionalProperties", jsonValue(false))
	return o.in("{", "}")
}

func (k *Kind) schemaOf(p *Param) []byte {
	o := &object{}
	if p.Type == Enum {
		o.put("type", jsonValue(String))
		values := &object{}
		for _, v := range p.Values {
			values.put("", jsonValue(v))
		}
		o.put("enum", values.in("[", "]"))
	} else {
		o.put("type", jsonValue(p.Type))
	}
	if p.Description != "" {
		o.put("description", jsonValue(p.Description))
	}
	if p.Default != nil {
		o.put("default", jsonValue(p.Default))
	}
	low, high := k.bounds(p)
	if low != nil {
		o.put("minimum", jsonValue(*low))
	}
	if high != nil {
		o.put("maximum", jsonValue(*high))
	}
	if p.Type == String {
		k.stringSchema(p, o)
	}
	return o.in("{", "}")
}

// bounds returns between which numbers a parameter is, nil for no bound.
func (k *Kind) bounds(p *Param) (low, high *float64) {
	low, high = p.Min, p.Max
	if p.Type == Integer {
		if low == nil {
			low = new(float64(-maxInteger))
		}
		if high == nil {
			high = new(float64(maxInteger))
		}
	}
	isNumber := p.Type == Integer || p.Type == Number
	if isNumber && (low == nil || *low < 0) && k.badDash(p, float64(-1)) != "" {
		low = new(float64(0))
	}
	return low, high
}

func (k *Kind) stringSchema(p *Param, o *object) {
	longest := p.MaxLength
	if longest == 0 {
		longest = DefaultMaxLength
	}
	o.put("maxLength", jsonValue(int64(longest)))
	if p.Pattern != nil && isPortable(p.patternText()) {
		o.put("pattern", jsonValue(wholeStart+p.patternText()+wholeEnd))
	}
	forbidden := `\x00`
	if !k.AllowDash {
		forbidden = `^-|\x00`
	}
	not := &object{}
	not.put("pattern", jsonValue(forbidden))
	o.put("not", not.in("{", "}"))
}

// object is a JSON object or array that is being written.
type object struct{ text []byte }

// put adds a member, or an element if the name is empty.
func (o *object) put(name string, value []byte) {
	if len(o.text) > 0 {
		o.text = append(o.text, ',')
	}
	if name != "" {
		o.text = append(strconv.AppendQuote(o.text, name), ':')
	}
	o.text = append(o.text, value...)
}

func (o *object) in(open, end string) []byte {
	return slices.Concat([]byte(open), o.text, []byte(end))
}
