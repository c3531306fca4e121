package font

import (
	"fmt"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/pdf/cos"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

func TestF72CacheOfFontsIsBoundedByWhatTheyRead(t *testing.T) {
	b := pdftest.Pages()
	var cmap strings.Builder
	cmap.WriteString("1 begincodespacerange <0000> <ffff> endcodespacerange\n")
	for code := range 50_000 {
		fmt.Fprintf(&cmap, "1 beginbfchar <%04x> <%04x> endbfchar\n", code, code)
	}
	stream := b.Flate("", cmap.String()) // 1.9 MB
	var refs []cos.Ref
	for range 30 {
		refs = append(refs, cos.Ref{Num: uint32(b.Add("<</Type /Font /Subtype /TrueType /ToUnicode %d 0 R>>", stream))})
	}
	f, err := cos.Open(b.Table(""), cos.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f.SetBudget(1 << 30)
	c := Cache{File: f}
	for _, ref := range refs {
		c.Load(ref)
	}
	if len(c.fonts) == 0 || len(c.fonts) > 12 || c.weight > maxWeight {
		t.Errorf("%d fonts of %d MB are kept", len(c.fonts), c.weight>>20)
	}
	last := refs[len(refs)-1]
	if f, loaded := c.Load(last); loaded || f == nil {
		t.Error("the last font was loaded again")
	}
}
