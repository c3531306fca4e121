package cos

import (
	"bytes"
	"iter"
	"slices"
	"sync"
)

// A scan has the places in a file that only a look at all of it finds. Each kind
// is looked for once, at the first need, also for the clones of a file.
type scan struct {
	objects func() map[uint32]int // the offset of every "n g obj"; of several of a number, the last
	ends    func() []int          // the offsets of all "endstream"
}

func newScan(data []byte) scan {
	return scan{
		objects: sync.OnceValue(func() map[uint32]int {
			offsets := map[uint32]int{}
			for at := range occurrences(data, "obj") {
				if n, offset, ok := objectHeader(data, at); ok {
					offsets[n] = offset
				}
			}
			return offsets
		}),
		ends: sync.OnceValue(func() []int { return slices.Collect(occurrences(data, "endstream")) }),
	}
}

// occurrences yields the offsets of word in data, which do not overlap.
func occurrences(data []byte, word string) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; ; {
			j := bytes.Index(data[i:], []byte(word))
			if j < 0 || !yield(i+j) {
				return
			}
			i += j + len(word)
		}
	}
}

// objectHeader reads backwards from the word "obj" at offset at and returns
// the number of the object and where it begins.
func objectHeader(b []byte, at int) (n uint32, offset int, ok bool) {
	_, p, ok := numberBefore(b, at)
	if !ok || p == 0 || class[b[p-1]] != space {
		return 0, 0, false
	}
	return numberBefore(b, p)
}

// numberBefore returns the number that ends before end, perhaps with white
// space between, and where it begins. Numbers above maxObject are none.
func numberBefore(b []byte, end int) (n uint32, start int, ok bool) {
	const maxSpace, maxDigits = 32, 7
	p := end
	for p > 0 && end-p < maxSpace && class[b[p-1]] == space {
		p--
	}
	last, unit := p, uint32(1)
	for p > 0 && last-p < maxDigits && '0' <= b[p-1] && b[p-1] <= '9' {
		n += uint32(b[p-1]-'0') * unit
		unit *= 10
		p--
	}
	return n, p, p < last && n <= maxObject
}
