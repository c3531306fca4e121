//go:build ignore

// Gen_cmaps makes cmaps.bin, the compact form of Adobe's CMaps that is
// embedded in the program, from the files of Debian's package poppler-data,
// which are those of https://github.com/adobe-type-tools/cmap-resources and
// mapping-resources-pdf:
//
//	go run gen_cmaps.go /usr/share/poppler/cMap > cmaps.bin
//
// The same files give the same bytes with the same version of Go. Predefined.go
// reads the result and describes its form. The licence of the CMaps is in
// LICENSE-adobe-cmap-resources.txt.
package main

import (
	"bytes"
	"cmp"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/batchfleet/batchfleet/pdf/cos"
)

// code is a character code of size bytes.
type code struct {
	size int
	code uint32
}

// cmap is what one file says, with what the file it uses says.
type cmap struct {
	name, use, ordering string
	wmode               int
	codespaces          [][2]code
	notdefs             []run // whose values do not count up
	cids                map[code]int
	list                []entry        // cids, sorted
	texts               map[int]string // of CIDs, in UTF-16BE; only in the *-UCS2 files

	base *cmap // chosen to store only the difference from it
	form int   // how codes of this become codes of base
	runs []run
}

type entry struct {
	code
	value int
}

func compare(a, b code) int {
	return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.code, b.code))
}

// run is a range of codes of one size whose values count up.
type run struct {
	first code
	last  uint32
	value int
}

// The forms in which a CMap can read another, whose codes are UTF-32.
const (
	sameCodes = iota
	utf16Codes
	utf8Codes
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: go run gen_cmaps.go DIRECTORY > cmaps.bin")
	}
	files, err := filepath.Glob(filepath.Join(os.Args[1], "Adobe-*", "*"))
	if err != nil || len(files) == 0 {
		log.Fatalf("no CMaps in %s: %v", os.Args[1], err)
	}
	all := map[string]*cmap{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			log.Fatal(err)
		}
		if !bytes.Contains(data, []byte("Redistribution and use in source and binary forms")) {
			log.Fatalf("%s is not under the BSD licence", file)
		}
		all[filepath.Base(file)] = parse(filepath.Base(file), data)
	}

	tables := map[string][]byte{}
	encodings := encodingsOf(all)
	for i, c := range encodings {
		choose(c, encodings[:i])
		tables[c.name] = encode(c)
	}
	for _, ordering := range []string{"CNS1", "GB1", "Japan1", "Japan2", "KR", "Korea1"} {
		tables["Adobe-"+ordering+"-UCS2"] = encodeTexts(textsOf(ordering, all))
	}
	write(tables)
}

// parse reads the CMap of a file.
func parse(name string, data []byte) *cmap {
	c := &cmap{name: name, cids: map[code]int{}, texts: map[int]string{}}
	p := cos.NewParser(data)
	var operands []cos.Object
	for {
		o, operator, ok := p.Next()
		if !ok {
			return c
		}
		if operator == "" {
			operands = append(operands, o)
			continue
		}
		c.apply(operator, operands)
		operands = operands[:0]
	}
}

func (c *cmap) apply(operator string, operands []cos.Object) {
	last := func(n int) cos.Object { return operands[len(operands)-n] }
	switch operator {
	case "usecmap":
		c.use = string(last(1).(cos.Name))
	case "def":
		if len(operands) >= 2 && last(2) == cos.Name("WMode") {
			c.wmode = last(1).(int)
		}
		if len(operands) >= 2 && last(2) == cos.Name("Ordering") {
			c.ordering = string(last(1).(cos.String))
		}
	case "endcodespacerange":
		for ; len(operands) > 0; operands = operands[2:] {
			c.codespaces = append(c.codespaces, [2]code{asCode(operands[0]), asCode(operands[1])})
		}
	case "endnotdefrange":
		for ; len(operands) > 0; operands = operands[3:] {
			c.notdefs = append(c.notdefs, run{asCode(operands[0]), asCode(operands[1]).code, operands[2].(int)})
		}
	case "endcidchar":
		for ; len(operands) > 0; operands = operands[2:] {
			c.cids[asCode(operands[0])] = operands[1].(int)
		}
	case "endcidrange":
		for ; len(operands) > 0; operands = operands[3:] {
			lo, hi, cid := asCode(operands[0]), asCode(operands[1]), operands[2].(int)
			for ; lo.code <= hi.code; lo.code, cid = lo.code+1, cid+1 {
				c.cids[lo] = cid
			}
		}
	case "endbfchar":
		for ; len(operands) > 0; operands = operands[2:] {
			text, _ := operands[1].(cos.String) // some *-UCS2 files map to names
			c.texts[int(asCode(operands[0]).code)] = string(text)
		}
	case "endbfrange":
		for ; len(operands) > 0; operands = operands[3:] {
			lo, hi := int(asCode(operands[0]).code), int(asCode(operands[1]).code)
			text, ok := operands[2].(cos.String)
			for i := 0; ok && lo+i <= hi; i++ {
				next := []byte(text)
				next[len(next)-1] += byte(i)
				c.texts[lo+i] = string(next)
			}
		}
	}
}

func asCode(o cos.Object) code {
	c := code{size: len(o.(cos.String))}
	for _, b := range []byte(o.(cos.String)) {
		c.code = c.code<<8 | uint32(b)
	}
	return c
}

// encodingsOf returns the CMaps from codes to CIDs, those first that others
// may be stored as a difference from: UTF-32, and horizontal writing.
func encodingsOf(all map[string]*cmap) []*cmap {
	other := regexp.MustCompile(`^Adobe-.*[^0-9]$`) // from CIDs to something else
	var encodings []*cmap
	for _, name := range slices.Sorted(maps.Keys(all)) {
		c := all[name]
		for use := c.use; use != ""; use = all[use].use {
			used := all[use]
			for code, cid := range used.cids {
				if _, ok := c.cids[code]; !ok {
					c.cids[code] = cid
				}
			}
			if len(c.codespaces) == 0 {
				c.codespaces = used.codespaces
			}
			if len(c.notdefs) == 0 {
				c.notdefs = used.notdefs
			}
		}
		for _, code := range slices.SortedFunc(maps.Keys(c.cids), compare) {
			c.list = append(c.list, entry{code, c.cids[code]})
		}
		if len(c.cids) > 0 && !other.MatchString(name) {
			encodings = append(encodings, c)
		}
	}
	slices.SortStableFunc(encodings, func(a, b *cmap) int {
		return cmp.Or(cmp.Compare(formOf(a), formOf(b)), cmp.Compare(a.wmode, b.wmode))
	})
	return encodings
}

func formOf(c *cmap) int {
	switch {
	case strings.Contains(c.name, "-UTF8"):
		return utf8Codes
	case strings.Contains(c.name, "-UTF16"), strings.Contains(c.name, "-UCS2"):
		return utf16Codes
	}
	return sameCodes
}

// choose finds the CMap of those encoded before that leaves the smallest
// difference.
func choose(c *cmap, before []*cmap) {
	c.runs = runs(c.list)
	for _, base := range before {
		if base.ordering != c.ordering {
			continue
		}
		form := sameCodes
		if strings.Contains(base.name, "UTF32") {
			form = formOf(c)
		}
		if r := runs(difference(c, base, form)); len(r) < len(c.runs) {
			c.base, c.form, c.runs = base, form, r
		}
	}
}

// difference returns the codes that c maps to something else than base; codes
// that only base maps go to CID 0. Conversion keeps the order of codes.
func difference(c, base *cmap, form int) (differ []entry) {
	rest := base.list
	onlyBase := func(used code) {
		own, ok := unconvert(used, form)
		if ok && (own.size == 2 || form != utf16Codes || !strings.Contains(c.name, "UCS2")) {
			differ = append(differ, entry{own, 0})
		}
	}
	for _, own := range c.list {
		used, ok := convert(own.code, form)
		if !ok {
			differ = append(differ, own)
			continue
		}
		for len(rest) > 0 && compare(rest[0].code, used) < 0 {
			onlyBase(rest[0].code)
			rest = rest[1:]
		}
		if len(rest) > 0 && rest[0].code == used {
			if rest[0].value != own.value {
				differ = append(differ, own)
			}
			rest = rest[1:]
		} else {
			differ = append(differ, own)
		}
	}
	for _, used := range rest {
		onlyBase(used.code)
	}
	return differ
}

func convert(c code, form int) (code, bool) {
	b := binary.BigEndian.AppendUint32(nil, c.code)[4-c.size:]
	var r rune
	switch {
	case form == sameCodes:
		return c, true
	case form == utf8Codes:
		r, _ = utf8.DecodeRune(b)
	case c.size == 4:
		r = utf16.DecodeRune(rune(c.code>>16), rune(c.code&0xffff))
	case c.size == 2:
		r = rune(c.code)
	default:
		return code{}, false
	}
	back, ok := unconvert(code{4, uint32(r)}, form)
	return code{4, uint32(r)}, ok && back == c
}

func unconvert(c code, form int) (code, bool) {
	switch {
	case form == sameCodes:
		return c, true
	case !utf8.ValidRune(rune(c.code)):
		return code{}, false
	case form == utf8Codes:
		return asCode(cos.String(string(rune(c.code)))), true
	case c.code >= 0x10000:
		hi, lo := utf16.EncodeRune(rune(c.code))
		return code{4, uint32(hi)<<16 | uint32(lo)}, true
	}
	return code{2, c.code}, true
}

func runs(list []entry) (runs []run) {
	for _, e := range list {
		if n := len(runs); n > 0 {
			r := &runs[n-1]
			if r.first.size == e.size && r.last+1 == e.code.code && r.value+int(e.code.code-r.first.code) == e.value {
				r.last = e.code.code
				continue
			}
		}
		runs = append(runs, run{e.code, e.code.code, e.value})
	}
	return runs
}

func encode(c *cmap) []byte {
	var out []byte
	text := func(s string) { out = append(binary.AppendUvarint(out, uint64(len(s))), s...) }
	number := func(n int) { out = binary.AppendUvarint(out, uint64(n)) }
	text(c.ordering)
	number(c.wmode)
	if c.base != nil {
		text(c.base.name)
	} else {
		text("")
	}
	number(c.form)
	number(len(c.codespaces))
	for _, s := range c.codespaces {
		number(s[0].size)
		number(int(s[0].code))
		number(int(s[1].code))
	}
	number(len(c.notdefs))
	for _, r := range c.notdefs {
		number(r.first.size)
		number(int(r.first.code))
		number(int(r.last))
		number(r.value)
	}
	for size := 1; size <= 4; size++ {
		var sized []run
		for _, r := range c.runs {
			if r.first.size == size {
				sized = append(sized, r)
			}
		}
		number(len(sized))
		next := 0
		for _, r := range sized {
			number(int(r.first.code) - next)
			next = int(r.last) + 1
		}
		for _, r := range sized {
			number(int(r.last - r.first.code))
		}
		next = 0
		for _, r := range sized {
			out = binary.AppendVarint(out, int64(r.value-next))
			next = r.value + int(r.last-r.first.code) + 1
		}
	}
	return out
}

// textsOf returns the best text of every CID of a character collection: what
// its *-UCS2 file says, or a character that the Unicode CMaps map to the CID
// where that is more common, without old forms.
func textsOf(ordering string, all map[string]*cmap) []string {
	var best []string
	offer := func(cid int, text string) {
		for len(best) <= cid {
			best = append(best, "")
		}
		text = strings.Map(dropSelectors, text)
		if old := best[cid]; badness(text) < badness(old) {
			best[cid] = text
		}
	}
	if file := all["Adobe-"+ordering+"-UCS2"]; file != nil {
		for _, cid := range slices.Sorted(maps.Keys(file.texts)) {
			offer(cid, utf16Text(file.texts[cid]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if c := all[name]; c.ordering == ordering && strings.Contains(name, "-UTF32-") {
			for _, e := range c.list {
				offer(e.value, string(rune(e.code.code)))
			}
		}
	}
	for cid, text := range best {
		switch badness(text) {
		case worst:
			best[cid] = ""
		case bad:
			best[cid] = norm.NFKC.String(text)
		}
	}
	return best
}

func utf16Text(s string) string {
	var units []uint16
	for i := 0; i+1 < len(s); i += 2 {
		units = append(units, uint16(s[i])<<8|uint16(s[i+1]))
	}
	return string(utf16.Decode(units))
}

// dropSelectors drops variation selectors: text is searched for characters, not
// for the shapes they were set in.
func dropSelectors(r rune) rune {
	if r >= 0xfe00 && r <= 0xfe0f || r >= 0xe0100 && r <= 0xe01ef {
		return -1
	}
	return r
}

const (
	good = iota
	bad
	worst
)

// badness grades text: characters of today's languages, forms that only old
// character sets needed, and nothing or a private agreement.
func badness(text string) int {
	badness := good
	if text == "" {
		return worst
	}
	for _, r := range text {
		switch {
		case r < ' ', r == 0x7f, r == utf8.RuneError, r >= 0xe000 && r <= 0xf8ff, r >= 0xf0000:
			return worst
		case r >= 0x2e80 && r <= 0x2fdf, // radicals
			r >= 0xfb00 && r <= 0xfb06,                               // ligatures
			r >= 0xf900 && r <= 0xfaff, r >= 0x2f800 && r <= 0x2fa1f, // compatibility ideographs
			r >= 0xfe10 && r <= 0xfe1f, r >= 0xfe30 && r <= 0xfe48: // vertical forms
			badness = bad
		}
	}
	return badness
}

// encodeTexts writes the characters as differences, then the CIDs with several
// characters, which have zero before.
func encodeTexts(texts []string) []byte {
	out := binary.AppendUvarint(nil, uint64(len(texts)))
	next := 0
	var long []byte
	last, count := 0, 0
	for cid, text := range texts {
		r, n := utf8.DecodeRuneInString(text)
		if n == 0 || n < len(text) {
			r = 0
		}
		out = binary.AppendVarint(out, int64(int(r)-next))
		next = int(r) + 1
		if n < len(text) {
			long = binary.AppendUvarint(long, uint64(cid-last))
			long = append(binary.AppendUvarint(long, uint64(len(text))), text...)
			last = cid
			count++
		}
	}
	out = binary.AppendUvarint(out, uint64(count))
	return append(out, long...)
}

// write writes the tables, each compressed by itself, after a list of their
// names and lengths, compressed and not.
func write(tables map[string][]byte) {
	var index, blobs bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		before := blobs.Len()
		w, err := flate.NewWriter(&blobs, flate.BestCompression)
		if err != nil {
			log.Fatal(err)
		}
		if _, err := w.Write(tables[name]); err != nil {
			log.Fatal(err)
		}
		if err := w.Close(); err != nil {
			log.Fatal(err)
		}
		fmt.Fprintf(&index, "%s %d %d\n", name, blobs.Len()-before, len(tables[name]))
	}
	index.WriteString("\n")
	if _, err := os.Stdout.Write(append(index.Bytes(), blobs.Bytes()...)); err != nil {
		log.Fatal(err)
	}
}
