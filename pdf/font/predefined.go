package font

import "strings"

// predefined returns one of the CMaps every reader must know by name (ISO
// 32000-1, 9.7.5.2) and the character collection it maps to, such as "Japan1".
//
// This is the seam for embedded tables. As yet there are none: only the
// identity CMaps are known, and they need no table, so the answer is always
// no. Fonts fall back on what the name says about the encoding, see [legacy].
func predefined(string) (c *CMap, collection string, ok bool) { return nil, "", false }

// collectionText returns the text of the character ids of one of Adobe's
// character collections, or nil if its table is not embedded.
func collectionText(string) func(cid uint32) string { return nil }

// isVertical reports whether a predefined CMap of this name writes from top to
// bottom.
func isVertical(name string) bool { return name == "V" || strings.HasSuffix(name, "-V") }
