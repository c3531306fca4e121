package jobapi

import "context"

// Feed is a Jobs that tells which of its jobs have changed.
type Feed interface {
	// Changes returns the ids of jobs that have been made or have changed their state, worker or attempt after the
	// position, oldest change first and at most [MaxGet], and the position behind them. An id may come
	// more than once. It waits until there are some; when ctx ends, it returns none, the position, and no error.
	//
	// The empty position is the present: the call returns at once, with a position and no ids. lost is true when
	// changes after the position are no longer kept; next is then the present.
	Changes(ctx context.Context, after string) (ids []string, next string, lost bool, err error)
}
