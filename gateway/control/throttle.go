package control

import (
	"sync"
	"time"
)

// perSecond is how many lines a throttle lets through in a second.
const perSecond = 10

// throttle bounds how often something is logged.
type throttle struct {
	mu     sync.Mutex
	second int64
	count  int
	left   int // not let through since the last that was
}

// allow reports whether to log, and how often it has not been allowed since it
// last was.
func (t *throttle) allow(now time.Time) (ok bool, left int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := now.Unix(); s != t.second {
		t.second, t.count = s, 0
	}
	if t.count >= perSecond {
		t.left++
		return false, 0
	}
	t.count++
	left, t.left = t.left, 0
	return true, left
}
