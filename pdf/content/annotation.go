package content

import (
	"math"

	"github.com/batchfleet/batchfleet/pdf/cos"
)

const (
	annotationHidden = 1 << 1
	annotationNoView = 1 << 5
	maxAnnotations   = 10_000
)

// annotations reads the normal appearance of the visible annotations of page,
// form fields among them.
func (in *interpreter) annotations(page cos.Dict) {
	list := in.file.List(page["Annots"])
	for _, o := range list[:min(len(list), maxAnnotations)] {
		a := in.file.Dict(o)
		flags, _ := in.file.Int(a["F"])
		if a == nil || flags&(annotationHidden|annotationNoView) != 0 || in.file.Name(a["Subtype"]) == "Popup" {
			continue
		}
		if x := in.appearance(a); x != nil {
			in.layout.breakLine()
			in.form(x, nil, graphics{ctm: in.corner(a["Rect"]), stretch: 1}, 1)
		}
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

// corner returns the move to the lower left corner of a rectangle.
func (in *interpreter) corner(o cos.Object) matrix {
	rect := in.file.Array(o)
	if len(rect) != 4 {
		return identity
	}
	var v [4]float64
	for i := range v {
		v[i], _ = in.file.Number(rect[i])
	}
	return identity.move(math.Min(v[0], v[2]), math.Min(v[1], v[3]))
}
