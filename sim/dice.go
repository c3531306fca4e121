package sim

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// dice decides about the calls of one process to one service, by their kind and number: the
// nth call of a kind has always the same fate, whatever others there are meanwhile.
type dice struct {
	seed  uint64
	names []string

	mu  sync.Mutex
	n   map[string]int // calls by their kind
	off func() bool    // no more faults
	per int            // one call in so many meets a fault; 0 for none
}

// newDice returns the dice for the named purpose.
func newDice(seed uint64, names ...string) *dice {
	return &dice{seed: seed, names: names, n: map[string]int{}}
}

// random returns numbers for the named purpose.
func random(seed uint64, names ...string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(strings.Join(names, "/"))) // a hash never fails
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// fate is what becomes of a call.
type fate uint8

const (
	works fate = iota
	lostRequest
	lostReply
)

// roll returns the fate of the next call of a kind.
func (d *dice) roll(kind string) fate {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n[kind]++
	if d.per == 0 || d.off != nil && d.off() {
		return works
	}
	r := random(d.seed, append(slices.Clone(d.names), kind, strconv.Itoa(d.n[kind]))...)
	switch {
	case r.IntN(d.per) != 0:
		return works
	case r.IntN(2) == 0:
		return lostRequest
	}
	return lostReply
}

// breaks reports whether the next use of a connection breaks it.
func (d *dice) breaks() bool { return d.roll("write") != works }

// between returns a time from low to high.
func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)+1)).Round(time.Millisecond)
}
