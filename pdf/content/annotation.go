package content

import (
	"github.com/batchfleet/batchfleet/pdf/cos"
)

const (
	annotationHidden = 1 << 1
	annotationNoView = 1 << 5
	maxAnnotations   = 10_000
)

// annotations reads the normal appearance of the visible annotations of page,
// form fields among them, and the value of fields that have no appearance.
func (in *interpreter) annotations(page cos.Dict) {
	list := in.file.List(page["Annots"])
	if len(list) > maxAnnotations {
		in.file.Note("the page has more than %d annotations", maxAnnotations)
	}
	for _, o := range list[:min(len(list), maxAnnotations)] {
		a := in.file.Dict(o)
		flags, _ := in.file.Int(a["F"])
		if a == nil || flags&(annotationHidden|annotationNoView) != 0 || in.file.Name(a["Subtype"]) == "Popup" || !in.visible(a["OC"]) {
			continue
		}
		in.annotation(o, a)
	}
}

// annotation reads annotation a, which is at o.
func (in *interpreter) annotation(o cos.Object, a cos.Dict) {
	x := in.appearance(a)
	if x == nil || in.isStale(a) {
		if value := in.value(o, a); value != "" {
			in.showValue(a, value)
			return
		}
	}
	if x != nil && in.visible(x.Dict["OC"]) {
		in.layout.breakLine()
		in.form(x, nil, graphics{ctm: in.fit(a, x), stretch: 1}, 1)
	}
}

// appearance returns the normal appearance of annotation a in its current
// state, or nil.
func (in *interpreter) appearance(a cos.Dict) *cos.Stream {
	switch normal := in.file.Resolve(in.file.Dict(a["AP"])["N"]).(type) {
	case *cos.Stream:
		return normal
	case cos.Dict:
		return in.file.Stream(normal[in.file.Name(a["AS"])])
	}
	return nil
}

// fit returns the transformation from the space of appearance x to that of
// the page: its box, as its own matrix turns it, fills the rectangle of the
// annotation (ISO 32000-1, 12.5.5, algorithm 8.1).
func (in *interpreter) fit(a cos.Dict, x *cos.Stream) matrix {
	m := readMatrix(in.file, x.Dict["Matrix"])
	rect, ok := readBox(in.file, a["Rect"])
	if !ok {
		return m
	}
	b, ok := readBox(in.file, x.Dict["BBox"])
	if !ok {
		return m.mul(identity.move(rect.x0, rect.y0))
	}
	return m.mul(rect.fit(b.bounds(m)))
}
