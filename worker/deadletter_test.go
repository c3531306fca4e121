package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker/memory"
)

// deadLetters keeps dead letters, and notes each in the queue's story.
type deadLetters struct {
	q       *queue
	mu      sync.Mutex
	refuses error
	added   []DeadLetterInfo
	tries   int
}

func (g *deadLetters) Add(_ context.Context, lease jobs.Lease, d DeadLetterInfo) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tries++
	if g.refuses != nil {
		return g.refuses
	}
	g.added = append(g.added, d)
	g.q.locked(func() { g.q.note("dead-letter %s", lease.Job.ID) })
	return nil
}

func (g *deadLetters) refuse(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refuses = err
}

func (g *deadLetters) check(context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refuses
}

// withDeadLetters makes the rig's worker keep dead letters.
func (r *rig) withDeadLetters() *deadLetters {
	g := &deadLetters{q: r.q}
	r.worker.DeadLetters, r.worker.Checks["dead letters"] = g, g.check
	return g
}

// refuseLetters starts the rig's worker, which then cannot keep dead letters.
func (r *rig) refuseLetters() *deadLetters {
	g := r.withDeadLetters()
	r.start()
	r.after(time.Second) // ready
	g.refuse(errors.New("unavailable"))
	return g
}

func TestF13FailedJobIsBuriedBeforeItsAck(t *testing.T) {
	tests := []struct {
		name, told, reason string
		h                  handler
		setup              func(*testing.T, *rig)
	}{
		{"a job failure", "dead-letter j, ack j", "not a PDF", fails(errors.New("not a PDF")), nil},
		{"a timeout", "dead-letter j, ack j", "job timeout: it did not end within 3m0s", untilStopped, func(_ *testing.T, r *rig) { r.worker.JobTimeout = 3 * time.Minute }},
		{"a message that asks for nonsense", "dead-letter j, ack j", "bad message: pages is -1", takes(time.Second), func(_ *testing.T, r *rig) {
			r.q.replace(memory.Message{Job: jobs.Job{ID: "j", Kind: "test"}, Invalid: errors.New("bad message: pages is -1")})
		}},
		{"the crash limit", "dead-letter j, ack j", "worker crashed 3 times", takes(time.Second), func(_ *testing.T, r *rig) {
			for range 3 {
				r.died("j")
			}
		}},
		{"not a success", "ack j", "", takes(time.Second), nil},
		{"not trouble of the infrastructure", "nack j", "", fails(fmt.Errorf("%w: disk full", jobs.ErrUnavailable)), nil},
		{"not a canceled job", "ack j", "", takes(time.Second), func(t *testing.T, r *rig) {
			if _, err := r.status.Submit(t.Context(), jobs.Job{ID: "j"}); err != nil {
				t.Fatal(err)
			}
			if _, err := r.status.Cancel(t.Context(), "j"); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, tt.h, func(t *testing.T, r *rig) {
				g := r.withDeadLetters()
				if tt.setup != nil {
					tt.setup(t, r)
				}
				r.start()
				r.after(10 * time.Second)
				if tt.name == "a timeout" {
					r.after(3 * time.Minute)
				}
				r.wantTold(tt.told)
				if tt.reason == "" {
					if len(g.added) > 0 {
						t.Errorf("dead letters %+v, want none", g.added)
					}
				} else if len(g.added) != 1 || g.added[0].Reason != tt.reason || g.added[0].Attempt == 0 {
					t.Errorf("dead letters %+v, want one for %q", g.added, tt.reason)
				}
			}, "j")
		})
	}
}

func TestF13OutcomeIsRecordedBeforeTheLetter(t *testing.T) {
	inBubble(t, fails(errors.New("not a PDF")), func(t *testing.T, r *rig) {
		g := r.withDeadLetters()
		r.start()
		r.after(time.Second) // ready
		g.refuse(fmt.Errorf("%w: no topic", ErrRefused))
		r.q.add("j")
		r.after(time.Second)
		r.wantStatus("j", "failed 0%: not a PDF")
		r.wantTold("")
		if err := r.worker.Ready(); err == nil {
			t.Error("the worker takes further jobs that it could not add to the dead letters")
		}
	})
}

func TestF13LetterThatIsRefused(t *testing.T) {
	t.Run("for a while is tried again under the lease", func(t *testing.T) {
		inBubble(t, fails(errors.New("not a PDF")), func(t *testing.T, r *rig) {
			g := r.refuseLetters()
			r.q.add("j")
			r.after(6 * time.Minute) // longer than a lease is extended for at first
			r.wantTold("")
			if err := r.worker.Ready(); err == nil || !strings.Contains(err.Error(), "unavailable") {
				t.Errorf("ready: %v, want what is wrong", err)
			}
			g.refuse(nil)
			r.after(32 * time.Second)
			r.wantTold("dead-letter j, ack j")
		})
	})
	t.Run("for longer than SETTLE_TIMEOUT is handed back, and published by who finds the job failed", func(t *testing.T) {
		inBubble(t, fails(errors.New("not a PDF")), func(t *testing.T, r *rig) {
			g := r.refuseLetters()
			r.q.add("j")
			r.after(11 * time.Minute)
			r.wantTold("nack j")
			r.wantStatus("j", "failed 0%: not a PDF")
			g.refuse(nil)
			r.after(2 * time.Minute)
			r.wantTold("nack j, dead-letter j, ack j")
			if len(g.added) != 1 || g.added[0].Reason != "not a PDF" || g.added[0].Attempt != 1 {
				t.Errorf("dead letters %+v, want one that says what is on record", g.added)
			}
		})
	})
	t.Run("when the worker stops is left to the next", func(t *testing.T) {
		inBubble(t, fails(errors.New("not a PDF")), func(_ *testing.T, r *rig) {
			r.refuseLetters()
			r.q.add("j")
			r.after(time.Second)
			r.stops(10 * time.Second)
			r.wantTold("nack j")
			r.wantStatus("j", "failed 0%: not a PDF")
		})
	})
	t.Run("until the lease ends is neither acked nor handed back", func(t *testing.T) {
		inBubble(t, fails(errors.New("not a PDF")), func(_ *testing.T, r *rig) {
			r.worker.SettleTimeout = time.Hour
			r.refuseLetters()
			r.q.deaf = true
			r.q.add("j")
			r.after(9*time.Minute + 55*time.Second)
			r.wantTold("")
			r.after(time.Minute)
			r.wantTold("")
			if waiting, leased := r.q.Len(); waiting != 1 || leased != 0 {
				t.Errorf("%d messages wait and %d are leased, want the one to wait again", waiting, leased)
			}
		})
	})
}

func TestF13RedeliveryOfAFailedJobIsBuriedAgain(t *testing.T) {
	inBubble(t, fails(errors.New("not a PDF")), func(t *testing.T, r *rig) {
		g := r.withDeadLetters()
		r.start()
		r.after(5 * time.Second)
		r.q.add("j")
		r.after(5 * time.Second)
		r.wantTold("dead-letter j, ack j, dead-letter j, ack j")
		if len(g.added) != 2 || g.added[1].Reason != "not a PDF" {
			t.Errorf("dead letters %+v, want the same twice", g.added)
		}
	}, "j")
}

func TestF04MessageThatNamesNoJobIsLoggedBuriedAndAcked(t *testing.T) {
	noise := func(r *rig) {
		r.q.replace(memory.Message{Invalid: errors.New("malformed message: no job_id"), Data: []byte("noise")})
		r.q.add("j")
	}
	for _, keeps := range []bool{true, false} {
		t.Run(fmt.Sprintf("dead letters: %t", keeps), func(t *testing.T) {
			inBubble(t, takes(time.Second), func(t *testing.T, r *rig) {
				noise(r)
				want := "ack , ack j"
				g := &deadLetters{}
				if keeps {
					g = r.withDeadLetters()
					want = "dead-letter , ack , ack j"
				}
				r.start()
				r.after(5 * time.Second)
				r.wantTold(want)
				if keeps && (len(g.added) != 1 || g.added[0].Reason != "malformed message: no job_id" || g.added[0].At.IsZero()) {
					t.Errorf("dead letters %+v, want one that says why", g.added)
				}
				if n := strings.Count(r.log.String(), `level=ERROR msg="message names no job" message_id=m1 bytes=5`); n != 1 {
					t.Errorf("%d log lines of it, want 1:\n%s", n, r.log)
				}
				if got := counted(t, r.worker.Metrics, "batchfleet_messages_malformed_total"); got != 1 {
					t.Errorf("%v counted, want 1", got)
				}
			}, "j")
		})
	}
	t.Run("is handed back while it cannot be dead-lettered", func(t *testing.T) {
		inBubble(t, takes(time.Second), func(_ *testing.T, r *rig) {
			g := r.refuseLetters()
			r.q.Add(memory.Message{Invalid: errors.New("malformed message")})
			r.after(11 * time.Minute)
			r.wantTold("nack ")
			g.refuse(nil)
			r.after(2 * time.Minute)
			r.wantTold("nack , dead-letter , ack ")
		})
	})
}

func TestF64DeadLettersAreCounted(t *testing.T) {
	inBubble(t, fails(errors.New("not a PDF")), func(t *testing.T, r *rig) {
		g := r.refuseLetters()
		r.q.add("j")
		r.after(3 * time.Second)
		g.refuse(nil)
		r.after(time.Minute)
		m := r.worker.Metrics
		if got, retries := counted(t, m, "batchfleet_dead_letters_total"), counted(t, m, "batchfleet_dead_letter_retries_total"); got != 1 || int(retries) != g.tries-1 || retries == 0 {
			t.Errorf("%v dead letters and %v retries counted, want 1 and %d", got, retries, g.tries-1)
		}
		if got := counted(t, m, "batchfleet_jobs_total"); got != 1 {
			t.Errorf("%v jobs counted, want 1", got)
		}
	})
}

// counted returns the sum of a counter over its labels.
func counted(t *testing.T, m *Metrics, name string) (sum float64) {
	t.Helper()
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == name })
	if i < 0 {
		return 0 // no label of it was ever used
	}
	for _, c := range families[i].GetMetric() {
		sum += c.GetCounter().GetValue()
	}
	return sum
}
