//go:build ignore

// Gen_standard14 makes latin14.txt, symbol.txt and dingbats.txt, the metrics
// and built-in encodings of the fourteen standard fonts, from Adobe's AFM files
// and glyph lists. It takes them from Debian's package libpdfbox2-java:
//
//	go run gen_standard14.go
//
// A line of latin14.txt is a character and its advances in thousandths of the
// font size, in the order Helvetica, Helvetica-Bold, Times-Roman, Times-Bold,
// Times-Italic, Times-BoldItalic; the oblique Helveticas are as wide as the
// upright ones, and all of Courier is 600. A line of the other two is a code, 0
// for none, the advance, the glyph's name and, where the Adobe Glyph List does
// not have that name, its text. The terms of the AFM files are in
// LICENSE-adobe-core14-afm.txt.
package main

import (
	"archive/zip"
	"bufio"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

func main() {
	dir, err := os.MkdirTemp("", "standard14")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	run(dir, "apt-get", "download", "libpdfbox2-java")
	debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(debs) != 1 {
		log.Fatalf("find package: %v %v", debs, err)
	}
	run(dir, "dpkg-deb", "-x", debs[0], dir)
	jar, err := zip.OpenReader(filepath.Join(dir, "usr/share/java/pdfbox2.jar"))
	if err != nil {
		log.Fatal(err)
	}
	defer jar.Close()
	resource := func(name string) string {
		f, err := jar.Open("org/apache/pdfbox/resources/" + name)
		if err != nil {
			log.Fatal(err)
		}
		defer f.Close()
		data, err := io.ReadAll(f)
		if err != nil {
			log.Fatal(err)
		}
		return string(data)
	}

	names := glyphList(resource("glyphlist/glyphlist.txt"))
	latin(resource, names)
	special("symbol.txt", resource("afm/Symbol.afm"), nil)
	special("dingbats.txt", resource("afm/ZapfDingbats.afm"), glyphList(resource("glyphlist/zapfdingbats.txt")))
}

func run(dir, name string, args ...string) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	if err := cmd.Run(); err != nil {
		log.Fatalf("run %s: %v", name, err)
	}
}

func glyphList(list string) map[string]string {
	names := map[string]string{"space": " "} // which the list of the dingbats leaves out
	for line := range strings.Lines(list) {
		name, codes, ok := strings.Cut(strings.TrimSpace(line), ";")
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
		names[name] = text.String()
	}
	return names
}

type glyph struct {
	code, width int
	name        string
}

// glyphs reads the lines "C 65 ; WX 722 ; N A ; B 16 0 706 674 ;" of an AFM
// file.
func glyphs(afm string) (all []glyph) {
	for line := range strings.Lines(afm) {
		var g glyph
		if n, _ := fmt.Sscanf(line, "C %d ; WX %d ; N %s ;", &g.code, &g.width, &g.name); n == 3 {
			all = append(all, g)
		}
	}
	return all
}

func latin(resource func(string) string, names map[string]string) {
	fonts := []string{"Helvetica", "Helvetica-Bold", "Times-Roman", "Times-Bold", "Times-Italic", "Times-BoldItalic"}
	widths := map[string][]int{}
	for _, font := range fonts {
		for _, g := range glyphs(resource("afm/" + font + ".afm")) {
			text := names[g.name]
			if len([]rune(text)) != 1 {
				log.Fatalf("%s: glyph %s is %q", font, g.name, text)
			}
			widths[text] = append(widths[text], g.width)
		}
	}
	write("latin14.txt", func(out io.Writer) {
		for _, text := range slices.Sorted(maps.Keys(widths)) {
			if len(widths[text]) != len(fonts) {
				log.Fatalf("not every font has %q", text)
			}
			fmt.Fprintf(out, "%s %s\n", text, strings.Trim(fmt.Sprint(widths[text]), "[]"))
		}
	})
}

func special(file, afm string, names map[string]string) {
	write(file, func(out io.Writer) {
		for _, g := range glyphs(afm) {
			line := fmt.Sprintf("%d %d %s %s", max(g.code, 0), g.width, g.name, names[g.name])
			fmt.Fprintln(out, strings.TrimRight(line, " "))
		}
	})
}

func write(name string, content func(io.Writer)) {
	f, err := os.Create(name)
	if err != nil {
		log.Fatal(err)
	}
	out := bufio.NewWriter(f)
	content(out)
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
	if err := f.Close(); err != nil {
		log.Fatal(err)
	}
}
