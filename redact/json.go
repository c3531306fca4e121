package redact

import (
	"bytes"
	"encoding/json"
	"strings"
)

// JSON returns a JSON text without the secrets in its strings, at any depth. Under
// a name such as password all strings are secrets. Numbers and the order of keys
// stay. A text that is no JSON is replaced as a whole.
func JSON(text json.RawMessage) json.RawMessage {
	if !json.Valid(text) {
		return json.RawMessage(`"` + Mark + `"`)
	}
	w := walker{in: text, out: make([]byte, 0, len(text))}
	w.value("")
	w.blanks()
	return w.out
}

// A walker copies valid JSON.
type walker struct {
	in   []byte // what is left
	out  []byte
	list *list // the array that the value is in, or nil
}

// A list is what the strings of an array tell about the next ones.
type list struct {
	lines Lines  // each may be a line
	flag  string // of a secret, whose value is the next
}

// clean returns the next string without its secrets.
func (l *list) clean(s string) string {
	flag := l.flag
	l.flag = flagOf(s)
	if flag != "" && !strings.HasPrefix(s, "-") && !harmless(flag, s) {
		return Mark
	}
	if strings.IndexByte(s, '\n') >= 0 || onlyWords(s) == 1 { // words alone are counted by array
		return Text(s)
	}
	return l.lines.Line(s)
}

// flagOf returns the name of the secret that s is a flag of and nothing else, or "".
func flagOf(s string) string {
	name := strings.TrimLeft(s, "-")
	for i := range len(name) {
		if !isNameByte(name[i]) {
			return ""
		}
	}
	if name == s || !secretName(name) {
		return ""
	}
	return name
}

func (w *walker) blanks() {
	for len(w.in) > 0 && (w.in[0] == ' ' || w.in[0] == '\t' || w.in[0] == '\n' || w.in[0] == '\r') {
		w.copy(1)
	}
}

func (w *walker) copy(n int) {
	w.out = append(w.out, w.in[:n]...)
	w.in = w.in[n:]
}

// value copies the next value. Under is the name of the secret that it is a part
// of, or empty. It reports whether the value is a word of a mnemonic.
func (w *walker) value(under string) (word bool) {
	w.blanks()
	switch w.in[0] {
	case '"':
		return w.text(under)
	case '[':
		w.array(under)
	case '{':
		w.object(under)
	default:
		n := 0
		for n < len(w.in) && (classes[w.in[n]]&base64 != 0 || w.in[n] == '.') {
			n++
		}
		w.copy(n)
	}
	return false
}

// take returns the next string, and how long it is in the text.
func (w *walker) take() (s string, n int) {
	for n = 1; w.in[n] != '"'; n++ {
		if w.in[n] == '\\' {
			n++
		}
	}
	n++
	if bytes.IndexByte(w.in[:n], '\\') < 0 {
		return string(w.in[1 : n-1]), n
	}
	_ = json.Unmarshal(w.in[:n], &s) // a string, for the text is valid
	return s, n
}

func (w *walker) text(under string) (word bool) {
	s, n := w.take()
	var clean string
	if w.list != nil {
		clean = w.list.clean(s)
	} else {
		clean = Text(s)
	}
	if under != "" && !harmless(under, s) {
		clean = Mark
	}
	w.put(s, clean, n)
	return onlyWords(clean) == 1
}

// put copies a string of n bytes, or writes it redacted.
func (w *walker) put(s, clean string, n int) {
	if clean == s {
		w.copy(n)
		return
	}
	quoted, _ := json.Marshal(clean) // fails for no string
	w.out, w.in = append(w.out, quoted...), w.in[n:]
}

// inside sets what the walker is in, until the function it returns is called.
func (w *walker) inside(l *list) (leave func()) {
	outer := w.list
	w.list = l
	return func() { w.list = outer }
}

func (w *walker) array(under string) {
	defer w.inside(&list{})()
	w.copy(1)
	first, last, words := 0, 0, 0 // of a mnemonic, in w.out
	hide := func() {
		if words >= minWords {
			rest := string(w.out[last:])
			w.out = append(append(w.out[:first], `"`+Mark+`"`...), rest...)
		}
		words = 0
	}
	for {
		w.blanks()
		if w.in[0] == ']' {
			break
		}
		if w.in[0] == ',' {
			w.copy(1)
			continue
		}
		start := len(w.out)
		if !w.value(under) {
			hide()
			continue
		}
		if words++; words == 1 {
			first = start
		}
		last = len(w.out)
	}
	hide()
	w.copy(1)
}

func (w *walker) object(under string) {
	defer w.inside(nil)()
	w.copy(1)
	for {
		w.blanks()
		switch w.in[0] {
		case '}':
			w.copy(1)
			return
		case ',':
			w.copy(1)
			continue
		}
		key, n := w.take()
		w.put(key, Text(key), n)
		w.blanks()
		w.copy(1) // the colon
		name := under
		if secretName(key) {
			name = key
		}
		w.value(name)
	}
}
