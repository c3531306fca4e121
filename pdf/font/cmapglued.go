package font

import (
	"bytes"

	"github.com/batchfleet/batchfleet/pdf/cos"
)

// The sections of a CMap, each from a "begin" to an "end" of that name.
var cmapSections = [...][]byte{
	[]byte("bfchar"), []byte("bfrange"), []byte("cidchar"), []byte("cidrange"), []byte("codespacerange"),
	[]byte("notdefchar"), []byte("notdefrange"), []byte("cmap"),
}

// operatorAt returns the length of the CMap operator that word begins with, 0
// if it begins with none. In a name nothing counts but the operators that no
// name ends with.
func operatorAt(word []byte, inName bool) int {
	rest, ok := bytes.CutPrefix(word, []byte("end"))
	if !ok {
		rest, ok = bytes.CutPrefix(word, []byte("begin"))
	}
	if ok {
		for _, section := range cmapSections {
			if bytes.HasPrefix(rest, section) {
				return len(word) - len(rest) + len(section)
			}
		}
	}
	for _, operator := range [...]string{"usecmap", "defineresource", "def"} {
		if bytes.HasPrefix(word, []byte(operator)) && (!inName || operator != "def") { // ".notdef"
			return len(operator)
		}
	}
	return 0
}

// unglue calls each with the parts of t. Some writers leave out what should
// stand between an operator and the next, as in "endbfcharendcmap", or between
// a number or a name and an operator.
func unglue(t cos.Token, each func(cos.Token)) {
	inName := t.Kind == cos.NameToken
	if t.Kind != cos.Keyword && !inName {
		each(t)
		return
	}
	word, start := t.Bytes, 0
	for i := 0; i < len(word); {
		n := operatorAt(word[i:], inName)
		if n == 0 {
			i++
			continue
		}
		if i > start {
			each(unglued(word[start:i], inName))
		}
		each(cos.Token{Kind: cos.Keyword, Bytes: word[i : i+n]})
		i += n
		start, inName = i, false
	}
	switch {
	case start == 0:
		each(t)
	case start < len(word):
		each(unglued(word[start:], false))
	}
}

// unglued returns a part that is no operator as the token it is.
func unglued(part []byte, name bool) cos.Token {
	if name {
		return cos.Token{Kind: cos.NameToken, Bytes: part}
	}
	return cos.NewLexer(part).Next()
}
