package redisdb

import (
	"cmp"
	"embed"
	"slices"
	"strconv"
)

//go:embed lua/*.lua
var lua embed.FS

// PageScript reads a page of sorted sets; its header says what it takes.
var PageScript = NewScript(lua, "page")

// Beyond is a score after all that count: a float64 and a cursor hold those before it
// exactly. What is not before it, or is below 0, is not of ours.
const Beyond = 1 << 53

// Place is an entry of a sorted set.
type Place struct {
	Score int64
	ID    string
}

// Places reads the answer of PageScript, the highest first. One that is in two sets
// counts once.
func (a Reply) Places() []Place {
	list := make([]Place, 0, len(a)/2)
	for ; len(a) >= 2; a = a[2:] {
		if score, _ := strconv.ParseFloat(a.Text(1), 64); score >= 0 {
			list = append(list, Place{int64(score), a.Text(0)})
		}
	}
	slices.SortFunc(list, func(a, b Place) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.ID, a.ID)) })
	return slices.Compact(list)
}
