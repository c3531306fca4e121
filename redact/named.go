package redact

import "strings"

// named hides values that follow a name such as password or api_key: as in
// JSON, also inside of a quoted string, in YAML, in query strings, headers and
// environments, and behind flags. Quotes stay, so that a string of JSON stays one.
func named(s string) string {
	var b []byte
	from := 0
	for i := 0; i < len(s); i++ {
		var name string
		var ok bool
		after := i + 1
		switch s[i] {
		case '=', ':', '>':
			name, ok = nameBefore(s, i)
		case '-':
			name, after, ok = flagName(s, i)
		}
		sig := ok && s[i] == '=' && isSig(name)
		if !ok || !sig && !secretName(name) {
			continue
		}
		start, end := value(s, after, i, name)
		if sig && end-start < minSig {
			continue
		}
		if start < from || harmless(name, s[start:end]) || says(name, s[i:start], s[start:end]) {
			continue
		}
		b = append(append(b, s[from:start]...), Mark...)
		from, i = end, end-1
	}
	if from == 0 {
		return s
	}
	return string(append(b, s[from:]...))
}

// minSig is how long a value named sig is that is a signature, in bytes: others are numbers and names of signals.
const minSig = 16

// isSig reports whether a name is that of the signature in a pre-signed URL of Azure, perhaps behind an ampersand as
// JSON has it.
func isSig(name string) bool { return name == "sig" || name == "u0026sig" }

// maxName is how much of a name is looked at.
const maxName = 64

// nameBefore returns the name, perhaps quoted, before the sign at i. The name of
// an element of XML stands behind a <.
func nameBefore(s string, i int) (string, bool) {
	j := i
	for j > 0 && i-j < 4 && (s[j-1] == ' ' || s[j-1] == '\t') {
		j--
	}
	for k := j; j > 0 && k-j < 8 && (s[j-1] == '"' || s[j-1] == '\'' || s[j-1] == '\\' || s[j-1] == ']'); {
		j--
	}
	end := j
	for j > 0 && end-j < maxName && isNameByte(s[j-1]) {
		j--
	}
	if secondWord(s[j:end]) && j > 0 && s[j-1] == ' ' {
		for j--; j > 0 && end-j < maxName && isNameByte(s[j-1]); {
			j--
		}
	}
	if s[i] == '>' && (end != i || j == 0 || s[j-1] != '<') {
		return "", false
	}
	return s[j:end], end-j >= 3
}

// secondWord reports whether a name may begin with the word before s, as "Private
// key" does.
func secondWord(s string) bool {
	for _, word := range [...]string{"key", "phrase", "words", "tx", "transaction"} {
		if len(s) == len(word) && strings.EqualFold(s, word) {
			return true
		}
	}
	return false
}

func isNameByte(c byte) bool { return classes[c]&alnum != 0 || c == '_' || c == '-' || c == '.' }

// flagAt reports whether the dash at i begins a flag whose name is a secret's.
func flagAt(s string, i int) bool {
	name, _, ok := flagName(s, i)
	return ok && secretName(name)
}

// flagName returns the name of the flag that begins at i, and where its value
// does, if that is another argument.
func flagName(s string, i int) (name string, after int, ok bool) {
	if i > 0 && isNameByte(s[i-1]) && !afterEscape(s, i) {
		return "", 0, false
	}
	for i < len(s) && s[i] == '-' {
		i++
	}
	start := i
	for i < len(s) && i-start < maxName && isNameByte(s[i]) {
		i++
	}
	after = i
	for after < len(s) && after-i < 6 && strings.IndexByte(` "',`, s[after]) >= 0 {
		after++
	}
	if after == i || after == len(s) || s[after] == '-' || s[after] == ':' || s[after] == '=' {
		return "", 0, false
	}
	if q := s[after-1]; after-i > 1 && (q == '"' || q == '\'') {
		after-- // value reads from its quote on
	}
	return s[start:i], after, i-start >= 3
}

// value returns where the value behind the sign at sign begins and ends. It is
// looked for from i on.
func value(s string, i, sign int, name string) (start, end int) {
	for i < len(s) && i-sign < 3 && (s[i] == '=' || s[i] == '>' || s[i] == ':') {
		i++
	}
	i = skipBlanks(s, i)
	for i < len(s) && s[i] == '(' {
		i++
	}
	i = skipScheme(s, i)
	if i == len(s) {
		return i, i
	}
	slashes := i
	for slashes < len(s) && s[slashes] == '\\' {
		slashes++
	}
	switch {
	case slashes > i && slashes < len(s) && (s[slashes] == '"' || s[slashes] == '\''):
		start = slashes + 1
		return start, until(s, start, s[i:start])
	case s[i] == '"' || s[i] == '\'' || s[i] == '`':
		return i + 1, closing(s, i+1, s[i])
	case s[i] == '[':
		end = until(s, i, "]")
		return i, bare(s, end)
	case wholeLine(s, sign, name):
		return i, lineEnd(s, i)
	default:
		return i, bare(s, i)
	}
}

func skipBlanks(s string, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\t') {
		i++
	}
	return i
}

// skipScheme skips the word before the secret of an Authorization.
func skipScheme(s string, i int) int {
	for _, word := range [...]string{"bearer ", "basic ", "token ", "digest ", "negotiate "} {
		if len(s)-i > len(word) && strings.EqualFold(s[i:i+len(word)], word) {
			return skipBlanks(s, i+len(word))
		}
	}
	return i
}

// bare returns where a value without quotes ends.
func bare(s string, i int) int {
	for i < len(s) && strings.IndexByte(" \t\r\n\"'`&,;\\<>", s[i]) < 0 {
		i++
	}
	return i
}

// until returns where mark is, or where the line ends. A mark that is a bracket
// belongs to the value.
func until(s string, i int, mark string) int {
	for ; i < len(s) && s[i] != '\n'; i++ {
		if strings.HasPrefix(s[i:], mark) {
			if mark == "]" {
				i++
			}
			break
		}
	}
	return i
}

// closing returns where the quote that ends a value is, or where the line ends.
// A value may have several lines if it has a quote at its end.
func closing(s string, i int, quote byte) int {
	for j := i; j < len(s); j++ {
		switch s[j] {
		case '\\':
			j++
		case quote:
			return j
		}
	}
	return lineEnd(s, i)
}

func lineEnd(s string, i int) int {
	if at := strings.IndexByte(s[i:], '\n'); at >= 0 {
		return i + at
	}
	return len(s)
}

// wholeLine reports whether a value goes on to the end of its line: of a mnemonic
// and of cookies it does, of passwords in YAML, too.
func wholeLine(s string, sign int, name string) bool {
	n := normal(name)
	if has(n, "mnemonic") || has(n, "cookie") || has(n, "seedphrase") || has(n, "seedwords") || has(n, "recoveryphrase") {
		return true
	}
	if !has(n, "passw") && !has(n, "passphrase") || s[sign] != ':' || sign+1 >= len(s) || s[sign+1] != ' ' {
		return false
	}
	start := sign
	for start > 0 && s[start-1] != '\n' && sign-start < 2*maxName { // no further: a line may be long
		start--
	}
	return (start == 0 || s[start-1] == '\n') && strings.Trim(s[start:sign], " \t-\"'") == name
}

// harmless reports whether a value is no secret although its name suggests one.
func harmless(name, v string) bool {
	switch v {
	case "", Mark, "null", "true", "false", "nil", "none", "None", "~", "[]", "{}", "{", "[", "|", ">", "|-", ">-", "|+", ">+":
		return true
	}
	n := normal(name)
	switch {
	case strings.HasSuffix(n, "seed"), strings.HasSuffix(n, "tokens"), has(n, "tx"):
		return isNumber(v)
	case n == "auth":
		return !random(v)
	case n == "kubeconfig", n == "pwd":
		return strings.IndexAny(v, "/~.") == 0
	}
	return false
}

// says reports whether text goes on behind a name, as in "x509: invalid signature: parent
// certificate cannot sign": a signature is no word of small letters. between is what stands
// between name and value: of a quoted value or one behind = that is not enough to tell.
func says(name, between, v string) bool {
	const maxWord = 16
	if normal(name) != "signature" || between != ": " {
		return false
	}
	word := strings.TrimRight(v, ":.)")
	small := strings.Trim(word, "abcdefghijklmnopqrstuvwxyz-/") == ""            // crypto/rsa is a word, too
	return small && len(word) <= maxWord && strings.Trim(word, "abcdef-/") != "" // which hex is not
}

func isNumber(s string) bool { return len(s) <= 20 && strings.Trim(s, "0123456789") == "" }
