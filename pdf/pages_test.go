package pdf_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfleet/batchfleet/pdf"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

// numbered returns a document whose pages say their number.
func numbered(t *testing.T, pages int, opts pdf.Options) *pdf.Document {
	t.Helper()
	texts := make([]string, pages)
	for i := range texts {
		texts[i] = fmt.Sprintf("This is page %d", i+1)
	}
	return open(t, pdftest.Pages(texts...).Packed(""), opts)
}

func TestF72PagesComeInOrderWhateverReadsThem(t *testing.T) {
	for _, workers := range []int{0, 1, 2, 3, 1000} {
		for _, total := range []int{0, 1, 8, 9, 70} {
			for _, from := range []int{-1, 1, 9, 70, 71} {
				d := numbered(t, total, pdf.Options{Workers: workers})
				next := max(1, from)
				for p, err := range d.Pages(from, d.NumPages()) {
					if want := fmt.Sprintf("This is page %d", next); p.Number != next || p.Text != want || err != nil {
						t.Fatalf("%d workers, %d pages from %d: got page %d %q, %v; want page %d", workers, total, from, p.Number, p.Text, err, next)
					}
					next++
				}
				if next != max(total+1, from, 1) {
					t.Errorf("%d workers, %d pages from %d: ended before page %d", workers, total, from, next)
				}
			}
		}
	}
}

func TestF72PagesEndWhereTheyShould(t *testing.T) {
	for _, workers := range []int{1, 2} {
		for _, tt := range []struct{ first, last, want int }{{1, 20, 20}, {3, 3, 1}, {5, 4, 0}, {15, 99, 6}, {-5, 2, 2}, {21, 30, 0}, {1, -1, 0}} {
			d := numbered(t, 20, pdf.Options{Workers: workers})
			got := 0
			for p, err := range d.Pages(tt.first, tt.last) {
				if p.Number != max(1, tt.first)+got || err != nil {
					t.Errorf("%d workers, pages %d to %d: got page %d, %v", workers, tt.first, tt.last, p.Number, err)
				}
				got++
			}
			if got != tt.want {
				t.Errorf("%d workers, pages %d to %d: got %d, want %d", workers, tt.first, tt.last, got, tt.want)
			}
		}
	}
}

func TestF72ReadingAheadEndsWithTheIteration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails if a goroutine is left
		d := numbered(t, 200, pdf.Options{Workers: 4})
		for p, err := range d.Pages(1, d.NumPages()) {
			if err != nil {
				t.Error(err)
			}
			if p.Number == 50 {
				break
			}
		}
		defer func() {
			if recover() == nil { // panic(nil) is an error, too
				t.Error("the panic of the caller was swallowed")
			}
		}()
		for _, err := range d.Pages(1, d.NumPages()) {
			panic(err)
		}
	})
}

func TestF72DocumentIsSafeForConcurrentUse(t *testing.T) {
	for _, name := range []string{"groff.pdf", "cairo.pdf", "ghostscript.pdf", "aes-256.pdf", "rc4-128.pdf"} {
		data := fixture(t, name)
		// Without its tail the file is rebuilt; without lengths the ends of
		// streams are looked for.
		for _, data := range [][]byte{data, bytes.ReplaceAll(data, []byte("/Length"), []byte("/Lengte"))} {
			d, err := pdf.Open(bytes.NewReader(data), int64(len(data)), pdf.Options{})
			if errors.Is(err, pdf.ErrPassword) {
				continue // the length of the key is missing, too
			}
			if err != nil {
				t.Fatal(err)
			}
			alone, _ := d.Page(1)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					p, _ := d.Page(1)
					if diff := cmp.Diff(alone, p); diff != "" {
						t.Errorf("%s: page 1 read with others: -alone +together:\n%s", name, diff)
					}
					_, _ = d.Info(), d.Outline()
				})
			}
			wg.Wait()
		}
	}
}

func TestF72FailedPageDoesNotEndTheIteration(t *testing.T) {
	b := pdftest.Pages("one", "two", strings.Repeat("long ", 100), "four")
	d := open(t, b.Table(""), pdf.Options{Workers: 2, MaxTextBytes: 100})
	var failed []int
	for p, err := range d.Pages(1, d.NumPages()) {
		if errors.Is(err, pdf.ErrLimit) {
			failed = append(failed, p.Number)
		} else if err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff([]int{3}, failed); diff != "" {
		t.Errorf("failed pages: -want +got:\n%s", diff)
	}
}
