package control

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// deadlines is an answer whose connection keeps what deadlines it was given.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error  { d.read = t; return nil }
func (d *deadlines) SetWriteDeadline(t time.Time) error { d.write = t; return nil }

func TestZ79LargeBodyHasTimeForAsLongAsItComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d deadlines
		proven := false
		b := &body{
			ReadCloser: io.NopCloser(strings.NewReader(strings.Repeat("x", 100))), size: 10 * minRate, left: 1,
			conn: http.NewResponseController(&d), authorize: func() error { proven = true; return nil },
		}
		one := make([]byte, 1)
		read := func() {
			t.Helper()
			if _, err := b.Read(one); err != nil {
				t.Fatal(err)
			}
		}
		read()
		if proven || !d.read.IsZero() {
			t.Error("a stranger was given time")
		}
		start := time.Now()
		for _, at := range []time.Duration{0, 5 * time.Second, 20 * time.Second, 39 * time.Second} {
			time.Sleep(time.Until(start.Add(at)))
			read()
			if want := min(at+maxSilence, 40*time.Second); !d.read.Equal(start.Add(want)) || !d.write.Equal(start.Add(100*time.Second)) {
				t.Errorf("after %s it may be read until %s and answered until %s; want %s and 1m40s", at, d.read.Sub(start), d.write.Sub(start), want)
			}
		}
	})
}
