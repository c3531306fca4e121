package httpd

import (
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// perSecond is how many lines a [Throttle] allows in a second.
const perSecond = 10

// Throttle bounds how often something is logged that anyone can cause: ten lines a
// second. The zero value is ready. It may be used concurrently.
type Throttle struct {
	mu     sync.Mutex
	second int64
	count  int
	left   int // dropped since the last line
}

// allow reports whether to log, and how many lines were dropped since the last one.
func (t *Throttle) allow(now time.Time) (ok bool, left int) {
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

// Warn logs that a request was refused, and why, unless it is throttled.
func (t *Throttle) Warn(log *slog.Logger, r *http.Request, msg, reason string, more ...slog.Attr) {
	ok, left := t.allow(time.Now())
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
