package cos_test

import (
	"bytes"
	"compress/lzw"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/pdf/cos"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

// No chain of filters takes more memory than one stream may have bytes, but
// for what decompressing takes by itself.
func TestF78FilterChainsTakeNoMoreThanTheirLimit(t *testing.T) {
	const limit, own = 8 << 20, 5 << 20 // bytes
	const long = 2 * limit
	for _, tt := range []struct {
		name, dict, data string
	}{
		{"runs of runs", "/Filter [" + strings.Repeat("/RL ", 12) + "]", strings.Repeat("\x81", 150)},
		{"runs", "/Filter /RL", strings.Repeat("\x81", long/64)},
		{"Flate", "/Filter /Fl", pdftest.Deflate(strings.Repeat(" ", long))},
		{"Flate of Flate", "/Filter [/Fl /Fl]", pdftest.Deflate(pdftest.Deflate(strings.Repeat(" ", long)))},
		{"rows of a predictor", "/Filter /Fl /DecodeParms <</Predictor 12 /Columns 99>>", pdftest.Deflate(strings.Repeat("\x02", long))},
		{"one row of a predictor", "/Filter /Fl /DecodeParms <</Predictor 12 /Columns 8000000>>", pdftest.Deflate(strings.Repeat("\x02", long))},
		{"LZW of runs", "/Filter [/LZW /RL] /DecodeParms [<</EarlyChange 0>> null]", compress(t, strings.Repeat("\x81", limit/2))},
		{"zeros of ASCII85", "/Filter [/A85 /RL]", strings.Repeat("z", limit/2)},
		{"hexadecimal runs", "/Filter [/AHx /RL /RL /RL]", strings.Repeat("81", limit/3)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := pdftest.Pages()
			n := b.Stream(tt.dict, tt.data)
			f, err := cos.Open(b.Table(""), cos.Options{MaxStream: limit})
			if err != nil {
				t.Fatal(err)
			}
			s := f.Stream(cos.Ref{Num: uint32(n)})
			f.SetBudget(10 * limit)
			var got []byte
			took := pdftest.Allocated(func() { got, err = f.Decode(s) })
			if !errors.Is(err, cos.ErrTooLong) || took > limit+own || len(got) > limit {
				t.Errorf("%d bytes of %d took %d, %v; want ErrTooLong within %d", len(got), len(tt.data), took, err, limit)
			}
		})
	}
}

// compress returns data as LZW without its early change, which is what the
// standard library writes.
func compress(t *testing.T, data string) string {
	t.Helper()
	var out bytes.Buffer
	w := lzw.NewWriter(&out, lzw.MSB, 8)
	if _, err := fmt.Fprint(w, data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
