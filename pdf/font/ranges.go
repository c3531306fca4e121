package font

import (
	"cmp"
	"slices"
)

// span is a run of codes that share a value. Codes of different byte lengths
// are different codes.
type span[V any] struct {
	size   int // bytes of a code; 0 where codes have no length
	lo, hi uint32
	value  V
}

// spans finds the span of a code: add them all, sort once, then find. It keeps
// spans as they are, because a few bytes of syntax may cover 65 536 codes.
type spans[V any] []span[V]

// maxSpans bounds a table; there are 65 536 CIDs.
const maxSpans = 1 << 17

func (s *spans[V]) add(size int, lo, hi uint32, value V) {
	if lo <= hi && len(*s) < maxSpans {
		*s = append(*s, span[V]{size, lo, hi, value})
	}
}

func (s spans[V]) sort() {
	slices.SortStableFunc(s, func(a, b span[V]) int {
		return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.lo, b.lo))
	})
}

// find returns the span with code. Where spans overlap the one that begins
// last wins, of those the one added last.
func (s spans[V]) find(size int, code uint32) (span[V], bool) {
	after, _ := slices.BinarySearchFunc(s, code, func(e span[V], code uint32) int {
		if e.size < size || e.size == size && e.lo <= code {
			return -1
		}
		return 1
	})
	// Spans overlap only in damaged or odd files: a few steps back are enough.
	for i := after - 1; i >= 0 && i >= after-8 && s[i].size == size; i-- {
		if e := s[i]; code <= e.hi {
			return e, true
		}
	}
	return span[V]{}, false
}
