package font

import (
	"compress/flate"
	_ "embed"
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
)

//go:generate sh generate.sh

// tables holds Adobe's CMaps and the texts of its character collections, as
// gen_cmaps.go writes them: a line for each, with its name and its length
// compressed and not, an empty line, then the tables, each a Flate stream of
// its own, because a document needs one or two of two hundred.
//
//go:embed cmaps.bin
var tables string

type tableEntry struct {
	data string // compressed
	size int    // what it becomes
}

// tableIndex lists tables. It is made at the first need, in some 50 µs.
var tableIndex = sync.OnceValue(func() map[string]tableEntry {
	index := make(map[string]tableEntry, 256)
	list, data, _ := strings.Cut(tables, "\n\n")
	for line := range strings.SplitSeq(list, "\n") {
		name, lengths, _ := strings.Cut(line, " ")
		compressed, whole, _ := strings.Cut(lengths, " ")
		n, _ := strconv.Atoi(compressed)
		size, _ := strconv.Atoi(whole)
		index[name], data = tableEntry{data[:n], size}, data[n:]
	}
	return index
})

// table is what is left of an embedded table.
type table []byte

// openTable returns an embedded table, decompressed; ok is false if there is
// none of this name.
func openTable(name string) (t table, ok bool) {
	e, ok := tableIndex()[name]
	if !ok {
		return nil, false
	}
	t = make(table, e.size)
	if _, err := io.ReadFull(flate.NewReader(strings.NewReader(e.data)), t); err != nil {
		panic(fmt.Sprintf("read embedded table %s: %v", name, err)) // the program is damaged
	}
	return t, true
}

func (t *table) number() int {
	v, n := binary.Uvarint(*t)
	*t = (*t)[n:]
	return int(v)
}

func (t *table) signed() int {
	v, n := binary.Varint(*t)
	*t = (*t)[n:]
	return int(v)
}

func (t *table) text() string {
	n := t.number()
	s := string((*t)[:n])
	*t = (*t)[n:]
	return s
}

// loaded holds the predefined CMaps used so far by this process; all together
// would take 1.5 MB.
var loaded struct {
	sync.Mutex
	cmaps map[string]*CMap
}

// predefined returns one of the CMaps every reader must know by name (ISO
// 32000-2, 9.7.5.2), or another of Adobe's.
func predefined(name string) (c *CMap, ok bool) {
	loaded.Lock()
	defer loaded.Unlock()
	c = predefinedLocked(name)
	return c, c != nil
}

func predefinedLocked(name string) *CMap {
	if c := loaded.cmaps[name]; c != nil {
		return c
	}
	c := newPredefined(name)
	if c == nil {
		return nil
	}
	if loaded.cmaps == nil {
		loaded.cmaps = map[string]*CMap{}
	}
	loaded.cmaps[name] = c
	return c
}

func newPredefined(name string) *CMap {
	if name == "Identity-H" || name == "Identity-V" {
		c := identityCMap()
		c.vertical = name == "Identity-V"
		return c
	}
	if _, ok := collectionOf(name); ok {
		return nil // from CIDs, not to CIDs
	}
	t, ok := openTable(name)
	if !ok {
		return nil
	}
	return t.cmap()
}

// identityCMap returns a CMap whose codes of two bytes are the CIDs.
func identityCMap() *CMap {
	c := &CMap{}
	c.addCodespace(2, 0, maxCID)
	c.identify()
	return c
}

// identify makes all codes their own CIDs.
func (c *CMap) identify() {
	for size := range c.cids {
		c.cids[size].add(0, maxCID, 0)
	}
	c.finish()
}

// cmap reads a CMap: its collection, writing mode and base, then codespace and
// notdef ranges, then for every length of codes the ranges that the base does
// not have, first what is between them, then how long they are, then how their
// CIDs differ from what would follow the range before. Codes that only the
// base has are given CID 0.
func (t *table) cmap() *CMap {
	c := &CMap{ordering: t.text(), vertical: t.number() == 1}
	if base := t.text(); base != "" {
		c.base = predefinedLocked(base)
	}
	c.form = codeForm(t.number())
	for range t.number() {
		size, lo, hi := t.number(), t.number(), t.number()
		c.addCodespace(size, uint32(lo), uint32(hi))
	}
	for range t.number() {
		size, lo, hi, cid := t.number(), t.number(), t.number(), t.number()
		c.notdefs[size].add(uint32(lo), uint32(hi), uint32(cid))
	}
	for size := 1; size <= maxCode; size++ {
		c.cids[size].list = t.spans(t.number())
	}
	c.finish()
	return c
}

func (t *table) spans(n int) []span[uint32] {
	list := make([]span[uint32], n)
	for i := range list {
		list[i].lo = uint32(t.number())
	}
	next := uint32(0)
	for i := range list {
		e := &list[i]
		e.lo += next
		e.hi = e.lo + uint32(t.number())
		next = e.hi + 1
	}
	cid := 0
	for i := range list {
		e := &list[i]
		cid += t.signed()
		e.value = uint32(cid)
		cid += int(e.hi-e.lo) + 1
	}
	return list
}
