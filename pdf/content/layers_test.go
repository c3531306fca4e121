package content

import (
	"testing"

	"github.com/batchfleet/batchfleet/pdf/cos"
)

func TestF71ExpressionsThatShareTheirPartsCostTheirTerms(t *testing.T) {
	file, err := cos.Open([]byte("%PDF-1.7\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>"), cos.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rule := cos.Array{cos.Name("And")}
	for range maxExpression { // fifty times each: more than there is time for
		next := cos.Array{cos.Name("And")}
		for range 50 {
			next = append(next, rule)
		}
		rule = next
	}
	r := NewReader(file, Limits{})
	r.layers = &layers{}
	in := &interpreter{Reader: r, operators: 10_000}
	if in.holds(rule, 0); in.operators >= 0 {
		t.Errorf("%d operators are left", in.operators)
	}
}
