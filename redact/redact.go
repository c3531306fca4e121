// Package redact removes secrets from text that is shown to people: private keys,
// tokens, passwords, the words of a mnemonic, signed transactions.
//
// It recognizes secrets by their shape (PEM, JWT, tokens of well-known services and our
// own, long base64 and hex), by the name before them (password=, "token": and the
// like), and mnemonics by their words. In doubt it removes too much, but leaves
// names of files, ULIDs, digests of up to 64 bytes in hex, and prose. What has
// neither a shape nor a name it cannot know.
//
// It imports only the standard library; every other package may import it. Its
// functions may be called concurrently; a [Lines] belongs to one writer.
package redact

import "strings"

// Mark stands where a secret was.
const Mark = "[redacted]"

// Text returns s without its secrets. Of text that holds none it returns s
// itself. To redact again changes nothing, and valid UTF-8 stays valid.
func Text(s string) string {
	if suspicious(s) {
		s = applyRules(s)
	}
	if strings.IndexByte(s, '\n') < 0 {
		return s
	}
	var lines Lines
	return lines.each(s)
}

// applyRules applies the rules until they change nothing more: what one leaves may
// look like a secret to another. Twice is the rule; the bound is for hostile text.
func applyRules(s string) string {
	for range 8 {
		next := applyOnce(s)
		if next == s {
			break
		}
		s = next
	}
	return s
}

func applyOnce(s string) string {
	s = pem(s)
	s = named(s)
	s = urls(s)
	s = schemes(s)
	s = shapes(s)
	s = runs(s)
	return mnemonics(s)
}
