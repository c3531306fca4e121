package httpd

import (
	"testing"
	"time"
)

func TestAThrottleLetsTenLinesASecondThrough(t *testing.T) {
	var th Throttle
	at := time.Unix(1_000_000, 0)
	logged := 0
	for range 50 {
		if ok, _ := th.allow(at); ok {
			logged++
		}
	}
	if ok, left := th.allow(at.Add(time.Second)); logged != perSecond || !ok || left != 50-perSecond {
		t.Errorf("logged %d of 50, and a second later %t with %d left out", logged, ok, left)
	}
}
