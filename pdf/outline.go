package pdf

import (
	"github.com/batchfleet/batchfleet/pdf/cos"
)

// OutlineItem is one line of a document's outline, its bookmarks.
type OutlineItem struct {
	Title string
	Level int // from 1
	Page  int // from 1; 0 if it leads elsewhere or nowhere
}

const (
	maxOutline      = 10_000
	maxOutlineDepth = 64
	maxNames        = 100_000 // named destinations
	maxNameNodes    = 20_000  // of the tree that holds them
)

// Outline returns the document's outline in the order of reading, at most
// 10 000 items of it; none if there is no outline or it cannot be read.
func (d *Document) Outline() []OutlineItem {
	items, _ := d.outline() // after a panic, what was read before it
	return items
}

func (d *Document) outline() (items []OutlineItem, err error) {
	defer recovered("read outline", &err)
	defer faultsPanic()()
	r := d.reader()
	defer r.done()
	defer r.addWarnings()
	r.file.SetBudget(d.opts.MaxPageBytes)
	o := outliner{reader: r, seen: map[uint32]bool{}, items: &items}
	o.walk(r.file.Dict(r.catalog()["Outlines"])["First"], 1)
	return items, nil
}

type outliner struct {
	*reader
	items   *[]OutlineItem
	seen    map[uint32]bool // items, which may be linked in circles
	names   map[string]cos.Object
	numbers map[uint32]int // page numbers by object number
}

// walk adds the item o, those below it, and those after it.
func (o *outliner) walk(item cos.Object, level int) {
	for level <= maxOutlineDepth && len(*o.items) < maxOutline {
		ref, ok := item.(cos.Ref)
		if !ok || o.seen[ref.Num] {
			return
		}
		o.seen[ref.Num] = true
		dict := o.file.Dict(ref)
		if dict == nil {
			return
		}
		*o.items = append(*o.items, OutlineItem{
			Title: plain(o.file.String(dict["Title"])),
			Level: level,
			Page:  o.target(dict),
		})
		o.walk(dict["First"], level+1)
		item = dict["Next"]
	}
}

// target returns the page an outline item leads to, 0 if it is none of this
// document.
func (o *outliner) target(item cos.Dict) int {
	dest := o.file.Resolve(item["Dest"])
	if dest == nil {
		action := o.file.Dict(item["A"])
		if o.file.Name(action["S"]) != "GoTo" {
			return 0
		}
		dest = o.file.Resolve(action["D"])
	}
	switch name := dest.(type) {
	case cos.String:
		dest = o.named(string(name))
	case cos.Name:
		dest = o.file.Resolve(o.file.Dict(o.catalog()["Dests"])[name])
	}
	if d := o.file.Dict(dest); d != nil { // a named destination may be wrapped
		dest = d["D"]
	}
	if where := o.file.Array(dest); len(where) > 0 {
		return o.number(where[0])
	}
	return 0
}

// number returns the number of the page that o is, or is the index of.
func (o *outliner) number(page cos.Object) int {
	switch v := page.(type) {
	case int: // allowed for other files' pages, and used for one's own
		if v >= 0 && v < o.NumPages() {
			return v + 1
		}
	case cos.Ref:
		if o.numbers == nil {
			o.numbers = make(map[uint32]int, o.NumPages())
			for i, p := range o.tree.pages {
				if p.direct < 0 && o.numbers[p.ref.Num] == 0 {
					o.numbers[p.ref.Num] = i + 1
				}
			}
		}
		return o.numbers[v.Num]
	}
	return 0
}

// named returns the destination of this name from the catalog's name tree.
func (o *outliner) named(name string) cos.Object {
	if o.names == nil {
		o.names = map[string]cos.Object{}
		nodes := maxNameNodes
		o.collectNames(o.file.Dict(o.catalog()["Names"])["Dests"], 0, &nodes)
	}
	return o.file.Resolve(o.names[name])
}

// collectNames reads the names below node of a name tree, while nodes lasts.
func (o *outliner) collectNames(node cos.Object, depth int, nodes *int) {
	dict := o.file.Dict(node)
	*nodes--
	if dict == nil || depth > maxOutlineDepth || *nodes < 0 {
		return
	}
	pairs := o.file.Array(dict["Names"])
	for ; len(pairs) >= 2 && len(o.names) < maxNames && o.file.Spend(16); pairs = pairs[2:] {
		o.names[string(o.file.String(pairs[0]))] = pairs[1]
	}
	for _, kid := range o.file.Array(dict["Kids"]) {
		if *nodes < 0 || !o.file.Spend(16) {
			return
		}
		o.collectNames(kid, depth+1, nodes)
	}
}
