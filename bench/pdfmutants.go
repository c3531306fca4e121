package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	mutants       = 2000
	mutantLimit   = 20 * time.Second // then it hangs
	mutantSize    = 100_000          // most bytes of the document a mutant is made from
	mutantParents = 100
)

// pdfMutants reads damaged copies of small documents. The damage is the same
// in every run over the same corpus. A mutant that breaks the reader is kept in
// the directory for temporary files.
func pdfMutants(ctx context.Context, b *pdfBench) error {
	parents, err := b.smallDocuments()
	if err != nil {
		return err
	}
	readings := make([]reading, mutants)
	var reads errgroup.Group
	reads.SetLimit(2)
	for i := 0; i < mutants && ctx.Err() == nil; i++ {
		reads.Go(func() error {
			d, err := b.write(fmt.Sprintf("mutant%d.pdf", i), mutate(parents[i%len(parents)], uint64(i)))
			if err != nil {
				return err
			}
			r := ours.read(ctx, d, mutantLimit, nil)
			r.text, r.stderr = nil, nil
			readings[i] = r
			if ctx.Err() == nil && (r.summary == nil || r.summary.Panics > 0) {
				kept := filepath.Join(os.TempDir(), fmt.Sprintf("bench-mutant-%d.pdf", i))
				fmt.Fprintf(os.Stderr, "mutant %d breaks the reader, kept as %s: %v\n", i, kept, r.err)
				return os.Rename(d.path, kept)
			}
			return os.Remove(d.path)
		})
	}
	if err := cmp.Or(reads.Wait(), ctx.Err()); err != nil {
		return err
	}
	b.addMutants(readings)
	return nil
}

func (b *pdfBench) addMutants(readings []reading) {
	opened := 0
	var slowest time.Duration
	for _, r := range readings {
		slowest = max(slowest, r.cpu)
		if r.summary != nil && r.summary.Pages > 0 {
			opened++
		}
	}
	b.add("mutants", float64(len(readings)), "", bar{})
	b.add("mutants in which pages are found", float64(opened), "", bar{})
	b.addEnds("mutants, ", readings)
	b.add("mutants, processor time of the slowest", slowest.Seconds(), "s", bar{})
}

// addEnds reports how readings ended: none may but by themselves.
func (b *pdfBench) addEnds(of string, readings []reading) {
	var panics, crashes, hangs int
	var memory int64
	for _, r := range readings {
		switch {
		case r.hung:
			hangs++
		case r.summary == nil:
			crashes++
		default:
			panics += r.summary.Panics
			memory = max(memory, r.summary.Memory)
		}
	}
	b.add(of+"panics", float64(panics), "", atMost(0))
	b.add(of+"crashes", float64(crashes), "", atMost(0))
	b.add(of+"hangs", float64(hangs), "", atMost(0))
	b.add(of+"memory, most", float64(memory)/(1<<20), "MiB", bar{})
}

// smallDocuments returns the contents of documents spread over the corpus.
func (b *pdfBench) smallDocuments() ([][]byte, error) {
	var small []string
	for _, d := range b.documents {
		if info, err := os.Stat(d.path); err == nil && info.Size() <= mutantSize && d.password == "" {
			small = append(small, d.path)
		}
	}
	if len(small) == 0 {
		return nil, fmt.Errorf("no document of at most %d bytes", mutantSize)
	}
	n := min(mutantParents, len(small))
	contents := make([][]byte, n)
	for i := range n {
		data, err := os.ReadFile(small[i*len(small)/n])
		if err != nil {
			return nil, fmt.Errorf("read document: %w", err)
		}
		contents[i] = data
	}
	return contents, nil
}

// oddNumbers are what numbers in files are replaced with.
var oddNumbers = []string{"0", "1", "-1", "7", "255", "65536", "2147483647", "4294967295", "9999999999999999999", "0.5", "1e9"}

// mutate returns a copy of data with up to eight kinds of damage, which follow
// from seed.
func mutate(data []byte, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 75))
	out := slices.Clone(data)
	for range 1 + r.IntN(8) {
		if len(out) == 0 {
			break
		}
		from := r.IntN(len(out))
		to := min(from+1+r.IntN(1+len(out)/20), len(out))
		switch r.IntN(9) {
		case 0:
			out[from] ^= 1 << r.IntN(8)
		case 1:
			out[from] = byte(r.Uint32())
		case 2:
			out = slices.Delete(out, from, to)
		case 3:
			out = slices.Insert(out, from, out[from:to]...)
		case 4:
			clear(out[from:to])
		case 5: // rarely, and rarely much: what is left should be worth reading
			if r.IntN(4) == 0 {
				out = out[:len(out)-r.IntN(1+len(out)/4)]
			}
		case 6, 7:
			out = replaceNumber(out, from, oddNumbers[r.IntN(len(oddNumbers))])
		case 8:
			out[from], out[to-1] = out[to-1], out[from]
		}
	}
	return out
}

// replaceNumber puts number in the place of the first digits at or behind from.
func replaceNumber(data []byte, from int, number string) []byte {
	start := bytes.IndexAny(data[from:], "0123456789")
	if start < 0 {
		return data
	}
	start += from
	end := start
	for end < len(data) && data[end] >= '0' && data[end] <= '9' {
		end++
	}
	return slices.Replace(data, start, end, []byte(number)...)
}
