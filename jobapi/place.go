package jobapi

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// place is where a filtered list goes on: in a page of the store's list, behind a job. A cursor of a store leads only to
// where one of its pages begins, and a page with filters may end anywhere.
type place struct {
	created int64  // of the last job that was returned, in milliseconds since 1970
	id      string // its id; empty if the list goes on where a page of the store begins
	cursor  string // of the store; empty for its first page
}

// placeMark begins a cursor that is a place. No store's cursor begins so.
const placeMark = "~"

// String returns the place as a cursor.
func (p place) String() string {
	if p.id == "" {
		return p.cursor
	}
	return placeMark + strconv.FormatInt(p.created, 36) + placeMark + p.id + placeMark + p.cursor
}

var errPlace = &FieldError{"cursor", "it is not one that a page has had"}

// parsePlace reads a cursor: a place, or one of the store's. The store checks its own.
func parsePlace(cursor string) (place, error) {
	text, ok := strings.CutPrefix(cursor, placeMark)
	if !ok {
		return place{cursor: cursor}, nil
	}
	parts := strings.SplitN(text, placeMark, 3)
	if len(parts) != 3 {
		return place{}, errPlace
	}
	created, err := strconv.ParseInt(parts[0], 36, 64)
	id, err2 := jobs.ParseID(parts[1])
	p := place{created, string(id), parts[2]}
	if err != nil || err2 != nil || p.String() != cursor || time.UnixMilli(created).Year() > 9999 {
		return place{}, errPlace
	}
	return p, nil
}

// rest returns the items that come after the place.
func (p place) rest(items []Item) []Item {
	if p.id == "" {
		return items
	}
	if i := slices.IndexFunc(items, func(i Item) bool { return i.ID == p.id }); i >= 0 {
		return items[i+1:]
	}
	// The job is not there any more, or not in this page: the order of lists tells.
	i := slices.IndexFunc(items, p.before)
	if i < 0 {
		return nil
	}
	return items[i:]
}

// before reports whether an item comes after the place.
func (p place) before(i Item) bool {
	created := i.CreatedAt.UnixMilli()
	return created < p.created || created == p.created && i.ID < p.id
}

// ahead reports whether the place comes after all items.
func (p place) ahead(items []Item) bool {
	return !slices.ContainsFunc(items, func(i Item) bool { return i.ID == p.id || p.before(i) })
}
