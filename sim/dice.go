package sim

import (
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// dice decides about the calls of one process to one service, by their number: the nth
// call of a seed has always the same fate, whatever the others do meanwhile.
type dice struct {
	mu  sync.Mutex
	rng *rand.Rand
	off func() bool // no more faults
	per int         // one call in so many meets a fault; 0 for none
}

// newDice returns the dice for the named purpose.
func newDice(seed uint64, names ...string) *dice { return &dice{rng: random(seed, names...)} }

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

// roll returns the fate of the next call.
func (d *dice) roll() fate {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, kind := d.rng.IntN(max(1, d.per)), d.rng.IntN(2) // as many numbers for each call
	switch {
	case d.per == 0 || n != 0 || d.off != nil && d.off():
		return works
	case kind == 0:
		return lostRequest
	}
	return lostReply
}

// breaks reports whether the next use of a connection breaks it.
func (d *dice) breaks() bool { return d.roll() != works }

// between returns a time from low to high.
func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)+1)).Round(time.Millisecond)
}
