package content

import (
	"math"

	"github.com/batchfleet/batchfleet/pdf/cos"
)

// box is a rectangle by its lower left and its upper right corner.
type box struct{ x0, y0, x1, y1 float64 }

var everywhere = box{math.Inf(-1), math.Inf(-1), math.Inf(1), math.Inf(1)}

// readBox returns o as a rectangle; ok is false if it is none or is empty.
func readBox(file *cos.File, o cos.Object) (b box, ok bool) {
	a := file.Array(o)
	if len(a) != 4 {
		return b, false
	}
	var v [4]float64
	for i := range v {
		if v[i], ok = file.Number(a[i]); !ok {
			return b, false
		}
	}
	b = box{min(v[0], v[2]), min(v[1], v[3]), max(v[0], v[2]), max(v[1], v[3])}
	return b, b.x1 > b.x0 && b.y1 > b.y0
}

// bounds returns the upright box around b transformed by m.
func (b box) bounds(m matrix) box {
	out := box{math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)}
	for _, p := range [...][2]float64{{b.x0, b.y0}, {b.x1, b.y0}, {b.x0, b.y1}, {b.x1, b.y1}} {
		at := m.move(p[0], p[1])
		out = box{min(out.x0, at[4]), min(out.y0, at[5]), max(out.x1, at[4]), max(out.y1, at[5])}
	}
	return out
}

// fit returns the transformation that scales and moves from onto b.
func (b box) fit(from box) matrix {
	sx, sy := 1.0, 1.0
	if w := from.x1 - from.x0; w > 0 {
		sx = (b.x1 - b.x0) / w
	}
	if h := from.y1 - from.y0; h > 0 {
		sy = (b.y1 - b.y0) / h
	}
	return matrix{sx, 0, 0, sy, b.x0 - from.x0*sx, b.y0 - from.y0*sy}
}
