package redact

import "strings"

// Lines removes secrets from text that comes line by line, also secrets of several
// lines: it hides PEM from BEGIN to END, the lines of a YAML block under
// a secret's name, base64 from its second full line on, and a mnemonic written
// down from its fourth word on. The zero value is ready; it belongs to one writer.
type Lines struct {
	pem    int  // lines since a BEGIN without an END, counting it
	block  int  // lines since a name of a secret whose value is in the lines below
	indent int  // how far that name is indented
	full   bool // the last line was a full line of base64 and nothing else
	gap    bool // lines are missing before this one
	words  int  // words of the last lines, which had only words of mnemonics
}

// MaxHidden is how many lines a BEGIN or a name may hide, and so how many lines before
// others a [Lines] must have seen that knows these. A key of 16384 bits has
// 200. What follows is hidden only while it looks like base64.
const MaxHidden = 256

// Line returns the next line, which has no line end, without its secrets.
func (l *Lines) Line(s string) string {
	if l.pem > 0 && l.inPEM(s) {
		if end := pemEnd().FindStringIndex(s); end != nil {
			l.pem = 0
			return Mark + l.Line(s[end[1]:])
		}
		return Mark
	}
	if l.block > 0 && l.inBlock(s) {
		return Mark
	}
	odd := suspicious(s)
	if odd {
		l.noteBegins(s) // whatever hides this line
	}
	full, gap := l.full, l.gap
	l.full, l.gap = isFull(s), false
	if full && isRest(s) || gap && l.full {
		return Mark
	}
	if l.isMnemonicLine(s) {
		return Mark
	}
	if !odd {
		return s
	}
	return applyRules(s)
}

// Gap says that lines are missing before the next one, which may be in the middle of a
// key.
func (l *Lines) Gap() { l.gap = true }

// Text returns the next lines, which came as one text, without their secrets: those
// that begin in a line of an earlier call, and those that only the whole shows.
func (l *Lines) Text(s string) string {
	if strings.IndexByte(s, '\n') < 0 {
		return l.Line(s)
	}
	return Text(l.each(s))
}

// each returns s with each of its lines as Line returns it.
func (l *Lines) each(s string) string {
	var b strings.Builder
	changed := false
	for line := range strings.Lines(s) {
		text := strings.TrimSuffix(line, "\n")
		clean := l.Line(text)
		changed = changed || clean != text
		b.WriteString(clean)
		b.WriteString(line[len(text):])
	}
	if !changed {
		return s
	}
	return b.String()
}

func (l *Lines) inPEM(s string) bool {
	if l.pem++; l.pem > MaxHidden && !isFull(s) && pemEnd().FindStringIndex(s) == nil {
		l.pem = 0
	}
	return l.pem > 0
}

func (l *Lines) inBlock(s string) bool {
	l.block++
	if blank := strings.TrimSpace(s) == ""; l.block > MaxHidden && !isFull(s) || !blank && indentOf(s) <= l.indent {
		l.block = 0
	}
	return l.block > 0
}

// noteBegins records what of s hides lines below it.
func (l *Lines) noteBegins(s string) {
	begins := pemBegin().FindAllStringIndex(s, -1)
	if len(begins) > 0 && pemEnd().FindStringIndex(s[begins[len(begins)-1][1]:]) == nil {
		l.pem = 1
	}
	at := strings.LastIndexByte(s, ':')
	if at < 0 {
		return
	}
	switch strings.TrimSpace(s[at+1:]) {
	case "", "|", ">", "|-", ">-", "|+", ">+":
		if name, ok := nameBefore(s, at); ok && secretName(name) {
			l.block, l.indent = 1, indentOf(s)
		}
	}
}

func indentOf(s string) int { return len(s) - len(strings.TrimLeft(s, " \t")) }

// isFull reports whether s is a full line of base64 and nothing else; a line with
// a digest is none.
func isFull(s string) bool { return len(s) >= minLine && isRest(s) && !isDigest(strings.TrimSpace(s)) }

// isRest reports whether s is base64 and nothing else. The last line is shorter.
func isRest(s string) bool {
	s = strings.TrimRight(strings.TrimSpace(s), "=")
	for i := range len(s) {
		if classes[s[i]]&base64 == 0 {
			return false
		}
	}
	return s != ""
}

// freeWords is how many words of a mnemonic show before it is known as one; what
// stays hidden of 12 has still 95 bits. wordsAlone tells a line that is part of
// one from a short message.
const (
	freeWords  = 3
	wordsAlone = 6
)

// isMnemonicLine reports whether s is a line of a mnemonic that is written down, some
// words or one a line, perhaps numbered.
func (l *Lines) isMnemonicLine(s string) bool {
	n := onlyWords(s)
	before := l.words
	if l.words = 0; n > 0 {
		l.words = before + n
	}
	return n >= wordsAlone || before > 0 && l.words > freeWords
}

// onlyWords returns how many words s has, or 0 if there is anything else in it
// than words of mnemonics, and numbers and signs before them.
func onlyWords(s string) int {
	if strings.Contains(s, "--") { // drawn, or of PEM
		return 0
	}
	count := 0
	for i := 0; i < len(s); {
		start, end := nextWord(s, i)
		if i < start && !isGap(s[i:start]) {
			return 0
		}
		if start == end && strings.ContainsAny(s[i:], "0123456789") {
			return 0 // "retry 3"
		}
		if start < end {
			if !isMnemonicWord(s[start:end]) {
				return 0
			}
			count++
		}
		i = end
	}
	return count
}
