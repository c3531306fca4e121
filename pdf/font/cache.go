package font

import "github.com/batchfleet/batchfleet/pdf/cos"

const (
	// maxCached bounds the fonts a [Cache] keeps, and maxWeight what they weigh
	// together. One that weighs more is kept alone.
	maxCached = 64
	maxWeight = 48 << 20
	// fontWeight is what a font takes by itself, in bytes. What it reads takes
	// up to readWeight times as much: a CMap has 12 bytes for a range that is
	// written in a few.
	fontWeight = 20 << 10
	readWeight = 3
)

// Cache loads the fonts of one file once. It is not safe for concurrent use.
type Cache struct {
	File   *cos.File
	fonts  map[cos.Ref]*Font
	weight int // of all fonts, in bytes
}

// Load is the function [Load], but remembers fonts that are indirect objects,
// as nearly all are. loaded tells whether the font was read just now.
func (c *Cache) Load(o cos.Object) (f *Font, loaded bool) {
	ref, ok := o.(cos.Ref)
	if !ok {
		return Load(c.File, o), true
	}
	if f := c.fonts[ref]; f != nil {
		f.renote(c.File)
		return f, false
	}
	before := c.File.Budget()
	notes := c.File.Noted(func() { f = Load(c.File, o) })
	f.notes = notes
	if c.File.BudgetErr() != nil {
		return f, true // it may lack what was not read any more
	}
	weight := fontWeight + readWeight*(before-c.File.Budget())
	if c.fonts == nil || len(c.fonts) >= maxCached || c.weight+weight > maxWeight {
		c.fonts, c.weight = map[cos.Ref]*Font{}, 0
	}
	c.fonts[ref] = f
	c.weight += weight
	return f, true
}
