package cos

import (
	"bytes"
	"iter"
	"slices"
	"sync"
)

// marks are the places in a file that only a look at all of it finds. Each
// kind is looked for once, at the first need. It is safe for concurrent use.
type marks struct {
	scan    sync.Once
	offsets map[uint32]int // of all "n g obj"
	look    sync.Once
	ends    []int // offsets of all "endstream"
}

// objects returns the offset of every "n g obj" in data; of objects that are
// there more than once, the last.
func (m *marks) objects(data []byte) map[uint32]int {
	m.scan.Do(func() {
		m.offsets = map[uint32]int{}
		for at := range occurrences(data, "obj") {
			if n, offset, ok := objectHeader(data, at); ok {
				m.offsets[n] = offset
			}
		}
	})
	return m.offsets
}

// streamEnd returns the offset of the first "endstream" from start on, or the
// end of data. All of them are found once, because a file of streams without
// lengths would be searched over and over.
func (m *marks) streamEnd(data []byte, start int) int {
	m.look.Do(func() { m.ends = slices.Collect(occurrences(data, "endstream")) })
	if i, _ := slices.BinarySearch(m.ends, start); i < len(m.ends) {
		return m.ends[i]
	}
	return len(data)
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
