package content

import (
	"strconv"
	"strings"

	"github.com/batchfleet/batchfleet/pdf/cos"
)

const (
	fieldPassword   = 1 << 13 // of a text field
	fieldPushbutton = 1 << 16 // of a button

	// maxFieldDepth bounds how deep fields nest.
	maxFieldDepth = 32
	// maxChosen bounds the options chosen of one list.
	maxChosen = 1000
)

// value returns the text of the form field that annotation a at o belongs to,
// which a viewer would show in its place; "" if there is none (ISO 32000-1,
// 12.7). For a button that is on it is the name of its state.
func (in *interpreter) value(o cos.Object, a cos.Dict) string {
	if in.file.Name(a["Subtype"]) != "Widget" {
		return ""
	}
	flags, _ := in.file.Int(in.inherited(a, "Ff"))
	switch in.file.Name(in.inherited(a, "FT")) {
	case "Tx":
		if flags&fieldPassword == 0 {
			return in.fieldText(in.inherited(a, "V"))
		}
	case "Ch":
		return in.chosen(a)
	case "Btn":
		if flags&fieldPushbutton == 0 {
			return in.buttonState(o, a)
		}
	}
	return ""
}

// inherited returns the entry of a field, or of the nearest field above it that
// has it.
func (in *interpreter) inherited(field cos.Dict, key cos.Name) cos.Object {
	for range maxFieldDepth {
		if field == nil {
			break
		}
		if o := in.file.Resolve(field[key]); o != nil {
			return o
		}
		field = in.file.Dict(field["Parent"])
	}
	return nil
}

// fieldText returns a value as text: a string, or a stream of a long one.
func (in *interpreter) fieldText(o cos.Object) string {
	switch v := in.file.Resolve(o).(type) {
	case cos.String:
		if in.file.Spend(2 * len(v)) {
			return in.valueText(v)
		}
	case cos.Name:
		return string(v)
	case *cos.Stream:
		return in.valueText(cos.String(in.decode("value", v, in.layout.limit+1)))
	}
	return ""
}

// valueText returns a text string, cut where it is over the limit: what is
// decoded takes several times its bytes.
func (in *interpreter) valueText(s cos.String) string {
	if len(s) > in.layout.limit {
		s, in.layout.full = s[:in.layout.limit], true
	}
	return s.Text()
}

// chosen returns what is chosen of a list, each on a line.
func (in *interpreter) chosen(a cos.Dict) string {
	values := in.file.List(in.inherited(a, "V"))
	options := in.file.Array(in.inherited(a, "Opt"))
	var lines []string
	size := 0
	for _, v := range values[:min(len(values), maxChosen)] {
		line := in.shownAs(in.fieldText(v), options)
		if size += len(line); size > in.layout.limit {
			in.layout.full = true
			break
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// shownAs returns what the option with this value is called: an option may be
// a pair of both.
func (in *interpreter) shownAs(value string, options cos.Array) string {
	for _, o := range options {
		if !in.file.Spend(16) {
			break
		}
		if pair := in.file.Array(o); len(pair) == 2 && in.fieldText(pair[0]) == value {
			return in.fieldText(pair[1])
		}
	}
	return value
}

// buttonState returns the state of a check box or a radio button, "" if it is
// off. Options name states that are numbers.
func (in *interpreter) buttonState(o cos.Object, a cos.Dict) string {
	state := in.file.Name(a["AS"])
	if state == "" && in.isFirst(o, a) {
		state = in.file.Name(in.inherited(a, "V"))
	}
	if state == "Off" {
		return ""
	}
	options := in.file.Array(in.inherited(a, "Opt"))
	if n, err := strconv.Atoi(string(state)); err == nil && n >= 0 && n < len(options) {
		return in.fieldText(options[n])
	}
	return string(state)
}

// isFirst reports whether annotation a at o is the first of its field: where
// buttons do not tell which of them is on, the value is read once.
func (in *interpreter) isFirst(o cos.Object, a cos.Dict) bool {
	if in.file.Name(a["V"]) != "" {
		return true
	}
	kids := in.file.Array(in.file.Dict(a["Parent"])["Kids"])
	if len(kids) == 0 {
		return true
	}
	first, _ := kids[0].(cos.Ref)
	own, ok := o.(cos.Ref)
	return ok && own == first
}

// isStale reports whether the appearance of a is to be made again from the
// value of its field, as programs say that fill in forms without drawing them.
// Buttons have an appearance for every state.
func (in *interpreter) isStale(a cos.Dict) bool {
	if in.file.Name(a["Subtype"]) != "Widget" || in.file.Name(in.inherited(a, "FT")) == "Btn" {
		return false
	}
	form := in.file.Dict(in.file.Dict(in.file.Trailer["Root"])["AcroForm"])
	return in.file.Resolve(form["NeedAppearances"]) == true
}

// showValue places the value of a field in its rectangle, each line below the
// one before.
func (in *interpreter) showValue(a cos.Dict, value string) {
	const largest, lineHeight, width = 12, 1.2, 0.5 // of letters: points, and parts of their size
	rect, ok := readBox(in.file, a["Rect"])
	if !ok {
		return // it is not shown anywhere
	}
	size := min(rect.y1-rect.y0, largest)
	g := glyph{x: rect.x0, y: rect.y1 - size, size: size, alongX: 1}
	for line := range strings.Lines(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(value)) {
		g.text = strings.TrimSuffix(line, "\n")
		g.endX, g.endY = min(rect.x1, g.x+width*size*float64(len(g.text))), g.y
		in.layout.placeLine(&g)
		g.y = max(g.y-lineHeight*size, rect.y0)
	}
}
