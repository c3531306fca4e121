package font

import (
	"cmp"
	"slices"
)

// span is a run of codes that share a value, or whose values count up.
type span[V any] struct {
	lo, hi uint32
	value  V
}

// spans finds the span of a code: add them all, sort once, then find. It keeps
// spans as they are, because a few bytes of syntax may cover 65 536 codes.
type spans[V any] struct {
	list   []span[V]
	nested bool // some overlap
}

const (
	// maxSpans bounds a table; there are 65 536 CIDs.
	maxSpans = 1 << 17
	// maxNested bounds the spans looked at for one code where spans overlap.
	maxNested = 1 << 10
)

func (s *spans[V]) add(lo, hi uint32, value V) {
	if lo <= hi && len(s.list) < maxSpans {
		s.list = append(s.list, span[V]{lo, hi, value})
	}
}

func (s *spans[V]) sort() {
	byStart := func(a, b span[V]) int { return cmp.Compare(a.lo, b.lo) }
	if !slices.IsSortedFunc(s.list, byStart) { // writers nearly always sort
		slices.SortStableFunc(s.list, byStart)
	}
	s.nested = false
	for i := 1; i < len(s.list) && !s.nested; i++ {
		s.nested = s.list[i].lo <= s.list[i-1].hi
	}
}

// find returns the span with code, nil if there is none. Where spans overlap
// the one that begins last wins, of those the one added last: what is said of
// one code, not what is said of a range around it.
func (s *spans[V]) find(code uint32) *span[V] {
	after, _ := slices.BinarySearchFunc(s.list, code, func(e span[V], code uint32) int {
		if e.lo <= code {
			return -1
		}
		return 1
	})
	steps := 1
	if s.nested {
		steps = maxNested
	}
	for i := after - 1; i >= max(0, after-steps); i-- {
		if e := &s.list[i]; code <= e.hi {
			return e
		}
	}
	return nil
}
