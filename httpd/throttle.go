package httpd

import (
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// perSecond is how many lines a [Throttle] lets through in a second.
const perSecond = 10

// Throttle bounds how often something is logged that strangers bring about: ten
// lines a second. The zero value is ready. It may be used concurrently.
type Throttle struct {
	mu     sync.Mutex
	second int64
	count  int
	left   int // not let through since the last that was
}

// Allow reports whether to log, and how often it has not been allowed since it
// last was.
func (t *Throttle) Allow(now time.Time) (ok bool, left int) {
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

// Warn logs that a request was not let in, and why, if it may.
func (t *Throttle) Warn(log *slog.Logger, r *http.Request, msg, reason string, more ...slog.Attr) {
	ok, left := t.Allow(time.Now())
	if !ok {
		return
	}
	attrs := append([]slog.Attr{
		slog.String("reason", reason), slog.String("remote", r.RemoteAddr), slog.String("route", r.Pattern),
		slog.String("request_id", RequestID(r.Context())),
	}, more...)
	if left > 0 {
		attrs = append(attrs, slog.Int("not_logged", left))
	}
	log.LogAttrs(r.Context(), slog.LevelWarn, msg, attrs...)
}
