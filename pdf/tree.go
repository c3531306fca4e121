package pdf

import (
	"fmt"

	"github.com/batchfleet/batchfleet/pdf/cos"
)

// maxTreeDepth bounds how deep the page tree nests; real ones stay below 20.
const maxTreeDepth = 200

// pageTree is the list of a document's pages: where they are, not what they
// are.
type pageTree struct {
	pages []pageRef
	// inherited are the resources that pages inherit, each once.
	inherited []cos.Object
	// direct are the pages that are no objects of their own, which is not
	// allowed but happens.
	direct []cos.Dict
}

// pageRef is one page.
type pageRef struct {
	ref       cos.Ref
	direct    int32 // index of a direct page, -1 for one with a reference
	inherited int32 // index of the resources it inherits, -1 for none
}

// findPages walks the page tree. If that leads to no page it rebuilds the
// cross-reference and tries again, and then takes any page object there is.
func (d *Document) findPages() error {
	empty, err := d.walkTree()
	if err != nil || len(d.tree.pages) > 0 {
		return err
	}
	if empty {
		return nil
	}
	if !d.file.Rebuilt() {
		if err := d.file.Rebuild(); err != nil {
			return d.notFound()
		}
		if empty, err = d.walkTree(); err != nil || empty || len(d.tree.pages) > 0 {
			return err
		}
	}
	if err := d.collectPages(); err != nil || len(d.tree.pages) > 0 {
		return err
	}
	return d.notFound()
}

// notFound tells a damaged PDF from something that only looks a little like
// one.
func (d *Document) notFound() error {
	switch {
	case d.file.BudgetErr() != nil:
		return d.overBudget()
	case d.file.Version == "":
		return ErrNotPDF
	}
	return ErrDamaged
}

func (d *Document) overBudget() error {
	return fmt.Errorf("%w: %w while looking for pages", ErrLimit, d.file.BudgetErr())
}

// walkTree lists the pages below the catalog. empty means that the document
// says that it has none.
func (d *Document) walkTree() (empty bool, err error) {
	d.tree = pageTree{}
	root := d.catalog()["Pages"]
	w := walker{Document: d, seen: map[uint32]bool{}}
	if err := w.walk(root, -1, 0); err != nil {
		return false, err
	}
	if len(d.tree.pages) > 0 && d.file.BudgetErr() != nil {
		return false, d.overBudget() // of the pages there are, some would be missing
	}
	kids, isArray := d.file.Resolve(d.file.Dict(root)["Kids"]).(cos.Array)
	return isArray && len(kids) == 0, nil
}

func (d *Document) catalog() cos.Dict { return d.file.Dict(d.file.Trailer["Root"]) }

type walker struct {
	*Document
	seen map[uint32]bool // inner nodes: the tree may be a graph
}

// walk adds the pages below node o. Work is linear in the number of kids: an
// inner node is entered once.
func (w *walker) walk(o cos.Object, inherited int32, depth int) error {
	ref, isRef := o.(cos.Ref)
	node := w.file.Dict(o)
	if node == nil || depth > maxTreeDepth || isRef && w.seen[ref.Num] {
		return nil
	}
	kids, hasKids := w.file.Resolve(node["Kids"]).(cos.Array)
	kind := w.file.Name(node["Type"])
	if kind == "Page" || !hasKids && kind != "Pages" {
		return w.add(o, node, inherited)
	}
	if isRef {
		w.seen[ref.Num] = true
	}
	if resources := node["Resources"]; resources != nil {
		w.tree.inherited = append(w.tree.inherited, resources)
		inherited = int32(len(w.tree.inherited) - 1)
	}
	for _, kid := range kids {
		if err := w.walk(kid, inherited, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (d *Document) add(o cos.Object, node cos.Dict, inherited int32) error {
	if len(d.tree.pages) >= d.opts.MaxPages {
		return fmt.Errorf("%w: more than %d pages", ErrLimit, d.opts.MaxPages)
	}
	p := pageRef{direct: -1, inherited: inherited}
	if ref, ok := o.(cos.Ref); ok {
		p.ref = ref
	} else {
		p.direct = int32(len(d.tree.direct))
		d.tree.direct = append(d.tree.direct, node)
	}
	d.tree.pages = append(d.tree.pages, p)
	return nil
}

// collectPages takes every page object of the file, in the order of their
// numbers: the tree is lost, the pages need not be.
func (d *Document) collectPages() error {
	for _, n := range d.file.Objects() {
		ref := cos.Ref{Num: n}
		if node, ok := d.file.Resolve(ref).(cos.Dict); ok && node["Type"] == cos.Name("Page") {
			if err := d.add(ref, node, -1); err != nil {
				return err
			}
		}
	}
	return nil
}

// page returns the dictionary of page n, from 1, and its resources.
func (d *Document) page(n int) (page cos.Dict, resources cos.Object) {
	p := d.tree.pages[n-1]
	if p.direct >= 0 {
		page = d.tree.direct[p.direct]
	} else {
		page = d.file.Dict(p.ref)
	}
	if resources = page["Resources"]; resources == nil && p.inherited >= 0 {
		resources = d.tree.inherited[p.inherited]
	}
	return page, resources
}
