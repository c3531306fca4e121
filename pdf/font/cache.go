package font

import "github.com/batchfleet/batchfleet/pdf/cos"

// maxCached bounds the fonts a [Cache] keeps. Fonts take 20 KB, with large
// character sets up to 3 MB.
const maxCached = 64

// Cache loads the fonts of one file once. It is not safe for concurrent use.
type Cache struct {
	File  *cos.File
	fonts map[cos.Ref]*Font
}

// Load is the function [Load], but remembers fonts that are indirect objects,
// as nearly all are. loaded tells whether the font was read just now.
func (c *Cache) Load(o cos.Object) (f *Font, loaded bool) {
	ref, ok := o.(cos.Ref)
	if !ok {
		return Load(c.File, o), true
	}
	if f := c.fonts[ref]; f != nil {
		return f, false
	}
	f = Load(c.File, o)
	if c.File.BudgetErr() != nil {
		return f, true // it may lack what was not read any more
	}
	if c.fonts == nil || len(c.fonts) >= maxCached {
		c.fonts = map[cos.Ref]*Font{}
	}
	c.fonts[ref] = f
	return f, true
}
