package content

import (
	"testing"

	"github.com/batchfleet/batchfleet/pdf/cos"
)

func TestF71AppearancesFillTheRectangleOfTheirAnnotation(t *testing.T) {
	file, err := cos.Open([]byte("%PDF-1.7\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>"), cos.Options{})
	if err != nil {
		t.Fatal(err)
	}
	numbers := func(v ...float64) cos.Array {
		var a cos.Array
		for _, n := range v {
			a = append(a, n)
		}
		return a
	}
	rect := numbers(100, 50, 120, 60) // 20 wide, 10 high
	tests := []struct {
		name           string
		box, matrix    cos.Array
		x, y           float64 // in the appearance
		wantX, wantY   float64 // on the page
		withoutARect   bool
		rectBackToFore bool
	}{
		{name: "as large", box: numbers(0, 0, 20, 10), x: 20, y: 10, wantX: 120, wantY: 60},
		{name: "scaled down", box: numbers(0, 0, 200, 100), x: 100, y: 50, wantX: 110, wantY: 55},
		{name: "moved", box: numbers(1000, 1000, 1020, 1010), x: 1000, y: 1000, wantX: 100, wantY: 50},
		{name: "turned by its matrix", box: numbers(0, 0, 10, 20), matrix: numbers(0, 1, -1, 0, 0, 0), x: 10, y: 0, wantX: 120, wantY: 60},
		{name: "without a box", x: 1, y: 2, wantX: 101, wantY: 52},
		{name: "without a rectangle", box: numbers(0, 0, 20, 10), x: 1, y: 2, wantX: 1, wantY: 2, withoutARect: true},
		{name: "rectangle from corner to corner", box: numbers(0, 0, 20, 10), x: 0, y: 0, wantX: 100, wantY: 50, rectBackToFore: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			annotation := cos.Dict{"Rect": rect}
			if tt.withoutARect {
				annotation = cos.Dict{}
			}
			if tt.rectBackToFore {
				annotation = cos.Dict{"Rect": numbers(120, 60, 100, 50)}
			}
			x := &cos.Stream{Dict: cos.Dict{}}
			if tt.box != nil {
				x.Dict["BBox"] = tt.box
			}
			if tt.matrix != nil {
				x.Dict["Matrix"] = tt.matrix
			}
			in := &interpreter{Reader: NewReader(file, Limits{})}
			at := in.fit(annotation, x).move(tt.x, tt.y)
			if at[4] != tt.wantX || at[5] != tt.wantY {
				t.Errorf("got (%g, %g), want (%g, %g)", at[4], at[5], tt.wantX, tt.wantY)
			}
		})
	}
}
