package pdf

import (
	"cmp"
	"fmt"

	"github.com/batchfleet/batchfleet/pdf/content"
	"github.com/batchfleet/batchfleet/pdf/cos"
)

// maxTreeDepth bounds how deep the page tree nests; real ones stay below 20.
const maxTreeDepth = 200

// pageTree is the list of a document's pages: where they are, not what they
// are.
type pageTree struct {
	pages []pageRef
	// inherited is what pages inherit from the nodes above them, each
	// combination once.
	inherited []inherited
	// lost says that there is no tree: the pages were found one by one.
	lost bool
	// direct are the pages that are no objects of their own, which is not
	// allowed but happens.
	direct []cos.Dict
}

// pageRef is one page.
type pageRef struct {
	ref       cos.Ref
	direct    int32 // index of a direct page, -1 for one with a reference
	inherited int32 // index of what it inherits, -1 for nothing
}

// inherited is the part of a page that nodes above it may have.
type inherited struct{ resources, mediaBox cos.Object }

// or returns i with what it lacks taken from above.
func (i inherited) or(above inherited) inherited {
	return inherited{cmp.Or(i.resources, above.resources), cmp.Or(i.mediaBox, above.mediaBox)}
}

// findPages walks the page tree. If that leads to no page it rebuilds the
// cross-reference and tries again, and then takes any page object there is.
func (r *reader) findPages() error {
	empty, err := r.walkTree()
	if err != nil || len(r.tree.pages) > 0 {
		return err
	}
	if empty {
		return nil
	}
	if !r.file.Rebuilt() {
		if err := r.file.Rebuild(); err != nil {
			return r.notFound()
		}
		if empty, err = r.walkTree(); err != nil || empty || len(r.tree.pages) > 0 {
			return err
		}
	}
	if err := r.collectPages(); err != nil || len(r.tree.pages) > 0 {
		return err
	}
	return r.notFound()
}

// notFound tells a damaged PDF from something that only looks a little like
// one.
func (r *reader) notFound() error {
	switch {
	case r.file.BudgetErr() != nil:
		return r.overBudget()
	case r.file.Version == "":
		return ErrNotPDF
	}
	return ErrDamaged
}

func (r *reader) overBudget() error {
	return fmt.Errorf("%w: %w while looking for pages", ErrLimit, r.file.BudgetErr())
}

// walkTree lists the pages below the catalog. empty means that the document
// says that it has none.
func (r *reader) walkTree() (empty bool, err error) {
	r.tree = pageTree{}
	root := r.catalog()["Pages"]
	w := walker{reader: r, seen: map[uint32]bool{}}
	if err := w.walk(root, -1, 0); err != nil {
		return false, err
	}
	if w.lost == len(r.tree.pages) {
		r.tree.pages = nil // they are elsewhere, or nowhere
	}
	count, said := r.file.Int(r.file.Dict(root)["Count"])
	if found := len(r.tree.pages) - w.lost; found > 0 && said && count != found {
		r.file.Note("the page tree has %d pages, not %d as it says", found, count)
	}
	if len(r.tree.pages) > 0 && r.file.BudgetErr() != nil {
		return false, r.overBudget() // of the pages there are, some would be missing
	}
	kids, isArray := r.file.Resolve(r.file.Dict(root)["Kids"]).(cos.Array)
	return isArray && len(kids) == 0, nil
}

func (r *reader) catalog() cos.Dict { return r.file.Dict(r.file.Trailer["Root"]) }

type walker struct {
	*reader
	seen map[uint32]bool // inner nodes: the tree may be a graph
	lost int             // of the pages, those that are missing
}

// walk adds the pages below node o, which inherits what is at index from. Work
// is linear in the number of kids: an inner node is entered once.
func (w *walker) walk(o cos.Object, from int32, depth int) error {
	ref, isRef := o.(cos.Ref)
	node := w.file.Dict(o)
	if node == nil {
		w.file.Note("a part of the page tree is missing")
	}
	if node == nil || depth > maxTreeDepth || isRef && w.seen[ref.Num] {
		return nil
	}
	kids, hasKids := w.file.Resolve(node["Kids"]).(cos.Array)
	kind := w.file.Name(node["Type"])
	if kind == "Page" || !hasKids && kind != "Pages" {
		return w.add(o, node, from)
	}
	if isRef {
		w.seen[ref.Num] = true
	}
	from = w.inherit(node, from)
	count, _ := w.file.Int(node["Count"])
	for _, kid := range kids {
		if !w.file.Spend(64) { // nodes may share their kids
			return nil
		}
		if count == len(kids) && w.file.Dict(kid) == nil {
			// All kids are pages, and this one is lost. It still counts, or the
			// pages after it would have other numbers.
			if err := w.add(kid, nil, from); err != nil {
				return err
			}
			w.lost++
			continue
		}
		if err := w.walk(kid, from, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// inherit returns the index of what the kids of node inherit, when it inherits
// from that index itself.
func (w *walker) inherit(node cos.Dict, from int32) int32 {
	resources, mediaBox := node["Resources"], node["MediaBox"]
	if resources == nil && mediaBox == nil {
		return from
	}
	i := inherited{resources, mediaBox}
	if from >= 0 {
		i = i.or(w.tree.inherited[from])
	}
	w.tree.inherited = append(w.tree.inherited, i)
	return int32(len(w.tree.inherited) - 1)
}

func (r *reader) add(o cos.Object, node cos.Dict, from int32) error {
	if len(r.tree.pages) >= r.opts.MaxPages {
		return fmt.Errorf("%w: more than %d pages", ErrLimit, r.opts.MaxPages)
	}
	p := pageRef{direct: -1, inherited: from}
	if ref, ok := o.(cos.Ref); ok {
		p.ref = ref
	} else {
		p.direct = int32(len(r.tree.direct))
		r.tree.direct = append(r.tree.direct, node)
	}
	r.tree.pages = append(r.tree.pages, p)
	return nil
}

// collectPages takes every page object of the file, in the order of their
// numbers: the tree is lost, the pages need not be.
func (r *reader) collectPages() error {
	r.tree.lost = true
	r.file.Note("the page tree is lost, and with it perhaps pages: those found are in the order of their numbers")
	for _, n := range r.file.Objects() {
		ref := cos.Ref{Num: n}
		if node, ok := r.file.Resolve(ref).(cos.Dict); ok && node["Type"] == cos.Name("Page") {
			if err := r.add(ref, node, -1); err != nil {
				return err
			}
		}
	}
	return nil
}

// page returns page n, from 1. Its dictionary is nil if it is missing.
func (r *reader) page(n int) content.Page {
	p := r.tree.pages[n-1]
	dict := r.file.Dict(p.ref)
	if p.direct >= 0 {
		dict = r.tree.direct[p.direct]
	}
	i := inherited{dict["Resources"], dict["MediaBox"]}
	if r.tree.lost { // its parents were not visited: go up to them
		parent := r.file.Dict(dict["Parent"])
		for depth := 0; parent != nil && depth < maxTreeDepth && (i.resources == nil || i.mediaBox == nil); depth++ {
			i = i.or(inherited{parent["Resources"], parent["MediaBox"]})
			parent = r.file.Dict(parent["Parent"])
		}
	}
	if p.inherited >= 0 {
		i = i.or(r.tree.inherited[p.inherited])
	}
	return content.Page{Dict: dict, Resources: i.resources, MediaBox: i.mediaBox}
}
