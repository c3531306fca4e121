package jobapi

import (
	"context"
	"slices"
)

// Bounds of one [Select].
const (
	selectLook = 1000 // jobs that it looks at, about
	selectPage = 200  // of them in one call of List
)

// Selected is what [Select] has found.
type Selected struct {
	Items []Item
	Jobs  []Job  // the same, whole, if they were asked for
	Next  string // where to go on; empty at the end of the list
}

// Select returns the jobs of a list that pass a filter, the newest first, and whole jobs if that is asked for. It
// looks at some 1000 jobs at most, so it may find few or none although Next says that the list goes on.
func Select(ctx context.Context, all Jobs, q Query, f Filter, whole bool) (found Selected, err error) {
	for looked := 0; looked < selectLook; {
		begin := q.Cursor
		step := q
		if !f.Empty() {
			step.Limit = selectPage
		}
		page, err := all.List(ctx, step)
		if err != nil {
			return found, err
		}
		looked += max(len(page.Items), 1)
		items := page.Items
		old := !f.Since.IsZero() && len(items) > 0 && items[len(items)-1].CreatedAt.Before(f.Since) // none of the rest is younger
		kept, err := pass(ctx, all, items, f, whole)
		if err != nil {
			return found, err
		}
		room := q.Limit - len(found.Items)
		if len(kept.Items) > room { // the next page begins in the middle of this one
			kept.cut(room)
			last := kept.Items[room-1].ID
			found.add(kept)
			found.Next, err = after(ctx, all, q, begin, items, last)
			return found, err
		}
		found.add(kept)
		if old || page.Next == "" {
			return found, nil
		}
		q.Cursor, found.Next = page.Next, page.Next
		if f.Empty() || len(found.Items) == q.Limit {
			return found, nil
		}
	}
	return found, nil
}

// pass returns those of the items that pass a filter.
func pass(ctx context.Context, all Jobs, items []Item, f Filter, whole bool) (kept Selected, err error) {
	items = slices.DeleteFunc(slices.Clone(items), func(i Item) bool { return !f.Item(&i) })
	if len(items) == 0 || !whole && !f.NeedsJobs() {
		return Selected{Items: items}, nil
	}
	ids := make([]string, len(items))
	for i := range items {
		ids[i] = items[i].ID
	}
	for chunk := range slices.Chunk(ids, MaxGet) {
		got, err := all.Get(ctx, chunk)
		if err != nil {
			return kept, err
		}
		for i := range got {
			if f.Job(&got[i]) {
				kept.Jobs = append(kept.Jobs, got[i])
				kept.Items = append(kept.Items, got[i].Item())
			}
		}
	}
	if !whole {
		kept.Jobs = nil
	}
	return kept, nil
}

func (s *Selected) add(more Selected) {
	s.Items, s.Jobs = append(s.Items, more.Items...), append(s.Jobs, more.Jobs...)
}

func (s *Selected) cut(n int) {
	s.Items = s.Items[:n]
	s.Jobs = s.Jobs[:min(n, len(s.Jobs))]
}

// after returns the cursor behind a job of a page, which began at begin. A cursor is the store's own, so the page is listed
// again so far. Jobs that have come in before its first one move the place.
func after(ctx context.Context, all Jobs, q Query, begin string, items []Item, last string) (string, error) {
	q.Cursor = begin
	q.Limit = 1 + slices.IndexFunc(items, func(i Item) bool { return i.ID == last })
	for {
		page, err := all.List(ctx, q)
		if err != nil || page.Next == "" {
			return page.Next, err
		}
		at := slices.IndexFunc(page.Items, func(i Item) bool { return i.ID == last })
		if at == len(page.Items)-1 && at >= 0 || q.Limit == selectPage {
			return page.Next, nil
		}
		if at >= 0 { // it was listed with too many behind it, which only a change of the store can bring about
			q.Limit -= len(page.Items) - 1 - at
		} else {
			q.Limit = min(selectPage, q.Limit+max(1, newer(page.Items, items[0].ID)))
		}
	}
}

// newer returns how many items stand before the one that was the first.
func newer(items []Item, first string) int {
	return slices.IndexFunc(items, func(i Item) bool { return i.ID == first })
}
