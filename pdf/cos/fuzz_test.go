package cos_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/batchfleet/batchfleet/pdf/cos"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

// FuzzXref opens whole files: cross-reference tables, streams and hybrids,
// object streams, encryption and the rebuilding of all that.
func FuzzXref(f *testing.F) {
	b := pdftest.Pages("one", "two")
	for _, data := range [][]byte{b.Table(""), b.Packed(""), b.Hybrid(""), b.Table("/Prev 15"), b.Table("/Prev 15")[:400]} {
		f.Add(data)
	}
	for _, name := range []string{"rc4-40.pdf", "aes-128.pdf", "aes-256.pdf", "aes-128-cleartext-metadata.pdf"} {
		data, err := os.ReadFile(filepath.Join("..", "testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := cos.Open(data, cos.Options{MaxStream: 1 << 20})
		if err != nil {
			return
		}
		use := func(file *cos.File) {
			file.SetBudget(4 << 20)
			objects := file.Objects()
			if len(objects) > 1<<17+2*len(data) {
				t.Errorf("%d objects in %d bytes", len(objects), len(data))
			}
			for _, n := range objects[:min(len(objects), 200)] {
				if s := file.Stream(cos.Ref{Num: n}); s != nil {
					decoded, _ := file.Decode(s) // any error is fine
					if len(decoded) > 1<<20 {
						t.Errorf("stream of %d bytes", len(decoded))
					}
				}
			}
		}
		use(file.Clone())
		if file.Rebuild() == nil {
			use(file)
		}
	})
}
