package pdf

import (
	"testing"
	"testing/synctest"
)

func TestF72ReadingAheadWaitsForRoom(t *testing.T) {
	tests := []struct {
		name   string
		change func(a *ahead)
		may    bool
	}{
		{"until text is taken", func(a *ahead) { a.held = maxAhead }, true},
		{"until its batch is taken", func(a *ahead) { a.head = 9 }, true},
		{"until no more are wanted", func(a *ahead) { a.stopped = true }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &ahead{held: maxAhead + 1, head: 1}
				a.changed.L = &a.mu
				if !a.mayRead(1) {
					t.Error("the batch that is being taken may not go on")
				}
				answer := make(chan bool, 1)
				go func() { answer <- a.mayRead(9) }()
				synctest.Wait()
				if len(answer) > 0 {
					t.Fatal("a batch after it did not wait")
				}
				a.change(func() { tt.change(a) })
				synctest.Wait()
				if len(answer) == 0 {
					t.Fatal("it still waits")
				}
				if got := <-answer; got != tt.may {
					t.Errorf("it may read: %v, want %v", got, tt.may)
				}
			})
		})
	}
}
