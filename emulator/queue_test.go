package emulator

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

func testQueue() *queue {
	return newQueue(time.Now(), settings{lease: 10 * time.Second, retention: defaultRetention})
}

// put publishes one message with the given data.
func put(q *queue, data string) {
	m := &pubsubpb.PubsubMessage{Data: []byte(data)}
	putMessage(q, m)
}

// lastID is the id of the message published last, to whatever queue.
var lastID atomic.Uint64

func putMessage(q *queue, m *pubsubpb.PubsubMessage) {
	q.publish([]*message{{pb: m, id: lastID.Add(1), size: messageSize(m), at: time.Since(q.epoch)}})
}

// here is the ctxErr of a puller that stays.
func here() error { return nil }

// takeNow polls for up to most messages and returns their data and deliveries.
func takeNow(t *testing.T, q *queue, most int) ([]string, []delivery) {
	t.Helper()
	got, err := q.poll(newWaiter(most, here))
	if err != nil {
		t.Fatalf("poll: %v", err)
	}
	return dataOf(got), got
}

func dataOf(ds []delivery) []string {
	var data []string
	for _, d := range ds {
		data = append(data, string(d.msg.pb.GetData()))
	}
	return data
}

func numbersOf(ds []delivery) []uint64 {
	var ns []uint64
	for _, d := range ds {
		ns = append(ns, d.number)
	}
	return ns
}

func wantData(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got messages %q, want %q", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("got messages %q, want %q", got, want)
		}
	}
}

func TestE04LeaseEndsExactlyAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue()
		put(q, "a")
		got, _ := takeNow(t, q, 1)
		wantData(t, got, "a")

		time.Sleep(10*time.Second - time.Nanosecond)
		got, _ = takeNow(t, q, 1)
		wantData(t, got)
		time.Sleep(time.Nanosecond)
		got, _ = takeNow(t, q, 1)
		wantData(t, got, "a")
	})
}

func TestE04BlockedPullGetsAnExpiredMessageAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue()
		put(q, "a")
		takeNow(t, q, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		got, err := q.pull(ctx, newWaiter(1, here))
		must(t, err)
		wantData(t, dataOf(got), "a")
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("redelivered after %v, want exactly 10s", took)
		}
	})
}

func TestE04ModackMovesTheEndOfTheLease(t *testing.T) {
	tests := []struct {
		name   string
		extend time.Duration
		want   time.Duration // from the extension to the redelivery
	}{
		{"longer", 600 * time.Second, 600 * time.Second},
		{"shorter", time.Second, time.Second},
		{"zero hands the message back at once", 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := testQueue()
				put(q, "a")
				_, ds := takeNow(t, q, 1)
				time.Sleep(5 * time.Second)
				q.extend(numbersOf(ds), tt.extend)
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				for {
					got, err := q.pull(ctx, newWaiter(1, here))
					must(t, err)
					if len(got) > 0 {
						break
					}
				}
				if s := q.stats(); (s.Nacked == 1) != (tt.extend == 0) {
					t.Errorf("%d messages counted as handed back", s.Nacked)
				}
				if took := time.Since(start); took != tt.want {
					t.Errorf("redelivered %v after the extension, want %v", took, tt.want)
				}
			})
		})
	}
}

func TestE04AckedMessageNeverComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue()
		put(q, "a")
		_, ds := takeNow(t, q, 1)
		q.acknowledge(numbersOf(ds))
		time.Sleep(time.Hour)
		got, _ := takeNow(t, q, 1)
		wantData(t, got)
		if s := q.stats(); s.Undelivered+s.Leased != 0 || s.Acked != 1 {
			t.Errorf("stats %+v, want an empty queue and 1 ack", s)
		}
	})
}

func TestE03StaleAckDoesNotTouchTheNextDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue()
		put(q, "a")
		_, first := takeNow(t, q, 1)
		time.Sleep(10 * time.Second)
		_, second := takeNow(t, q, 1)
		if q.ackID(first[0].number) == q.ackID(second[0].number) {
			t.Fatal("two deliveries share an ack id")
		}
		q.acknowledge(numbersOf(first))
		q.extend(numbersOf(first), 0)
		if s := q.stats(); s.Leased != 1 {
			t.Errorf("%d leased after stale acks, want 1", s.Leased)
		}
	})
}

func TestE04DeliveriesAreCountedPerMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue()
		put(q, "a")
		for range 3 {
			takeNow(t, q, 1)
			time.Sleep(10 * time.Second)
		}
		_, ds := takeNow(t, q, 1)
		if n := q.outstanding[ds[0].number].deliveries; n != 4 {
			t.Errorf("%d deliveries counted, want 4", n)
		}
		q.undeliver(ds)
		if n := q.next(newWaiter(1, here)).deliveries; n != 3 {
			t.Errorf("%d deliveries counted after giving one back, want 3", n)
		}
	})
}

func TestMessagesComeInPublishOrderReturnedOnesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue()
		for _, data := range []string{"a", "b", "c", "d"} {
			put(q, data)
		}
		_, ds := takeNow(t, q, 2)
		q.undeliver(ds)
		got, ds := takeNow(t, q, 3)
		wantData(t, got, "a", "b", "c")
		q.extend(numbersOf(ds[1:2]), 0)
		got, _ = takeNow(t, q, 10)
		wantData(t, got, "b", "d")
	})
}

func TestBatchThatIsHandedBackComesInOrder(t *testing.T) {
	q := testQueue()
	for _, data := range []string{"a", "b", "c", "d"} {
		put(q, data)
	}
	_, ds := takeNow(t, q, 3)
	q.extend(numbersOf(ds), 0)
	got, _ := takeNow(t, q, 10)
	wantData(t, got, "a", "b", "c", "d")
}

func TestE03StreamThatLeftWithoutCreditWaitsNoMore(t *testing.T) {
	q := testQueue()
	put(q, "a")
	w := newWaiter(1, here)
	w.flow = &flow{maxCount: 1}
	got, err := q.pullOrWait(w)
	must(t, err)
	wantData(t, dataOf(got), "a")
	if again, err := q.pullOrWait(w); again != nil || err != nil {
		t.Fatalf("got %q, %v beyond the credit", dataOf(again), err)
	}
	q.cancelWait(w)
	q.acknowledge(numbersOf(got))
	if s := q.stats(); s.WaitingPulls != 0 {
		t.Errorf("%d pulls wait, want none", s.WaitingPulls)
	}
}

func TestRetentionDropsOldMessagesEvenWhileLeased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(time.Now(), settings{lease: 600 * time.Second, retention: minRetention})
		put(q, "old")
		put(q, "leased")
		time.Sleep(time.Minute)
		takeNow(t, q, 1)
		put(q, "young")
		time.Sleep(minRetention - time.Minute)
		if s := q.stats(); s.Undelivered != 1 || s.Leased != 0 || s.Dropped != 2 {
			t.Errorf("stats %+v, want only the young message", s)
		}
		q.mu.Lock()
		n := len(q.outstanding)
		q.mu.Unlock()
		if n != 0 {
			t.Errorf("%d deliveries held, want none", n)
		}
	})
}

func TestRetentionFreesMemoryWithoutAnyCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(time.Now(), settings{lease: 10 * time.Second, retention: minRetention})
		put(q, "a")
		time.Sleep(minRetention)
		synctest.Wait()
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.order.n != 0 {
			t.Error("message kept past its retention until somebody asks")
		}
	})
}

func TestE05EachPublishedMessageWakesOneBlockedPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue()
		waiters := make([]*waiter, 3)
		for i := range waiters {
			waiters[i] = newWaiter(10, here)
			if got, err := q.pullOrWait(waiters[i]); got != nil || err != nil {
				t.Fatalf("ask: %v, %v", got, err)
			}
		}
		put(q, "a")
		put(q, "b")
		wantData(t, dataOf(<-waiters[0].got), "a")
		wantData(t, dataOf(<-waiters[1].got), "b")
		if len(waiters[2].got) != 0 || q.stats().WaitingPulls != 1 {
			t.Error("the third pull was woken for nothing")
		}
	})
}

func TestE05BatchIsSharedAmongBlockedPulls(t *testing.T) {
	q := testQueue()
	a, b := newWaiter(10, here), newWaiter(10, here)
	for _, w := range []*waiter{a, b} {
		if _, err := q.pullOrWait(w); err != nil {
			t.Fatal(err)
		}
	}
	var batch []*message
	for range 5 {
		batch = append(batch, &message{pb: &pubsubpb.PubsubMessage{}})
	}
	q.publish(batch)
	if na, nb := len(<-a.got), len(<-b.got); na != 3 || nb != 2 {
		t.Errorf("pulls got %d and %d of 5 messages, want 3 and 2", na, nb)
	}
}

func TestPullOfAClientThatLeftTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue()
		ctx, cancel := context.WithCancel(t.Context())
		w := newWaiter(1, ctx.Err)
		if _, err := q.pullOrWait(w); err != nil {
			t.Fatal(err)
		}
		cancel()
		put(q, "a") // before the puller noticed
		if s := q.stats(); s.Undelivered != 1 || s.Delivered != 0 {
			t.Errorf("stats %+v, want the message still there", s)
		}
		if got, err := q.pull(ctx, newWaiter(1, ctx.Err)); !errors.Is(err, context.Canceled) {
			t.Errorf("pull by a client that left: %v, %v", got, err)
		}
	})
}

func TestWithdrawnHandOverGoesBackUncounted(t *testing.T) {
	q := testQueue()
	w := newWaiter(1, here)
	if _, err := q.pullOrWait(w); err != nil {
		t.Fatal(err)
	}
	put(q, "a") // delivered to the waiter
	q.cancelWait(w)
	if s := q.stats(); s.Undelivered != 1 || s.Leased != 0 || s.Delivered != 0 {
		t.Errorf("stats %+v, want the message back", s)
	}
}

func TestE03FlowControlBoundsWhatIsOutstanding(t *testing.T) {
	tests := []struct {
		name string
		flow flow
		want [][]string // hand-overs, one ack of the oldest between them
	}{
		{"by count", flow{maxCount: 2}, [][]string{{"aaaa", "bbbb"}, {"cc"}, {"dddddddddd"}}},
		{"by bytes", flow{maxBytes: 8}, [][]string{{"aaaa", "bbbb"}, {"cc"}, nil, {"dddddddddd"}}},
		{"without limits", flow{}, [][]string{{"aaaa", "bbbb", "cc", "dddddddddd"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := testQueue()
			for _, data := range []string{"aaaa", "bbbb", "cc", "dddddddddd"} {
				put(q, data)
			}
			w := newWaiter(10, here)
			w.flow = &tt.flow
			var outstanding []delivery
			got, err := q.pullOrWait(w)
			for i, want := range tt.want {
				must(t, err)
				wantData(t, dataOf(got), want...)
				outstanding = append(outstanding, got...)
				if i == len(tt.want)-1 {
					break
				}
				if got != nil {
					if again, _ := q.pullOrWait(w); again != nil {
						t.Fatalf("got %q beyond the credit", dataOf(again))
					}
				}
				q.acknowledge(numbersOf(outstanding[:1]))
				outstanding = outstanding[1:]
				got = nil
				select {
				case got = <-w.got:
				default:
				}
			}
		})
	}
}

func TestClosedQueueEndsEveryWait(t *testing.T) {
	q := testQueue()
	put(q, "a")
	held := newWaiter(1, here)
	held.flow = &flow{maxCount: 1}
	waiting, parked := newWaiter(1, here), held
	if got, _ := q.pullOrWait(held); len(got) != 1 {
		t.Fatal("no message")
	}
	for _, w := range []*waiter{waiting, parked} {
		if _, err := q.pullOrWait(w); err != nil {
			t.Fatal(err)
		}
	}
	q.close(errStopped)
	for _, w := range []*waiter{waiting, parked} {
		if _, open := <-w.got; open {
			t.Error("a waiter got something from a closed queue")
		}
	}
	if _, err := q.pullOrWait(newWaiter(1, here)); !errors.Is(err, errStopped) {
		t.Errorf("ask: %v", err)
	}
	put(q, "late")
	if s := q.stats(); s.Undelivered+s.Leased != 0 {
		t.Errorf("closed queue holds %+v", s)
	}
}

func TestE09IdlePullEndsEmptyBeforeTheClientGivesUp(t *testing.T) {
	tests := []struct {
		name          string
		timeout, want time.Duration
	}{
		{"no deadline", 0, 10 * time.Second},
		{"far deadline", 10 * time.Minute, maxIdlePull},
		{"deadline", time.Minute, 54 * time.Second},
		{"near deadline", 500 * time.Millisecond, 400 * time.Millisecond},
		{"very near deadline", 10 * time.Millisecond, 5 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tt.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.timeout)
					defer cancel()
				}
				start := time.Now()
				got, err := testQueue().pull(ctx, newWaiter(1, ctx.Err))
				if took := time.Since(start); got != nil || err != nil || took != tt.want {
					t.Errorf("pull: %v, %v after %v, want nothing after %v", got, err, took, tt.want)
				}
			})
		})
	}
}

func TestClientWithTooShortADeadlineTakesNothing(t *testing.T) {
	tests := []struct {
		name string
		left time.Duration
		gone bool
	}{
		{"nearly over", 999 * time.Microsecond, true},
		{"enough", time.Millisecond, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.left)
				defer cancel()
				q := testQueue()
				put(q, "a")
				got, err := q.poll(newWaiter(1, clientLeaving(ctx)))
				if err != nil || (got == nil) != tt.gone {
					t.Errorf("pull with %v left: %v, %v", tt.left, got, err)
				}
			})
		})
	}
}

func TestE04HandedBackMessagesDoNotStarveTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue()
		for _, data := range []string{"poison", "venom", "a", "b", "c"} {
			put(q, data)
		}
		seen := map[string]bool{}
		for range 100 {
			got, ds := takeNow(t, q, 1)
			seen[got[0]] = true
			if got[0] == "poison" || got[0] == "venom" {
				q.extend(numbersOf(ds), 0)
			} else {
				q.acknowledge(numbersOf(ds))
			}
		}
		if len(seen) != 5 {
			t.Errorf("in 100 deliveries only %v were seen", seen)
		}
	})
}
