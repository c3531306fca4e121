package font

import (
	"strings"
	"sync"
)

// collection holds the text of the CIDs of one of Adobe's character
// collections. It does not change.
type collection struct {
	characters []rune // by CID; 0 where there is none, or several
	several    map[uint32]string
}

// collections holds the collections used so far by this process; all together
// would take 0.6 MB.
var collections struct {
	sync.Mutex
	byOrdering map[string]*collection
}

// collectionText returns the text of the CIDs of a character collection, such
// as "Japan1", or nil if that is none of Adobe's. It may be called
// concurrently, and so may the function it returns.
func collectionText(ordering string) func(cid uint32) string {
	if ordering == "UCS" || ordering == "Unicode" { // no collection: the CIDs are Unicode
		return func(cid uint32) string { return utf16Form.text(cid, 2) }
	}
	name := collectionTable(ordering)
	collections.Lock()
	defer collections.Unlock()
	if c := collections.byOrdering[name]; c != nil {
		return c.text
	}
	t, ok := openTable(name)
	if !ok {
		return nil
	}
	if collections.byOrdering == nil {
		collections.byOrdering = map[string]*collection{}
	}
	c := t.collection()
	collections.byOrdering[name] = c
	return c.text
}

// collectionTable returns the name of the table of a collection, which is that
// of Adobe's CMap from its CIDs to Unicode.
func collectionTable(ordering string) string { return "Adobe-" + ordering + "-UCS2" }

// collectionOf returns the ordering of the collection that a CMap of this name
// maps to Unicode; ok is false if it is none of these CMaps.
func collectionOf(name string) (ordering string, ok bool) {
	rest, isAdobe := strings.CutPrefix(name, "Adobe-")
	ordering, isUnicode := strings.CutSuffix(rest, "-UCS2")
	return ordering, isAdobe && isUnicode
}

func (c *collection) text(cid uint32) string {
	if cid >= uint32(len(c.characters)) {
		return ""
	}
	if r := c.characters[cid]; r != 0 {
		return string(r)
	}
	return c.several[cid]
}

// collection reads a collection: the characters as differences from what
// would follow the one before, then the CIDs with several characters.
func (t *table) collection() *collection {
	c := &collection{characters: make([]rune, t.number()), several: map[uint32]string{}}
	next := 0
	for cid := range c.characters {
		next += t.signed()
		c.characters[cid] = rune(next)
		next++
	}
	cid := 0
	for range t.number() {
		cid += t.number()
		c.several[uint32(cid)] = t.text()
	}
	return c
}
