package link

import (
	"testing"

	"github.com/batchfleet/batchfleet/grid/wire"
)

func TestG53LargeWriteBufferIsGivenBack(t *testing.T) {
	var q queue
	write := func(frames int) {
		for range frames {
			q.add(&wire.Frame{Type: wire.AckJob, Payload: make([]byte, 100)})
		}
		q.written(q.take())
	}
	for range 2 {
		write(300)
		if n := cap(q.spare); n <= small {
			t.Errorf("after many frames a piece of %d bytes is kept", n)
		}
		for range calm {
			write(1)
		}
		write(1)
		if n := cap(q.spare); n > small {
			t.Errorf("once few frames are written, a piece of %d bytes is kept", n)
		}
	}
	if q.bytes != 0 {
		t.Errorf("%d bytes wait, and all were written", q.bytes)
	}
}
