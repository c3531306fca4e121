package font

import (
	"bytes"

	"github.com/batchfleet/batchfleet/pdf/cos"
)

// toUnicode returns the ToUnicode CMap of font dictionary d, or nil if there
// is none that maps anything.
func toUnicode(file *cos.File, d cos.Dict) *CMap {
	s := file.Stream(d["ToUnicode"])
	if s == nil {
		return nil
	}
	if c := embeddedCMap(file, s, maxUses); c.HasText() || c.HasCIDs() {
		return c
	}
	return nil
}

// maxUses bounds how many CMaps inside a file complete one another.
const maxUses = 4

// embeddedCMap reads the CMap in s and those that it uses.
func embeddedCMap(file *cos.File, s *cos.Stream, uses int) *CMap {
	data, _ := file.DecodePrefix(s, maxCMap) // a damaged CMap still maps some codes
	if !bytes.Contains(data, []byte("endcmap")) {
		file.Note("a CMap of a font is cut off")
	}
	c := ParseCMap(data)
	if mode, _ := file.Int(s.Dict["WMode"]); mode == 1 {
		c.vertical = true
	}
	switch use := file.Resolve(s.Dict["UseCMap"]).(type) {
	case cos.Name:
		c.Use = string(use)
	case *cos.Stream:
		if uses > 0 {
			c.complete(embeddedCMap(file, use, uses-1))
			return c
		}
	}
	if base, ok := predefined(c.Use); ok {
		c.complete(base)
	}
	return c
}

// unicodeCMap is what the ToUnicode entry of a composite font says.
type unicodeCMap struct {
	cmap *CMap // nil if there is none
	// cidText is set where the entry is, or builds on, Adobe's CMap for a
	// character collection.
	cidText func(cid uint32) string
}

// loadUnicode reads the ToUnicode entry of a composite font, which is a CMap,
// or against the specification the name of one.
func loadUnicode(file *cos.File, d cos.Dict) (u unicodeCMap) {
	name := string(file.Name(d["ToUnicode"]))
	if u.cmap = toUnicode(file, d); u.cmap != nil {
		name = u.cmap.Use
	} else if base, ok := predefined(name); ok && base.ordering == "" {
		u.cmap = base // an identity: the codes are Unicode
	}
	if ordering, ok := collectionOf(name); ok {
		u.cidText = collectionText(ordering)
	}
	return u
}

// text returns the text of a code that selects cid. ok is false if the entry
// does not say.
func (u *unicodeCMap) text(code uint32, size int, cid uint32) (text string, ok bool) {
	if u.cmap != nil {
		// Writers disagree on the length of the codes.
		for _, n := range [...]int{size, 2, 1, 3, 4} {
			if text, ok := u.cmap.Text(code, n); ok {
				return text, true
			}
		}
		// Some write the numbers of characters as if they were CIDs.
		if text := utf16Form.text(u.cmap.CID(code, size), 2); text != "" && u.cmap.ordering == "" {
			return text, true
		}
	}
	if u.cidText != nil {
		if text := u.cidText(cid); text != "" {
			return text, true
		}
	}
	return "", false
}
