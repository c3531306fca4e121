// Command damage writes damaged copies of a PDF, one for each kind of damage
// that readers meet:
//
//	go -C bench run ./corpus/damage FILE PREFIX
//
// writes PREFIX-truncated-half.pdf and so on. Both paths are absolute or
// relative to bench. The same file gives the same copies.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
)

var damages = []struct {
	name string
	do   func([]byte) []byte
}{
	{"truncated-half", func(b []byte) []byte { return b[:len(b)/2] }},
	{"truncated-tenth", func(b []byte) []byte { return b[:len(b)*9/10] }},
	{"truncated-hundredth", func(b []byte) []byte { return b[:len(b)*99/100] }},
	{"startxref-wrong", func(b []byte) []byte { return replaceLast(b, "startxref", "startxref\n7") }},
	{"startxref-gone", func(b []byte) []byte { return replaceLast(b, "startxref", "startxxxx") }},
	{"trailer-gone", func(b []byte) []byte { return replaceLast(b, "trailer", "tra") }},
	{"offsets-one-off", offsetsOneOff},
	{"xref-bytes-flipped", flipXref},
	{"rubbish-before", func(b []byte) []byte { return slices.Concat([]byte("HTTP/1.1 200 OK\r\nServer: x\r\n\r\n"), b) }},
	{"rubbish-behind", func(b []byte) []byte { return slices.Concat(b, bytes.Repeat([]byte("\x00rubbish\n"), 300)) }},
	{"header-gone", func(b []byte) []byte { return bytes.Replace(b, []byte("%PDF-"), []byte("%XYZ-"), 1) }},
	{"line-ends-cr", lineEndsCR},
	{"endobj-gone", func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("endobj"), nil) }},
	{"endstream-gone", func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("endstream"), nil) }},
	{"lengths-too-small", func(b []byte) []byte { return lengths(b, func(n int) int { return n / 2 }) }},
	{"lengths-too-large", func(b []byte) []byte { return lengths(b, func(n int) int { return n*2 + 1000 }) }},
	{"block-zeroed", func(b []byte) []byte { clear(b[len(b)/3 : min(len(b), len(b)/3+512)]); return b }},
	{"tail-twice", func(b []byte) []byte { return slices.Concat(b, b[len(b)*4/5:]) }},
	{"kid-gone", func(b []byte) []byte { return kids.ReplaceAll(b, []byte("${1}999999 0 R")) }},
	{"kid-null", func(b []byte) []byte { return kids.ReplaceAll(b, []byte("${1}null")) }},
	{"count-wrong", func(b []byte) []byte { return count.ReplaceAll(b, []byte("/Count 77")) }},
	{"types-gone", func(b []byte) []byte { return pageType.ReplaceAll(b, nil) }},
	{"line-missing", func(b []byte) []byte { return slices.Concat(b[:len(b)/2], b[len(b)/2+37:]) }},
}

var (
	kids     = regexp.MustCompile(`(/Kids\s*\[\s*)\d+ \d+ R`)
	count    = regexp.MustCompile(`/Count \d+`)
	pageType = regexp.MustCompile(`/Type\s*/Page\b`)
	length   = regexp.MustCompile(`/Length \d+`)
	entry    = regexp.MustCompile(`\d{10} (\d{5} n)`)
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "damage:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("needs a file and a prefix")
	}
	data, err := os.ReadFile(args[0])
	if err != nil {
		return fmt.Errorf("read document: %w", err)
	}
	for _, d := range damages {
		damaged := d.do(slices.Clone(data))
		if bytes.Equal(damaged, data) {
			continue // there is nothing of the kind in this file
		}
		if err := os.WriteFile(args[1]+"-"+d.name+".pdf", damaged, 0o644); err != nil {
			return fmt.Errorf("write document: %w", err)
		}
	}
	return nil
}

func replaceLast(b []byte, old, replacement string) []byte {
	at := bytes.LastIndex(b, []byte(old))
	if at < 0 {
		return b
	}
	return slices.Replace(b, at, at+len(old), []byte(replacement)...)
}

// offsetsOneOff adds one to every offset of the cross-reference tables.
func offsetsOneOff(b []byte) []byte {
	return entry.ReplaceAllFunc(b, func(e []byte) []byte {
		n, _ := strconv.Atoi(string(e[:10])) // ten digits
		return fmt.Appendf(nil, "%010d%s", n+1, e[10:])
	})
}

// flipXref inverts some bytes behind where the cross-reference begins.
func flipXref(b []byte) []byte {
	at := bytes.LastIndex(b, []byte("startxref"))
	if at < 0 {
		return b
	}
	var start int
	if _, err := fmt.Sscan(string(b[at+len("startxref"):]), &start); err != nil || start < 0 || start >= at {
		return b
	}
	for i := start + 10; i < at; i += 97 {
		b[i] ^= 0xff
	}
	return b
}

// lineEndsCR does what a transfer in text mode does to line ends, streams
// excepted: they would be lost, and with them all there is to read.
func lineEndsCR(b []byte) []byte {
	var out []byte
	for {
		start := bytes.Index(b, []byte("stream\n"))
		if start < 0 {
			return append(out, bytes.ReplaceAll(b, []byte("\n"), []byte("\r"))...)
		}
		start += len("stream\n")
		end := bytes.Index(b[start:], []byte("endstream"))
		if end < 0 {
			return append(out, b...)
		}
		end += start + len("endstream")
		out = append(out, bytes.ReplaceAll(b[:start-1], []byte("\n"), []byte("\r"))...)
		out = append(out, b[start-1:end]...)
		b = b[end:]
	}
}

// lengths changes the direct lengths of streams.
func lengths(b []byte, change func(int) int) []byte {
	return length.ReplaceAllFunc(b, func(l []byte) []byte {
		n, _ := strconv.Atoi(string(l[len("/Length "):])) // digits
		return fmt.Appendf(nil, "/Length %d", change(n))
	})
}
