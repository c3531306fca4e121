package jobapi

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// Bounds of one [Select].
const (
	selectLook  = 1000            // jobs that it looks at, about
	selectPage  = 200             // of them in one call of List
	selectEmpty = 50              // what a page without jobs counts as
	selectTime  = 2 * time.Second // after which it begins no further page
)

// Selected is what [Select] has found.
type Selected struct {
	Items []Item
	Jobs  []Job  // the same, whole, if they were asked for
	Next  string // where to go on; empty at the end of the list
}

// Select returns at most q.Limit jobs of a list that pass a filter, the newest first, and whole jobs if that is asked for.
// It looks at some 1000 jobs at most, so it may find few or none although Next says that the list goes on. Whoever follows
// Next gets each job once, also while others are submitted. A cursor that is none is a [FieldError].
func Select(ctx context.Context, all Jobs, q Query, f Filter, whole bool) (Selected, error) {
	at, err := parsePlace(q.Cursor)
	if err != nil {
		return Selected{}, err
	}
	s := &selecting{all: all, q: q, f: f, whole: whole, at: at}
	begun := time.Now()
	for looked := 0; looked < selectLook && time.Since(begun) < selectTime; {
		n, err := s.page(ctx)
		if err != nil {
			return Selected{}, err
		}
		if s.full || s.found.Next == "" {
			break
		}
		looked += cmp.Or(n, selectEmpty)
	}
	return s.found, nil
}

// selecting is a Select that runs.
type selecting struct {
	all   Jobs
	q     Query
	f     Filter
	whole bool
	at    place // where the next page begins
	found Selected
	full  bool
}

// page reads one page of the list and returns how many jobs it has looked at.
func (s *selecting) page(ctx context.Context) (looked int, err error) {
	q := s.q
	q.Cursor, q.Limit = s.at.cursor, s.q.Limit-len(s.found.Items)
	if s.at.id != "" || s.f.Rare() {
		q.Limit = selectPage
	}
	page, err := s.all.List(ctx, q)
	if err != nil {
		return 0, err
	}
	items, over := s.f.young(s.at.rest(page.Items))
	if over {
		page.Next = ""
	}
	items = slices.DeleteFunc(slices.Clone(items), func(i Item) bool { return !s.f.Item(&i) })
	kept, whole, err := s.judge(ctx, items)
	if err != nil {
		return 0, err
	}
	if room := s.q.Limit - len(s.found.Items); len(kept) > room { // the next page begins in the middle of this one
		s.full = true
		kept, whole = kept[:room], whole[:min(room, len(whole))]
		s.add(kept, whole)
		last := kept[room-1]
		s.found.Next = place{last.CreatedAt.UnixMilli(), last.ID, s.at.cursor}.String()
		return len(page.Items), nil
	}
	s.add(kept, whole)
	s.full = len(s.found.Items) == s.q.Limit
	switch {
	case page.Next == "":
		s.found.Next = ""
	case s.at.id != "" && s.at.ahead(page.Items): // all that was seen is newer than the place: jobs came in since
		s.at.cursor = page.Next
		s.found.Next = s.at.String()
	default:
		s.at = place{cursor: page.Next}
		s.found.Next = page.Next
	}
	return len(page.Items), nil
}

func (s *selecting) add(items []Item, whole []Job) {
	s.found.Items = append(s.found.Items, items...)
	if s.whole {
		s.found.Jobs = append(s.found.Jobs, whole...)
	}
}

// judge returns those of the items that pass the filter, and their jobs if those had to be read.
func (s *selecting) judge(ctx context.Context, items []Item) (kept []Item, whole []Job, err error) {
	if !s.whole && !s.f.NeedsJobs() {
		return items, nil, nil
	}
	ids := make([]string, 0, len(items))
	for _, i := range items {
		if s.f.Error == "" || i.Status == jobs.Failed { // no other has an error
			ids = append(ids, i.ID)
		}
	}
	for chunk := range slices.Chunk(ids, MaxGet) {
		got, err := s.all.Get(ctx, chunk)
		if err != nil {
			return nil, nil, err
		}
		for i := range got {
			// A job may have changed since it was listed.
			if s.f.Job(&got[i]) && (s.q.Status == 0 || got[i].Status == s.q.Status) {
				kept, whole = append(kept, got[i].Item()), append(whole, got[i])
			}
		}
	}
	return kept, whole, nil
}

// young returns the items before the first that is too old, and whether there is one.
func (f Filter) young(items []Item) (young []Item, over bool) {
	if f.Since.IsZero() {
		return items, false
	}
	i := slices.IndexFunc(items, func(i Item) bool { return i.CreatedAt.Before(f.Since) })
	if i < 0 {
		return items, false
	}
	return items[:i], true
}
