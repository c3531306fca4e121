package cos

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Rebuild replaces the cross-reference by what a look at the whole file finds.
// [Open] does so by itself when the cross-reference is damaged; a caller does
// when it is in order but leads to nothing useful. Errors as for [Open].
func (f *File) Rebuild() error {
	f.SetBudget(openBudget(f.maxStream, len(f.data)))
	offsets := f.scanned.objects()
	if len(offsets) == 0 {
		return fmt.Errorf("rebuild cross-reference: %w", ErrNoObjects)
	}
	f.notes = nil // of the cross-reference that is given up
	f.Note("the cross-reference was rebuilt from the objects that are there")
	old := f.Trailer
	f.rebuilt, f.crypt = true, nil
	f.forget()
	f.xref = make(map[uint32]entry, len(offsets))
	for n, offset := range offsets {
		f.xref[n] = entry{kind: entryOffset, offset: offset}
	}
	f.Trailer = Dict{}
	for _, k := range []Name{"Encrypt", "ID", "Info"} {
		if old[k] != nil {
			f.Trailer[k] = old[k]
		}
	}
	f.collectTrailers()
	streams := f.survey(offsets)
	if err := f.initCrypt(); err != nil {
		return fmt.Errorf("rebuild cross-reference: %w", err)
	}
	f.forget() // what was loaded before the key was known
	slices.SortFunc(streams, func(a, b uint32) int { return cmp.Compare(offsets[a], offsets[b]) })
	for _, n := range streams {
		f.indexObjectStream(n)
	}
	if f.Dict(f.Trailer["Root"]) == nil {
		f.findCatalog()
	}
	return nil
}

// trailerKeys are the entries of a trailer that lead anywhere.
var trailerKeys = [...]Name{"Root", "Encrypt", "ID", "Info"}

// collectTrailers merges all trailer dictionaries of the file; the last one
// wins.
func (f *File) collectTrailers() {
	for at := range occurrences(f.data, "trailer") {
		if f.over {
			return
		}
		start := at + len("trailer")
		p := Parser{Lexer: Lexer{src: f.data, pos: start}}
		o, _, _ := p.Next()
		f.Spend(p.pos - start)
		d, _ := o.(Dict)
		for _, k := range trailerKeys {
			if d[k] != nil {
				f.Trailer[k] = d[k]
			}
		}
	}
}

// survey looks at every object once: it returns the numbers of the object
// streams and completes the trailer from cross-reference
// streams and the catalog.
func (f *File) survey(offsets map[uint32]int) (streams []uint32) {
	for _, n := range slices.Sorted(maps.Keys(offsets)) {
		at, ok := f.objectAt(offsets[n], false)
		if !ok {
			continue
		}
		switch o := at.object.(type) {
		case *Stream:
			switch o.Dict["Type"] {
			case Name("ObjStm"):
				streams = append(streams, n)
			case Name("XRef"):
				for _, k := range trailerKeys {
					if f.Trailer[k] == nil && o.Dict[k] != nil {
						f.Trailer[k] = o.Dict[k]
					}
				}
			}
		case Dict:
			if o["Type"] == Name("Catalog") && f.Trailer["Root"] == nil {
				f.Trailer["Root"] = Ref{Num: n}
			}
		}
	}
	return streams
}

// indexObjectStream adds the objects of object stream n, unless they are in the
// file behind it: what stands last was written last.
func (f *File) indexObjectStream(n uint32) {
	s := f.objectStream(n)
	if s == nil {
		return
	}
	for packed := range s.offsets {
		if e := f.xref[packed]; e.kind == entryOffset && e.offset > f.xref[n].offset {
			continue
		}
		delete(f.xref, packed)
		f.addEntry(int(packed), entry{kind: entryPacked, offset: int(n)})
	}
}

// findCatalog sets the trailer's Root to a catalog in an object stream.
func (f *File) findCatalog() {
	for _, n := range slices.Sorted(maps.Keys(f.xref)) {
		if d, ok := f.load(n).(Dict); ok && d["Type"] == Name("Catalog") {
			f.Trailer["Root"] = Ref{Num: n}
			return
		}
	}
}

// Objects returns the numbers of all objects in ascending order.
func (f *File) Objects() []uint32 { return slices.Sorted(maps.Keys(f.xref)) }
