//go:build ignore

// Gen_glyphnames makes glyphnames.txt, the compact form of the Adobe Glyph
// List that is embedded in the program, from glyphlist.txt as published at
// https://github.com/adobe-type-tools/agl-aglfn:
//
//	go run gen_glyphnames.go < glyphlist.txt > glyphnames.txt
//
// Every line is a glyph name, a space and its text in UTF-8. The licence of
// the list is in LICENSE-adobe-glyph-list.txt.
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	out := bufio.NewWriter(os.Stdout)
	for lines.Scan() {
		name, codes, ok := strings.Cut(strings.TrimSpace(lines.Text()), ";")
		if !ok || strings.HasPrefix(name, "#") {
			continue
		}
		var text strings.Builder
		for code := range strings.FieldsSeq(codes) {
			r, err := strconv.ParseUint(code, 16, 32)
			if err != nil {
				log.Fatalf("glyph %s: %v", name, err)
			}
			text.WriteRune(rune(r))
		}
		if r := text.String()[0]; r < ' ' || r == 0x7f {
			continue // controlLF and its like are no text
		}
		fmt.Fprintf(out, "%s %s\n", name, text.String())
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
}
