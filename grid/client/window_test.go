package client

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/wire"
)

func TestG54SubmitWaitsWhileTheWindowIsFull(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  Config
		want int // jobs that are taken at once
	}{
		{"jobs", Config{Window: 3}, 3},
		{"bytes", Config{WindowBytes: 1000}, 2},
		{"one job is always taken", Config{WindowBytes: 10}, 1},
		{"by default", Config{Desired: 20}, 80},
		{"at least", Config{Desired: 1}, 64},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := newNet(t, "a:1")
				m := n.start(t, tt.cfg)
				request := wire.JobRequest{ExecName: "calcA", Args: []string{strings.Repeat("a", 300)}}
				taken := make(chan *Job, 1000)
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() {
					for {
						j, err := m.Submit(ctx, request)
						if err != nil {
							ended <- err
							return
						}
						taken <- j
					}
				}()
				after(time.Minute)
				if got := len(taken); got != tt.want {
					t.Fatalf("%d jobs were taken at once, want %d", got, tt.want)
				}
				first := <-taken
				n.leaders["a:1"].send(t, resultOf(first.ID, ""))
				after(0)
				if got := len(taken); got != tt.want {
					t.Errorf("%d jobs are unfinished after the first has ended, want %d", got, tt.want)
				}
				stop()
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Errorf("a submit that is canceled returns %v", err)
				}
			})
		})
	}
}

func TestG54SmallJobFollowsLargeOneThatGaveUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1")
		m := n.start(t, Config{WindowBytes: 2000})
		submit(t, m)
		ctx, cancel := context.WithCancel(t.Context())
		large := make(chan error)
		go func() {
			_, err := m.Submit(ctx, wire.JobRequest{ExecName: "calcA", Args: []string{strings.Repeat("a", 3000)}})
			large <- err
		}()
		synctest.Wait()
		small := make(chan error)
		go func() {
			_, err := m.Submit(t.Context(), wire.JobRequest{ExecName: "calcA"})
			small <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-large; !errors.Is(err, context.Canceled) {
			t.Errorf("the large job: %v", err)
		}
		if err := <-small; err != nil {
			t.Errorf("the small job: %v", err)
		}
	})
}

func TestG54LargeJobsFollowReaderSpeed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1")
		n.leaders["a:1"].down = true
		m := n.start(t, Config{})
		request := wire.JobRequest{ExecName: "calcA", Files: []wire.InputFile{{Name: "input.bin", Content: make([]byte, 300<<10)}}}
		const count = 50 // 20 MB
		var want []wire.GUID
		for range count {
			j, err := m.Submit(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, j.ID)
		}
		for hellos := 1; hellos <= 2; hellos++ {
			n.leaders["a:1"].back()
			for len(n.leaders["a:1"].ids(t, wire.HelloClient)) < hellos {
				after(time.Millisecond)
			}
			after(0)
			if got := n.leaders["a:1"].ids(t, wire.SubmitJob); !slices.Equal(got, want) {
				t.Errorf("sent at once were %d jobs, want %d, in order", len(got), len(want))
			}
			n.leaders["a:1"].crash()
			want = append(slices.Clone(want), want...)
			want = append(want, submit(t, m).ID) // it comes after those that are sent again
		}
	})
}

func TestG54LateRoomIsReleased(t *testing.T) {
	w := &window{maxJobs: 1, maxBytes: 10}
	w.take(7) // for one that has left meanwhile
	w.leave(&waiter{size: 7})
	if w.jobs != 0 || w.bytes != 0 {
		t.Errorf("%d jobs and %d bytes are left", w.jobs, w.bytes)
	}
}

func TestG06TooLargeJobIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1")
		m := n.start(t, Config{})
		j, err := m.Submit(t.Context(), wire.JobRequest{ExecName: "calcA", Files: []wire.InputFile{{Name: "input.bin", Content: make([]byte, 4<<20)}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := j.Wait(t.Context()); !errors.Is(err, wire.ErrTooLarge) || !strings.Contains(err.Error(), "takes blobs") {
			t.Errorf("to a leader that takes no blobs: %v", err)
		}
		most := wire.MaxSubmit("calcA")
		if _, err := m.SubmitPayload(t.Context(), wire.NewGUID(), "calcA", make([]byte, most)); err != nil {
			t.Errorf("the largest job that fits: %v", err)
		}
		if _, err := m.SubmitPayload(t.Context(), wire.NewGUID(), "calcA", make([]byte, most+1)); !errors.Is(err, wire.ErrTooLarge) {
			t.Errorf("a job of one byte more: %v", err)
		}
		after(0)
		if got := n.leaders["a:1"].ids(t, wire.SubmitJob); len(got) != 1 {
			t.Errorf("the leader has got %v", got)
		}
	})
}

func TestG25BadRequestIsNotSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newNet(t, "a:1").client(t, Config{})
		for name, r := range map[string]wire.JobRequest{
			"exec":   {ExecName: "../calcA"},
			"client": {ExecName: "calcA", ClientID: "clientB"},
			"file":   {ExecName: "calcA", Files: []wire.InputFile{{Name: "a/b"}}},
			"args":   {ExecName: "calcA", Args: []string{"a\x00"}},
		} {
			if _, err := m.Submit(t.Context(), r); err == nil || !strings.HasPrefix(err.Error(), "submit job ") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestG54LeaderThatDoesNotReadIsLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1", "b:1")
		hung := make(chan struct{})
		defer close(hung)
		n.leaders["a:1"].reply = func(_ *fakeLeader, _ *link.Conn, f wire.Frame) {
			if f.Type == wire.SubmitJob {
				<-hung
			}
		}
		n.leaders["b:1"].reply = runAll
		m := n.start(t, Config{Policy: LeastInFlight})
		request := wire.JobRequest{ExecName: "calcA", Files: []wire.InputFile{{Name: "input.bin", Content: make([]byte, 300<<10)}}}
		var all []*Job
		for range 40 {
			j, err := m.Submit(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, j)
			after(0)
		}
		n.mu.Lock()
		n.leaders["a:1"].down = true
		n.mu.Unlock()
		for _, j := range all {
			if got := result(t, j); got != "b:1" {
				t.Errorf("result is from %q", got)
			}
		}
	})
}
