package emulator

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
)

// ordered runs f on a queue of an ordered subscription in virtual time.
func ordered(t *testing.T, pb *pubsubpb.Subscription, f func(t *testing.T, b *broker, q *queue)) {
	t.Helper()
	pb.EnableMessageOrdering = true
	bubble(t, pb, func(t *testing.T, b *broker) {
		t.Helper()
		f(t, b, queueOf(t, b, testSub))
	})
}

// wantFor polls for one puller and compares what it is handed.
func wantFor(t *testing.T, q *queue, w *waiter, texts ...string) []delivery {
	t.Helper()
	ds, err := q.poll(w)
	must(t, err)
	wantData(t, dataOf(ds), texts...)
	return ds
}

func TestE08SeveralMessagesOfAKeyAreOutAtOnceInOrder(t *testing.T) {
	ordered(t, &pubsubpb.Subscription{}, func(t *testing.T, b *broker, q *queue) {
		send(t, b, "a/1", "a/2", "b/1", "free", "a/3", "b/2")
		ds := want(t, q, "a/1", "a/2", "b/1", "free", "a/3", "b/2")
		q.acknowledge(numbersOf(ds))
		if s := q.stats(); s.Leased+s.Undelivered != 0 || s.Acked != 6 || len(q.lanes) != 0 {
			t.Errorf("left %+v and %d lanes", s, len(q.lanes))
		}
	})
}

func TestE08MessageThatComesBackTakesAllAfterItBack(t *testing.T) {
	tests := []struct {
		name string
		end  func(q *queue, ds []delivery) // of the lease of a/2, of a/1, a/2, a/3, a/4
		want []string
	}{
		{"nacked", func(q *queue, ds []delivery) { q.extend(numbersOf(ds[1:2]), 0) }, []string{"a/2", "a/3", "a/4"}},
		{"expired", func(q *queue, ds []delivery) {
			q.extend(numbersOf(ds), time.Minute)
			q.extend(numbersOf(ds[1:2]), time.Second)
			time.Sleep(time.Second)
		}, []string{"a/2", "a/3", "a/4"}},
		{"never arrived", func(q *queue, ds []delivery) { q.undeliver(ds[1:2]) }, []string{"a/2", "a/3", "a/4"}},
		{"nacked after the last was acknowledged", func(q *queue, ds []delivery) {
			q.acknowledge(numbersOf(ds[3:]))
			q.extend(numbersOf(ds[1:2]), 0)
		}, []string{"a/2", "a/3", "a/4"}},
		{"nacked after the first was acknowledged", func(q *queue, ds []delivery) {
			q.acknowledge(numbersOf(ds[:1]))
			q.extend(numbersOf(ds[1:2]), 0)
		}, []string{"a/2", "a/3", "a/4"}},
		{"nacked and acknowledged too late", func(q *queue, ds []delivery) {
			q.extend(numbersOf(ds[1:2]), 0)
			q.acknowledge(numbersOf(ds[1:]))
		}, []string{"a/2", "a/3", "a/4"}},
		{"all acknowledged, the last first", func(q *queue, ds []delivery) {
			for _, d := range slices.Backward(ds) {
				q.acknowledge([]uint64{d.number})
			}
		}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ordered(t, &pubsubpb.Subscription{}, func(t *testing.T, b *broker, q *queue) {
				send(t, b, "a/1", "a/2", "a/3", "a/4")
				w := newWaiter(10, here)
				ds := wantFor(t, q, w, "a/1", "a/2", "a/3", "a/4")
				tt.end(q, ds)
				q.acknowledge(numbersOf(wantFor(t, q, w, tt.want...)))
				q.acknowledge(numbersOf(ds[:1]))
				if s := q.stats(); s.Undelivered+s.Leased != 0 {
					t.Errorf("left %+v", s)
				}
			})
		})
	}
}

func TestE08KeyStaysWithThePullerThatHasMessagesOfIt(t *testing.T) {
	ordered(t, &pubsubpb.Subscription{}, func(t *testing.T, b *broker, q *queue) {
		stream, other := newWaiter(1, here), newWaiter(10, here)
		send(t, b, "a/1", "a/2", "b/1")
		first := wantFor(t, q, stream, "a/1")
		wantFor(t, q, other, "b/1") // not a/2
		second := wantFor(t, q, stream, "a/2")
		q.acknowledge(numbersOf(first))
		send(t, b, "a/3")
		wantFor(t, q, other) // a/2 is still out
		if _, err := q.pullOrWait(other); err != nil {
			t.Fatal(err)
		}
		q.acknowledge(numbersOf(second)) // frees the key, for one who waits
		wantData(t, dataOf(<-other.got), "a/3")
		wantFor(t, q, stream)
	})
}

func TestE08WaitingPullerIsHandedTheNextOfItsKey(t *testing.T) {
	ordered(t, &pubsubpb.Subscription{}, func(t *testing.T, b *broker, q *queue) {
		stream, other := newWaiter(10, here), newWaiter(10, here)
		stream.flow = &flow{maxCount: 2}
		send(t, b, "a/1")
		first := wantFor(t, q, stream, "a/1")
		for _, w := range []*waiter{other, stream} {
			if _, err := q.pullOrWait(w); err != nil {
				t.Fatal(err)
			}
		}
		send(t, b, "a/2", "a/3") // the other one waits for longer
		wantData(t, dataOf(<-stream.got), "a/2")
		if _, err := q.pullOrWait(stream); err != nil { // without credit
			t.Fatal(err)
		}
		q.acknowledge(numbersOf(first))
		wantData(t, dataOf(<-stream.got), "a/3")
		q.cancelWait(other)
	})
}

// A batch that is handed back message by message, or expires, has been
// delivered and has failed once, each of it.
func TestE08EachMessageOfAFailedBatchHasFailedOnce(t *testing.T) {
	dead := &pubsubpb.DeadLetterPolicy{DeadLetterTopic: testTopic, MaxDeliveryAttempts: 100}
	ends := map[string]func(q *queue, ds []delivery){
		"nacked":  func(q *queue, ds []delivery) { q.extend(numbersOf(ds), 0) },
		"expired": func(*queue, []delivery) { time.Sleep(10 * time.Second) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			ordered(t, &pubsubpb.Subscription{DeadLetterPolicy: dead}, func(t *testing.T, b *broker, q *queue) {
				send(t, b, "a/1", "a/2", "a/3")
				ds := want(t, q, "a/1", "a/2", "a/3")
				end(q, ds)
				for _, d := range want(t, q, "a/1", "a/2", "a/3") {
					if d.attempt != 2 {
						t.Errorf("%s comes as attempt %d, want 2", d.msg.pb.GetData(), d.attempt)
					}
				}
				if s := q.stats(); s.Nacked+s.Expired != 3 || s.Redelivered != 3 {
					t.Errorf("counted %d nacked, %d expired, %d redelivered, want 3", s.Nacked, s.Expired, s.Redelivered)
				}
			})
		})
	}
}

func TestE08DeadLettersOfAKeyKeepTheirOrder(t *testing.T) {
	const dead = "projects/test/topics/dead-of-keys"
	ends := map[string]func(q *queue, ds []delivery){
		"nacked":  func(q *queue, ds []delivery) { q.extend(numbersOf(ds), 0) },
		"expired": func(*queue, []delivery) { time.Sleep(10 * time.Second) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			ordered(t, &pubsubpb.Subscription{}, func(t *testing.T, b *broker, _ *queue) {
				must(t, b.createTopic(&pubsubpb.Topic{Name: dead}))
				addSub(t, b, "projects/test/subscriptions/dead-of-keys", dead, &pubsubpb.Subscription{EnableMessageOrdering: true})
				addSub(t, b, "projects/test/subscriptions/keys", testTopic, &pubsubpb.Subscription{
					EnableMessageOrdering: true,
					DeadLetterPolicy:      &pubsubpb.DeadLetterPolicy{DeadLetterTopic: dead, MaxDeliveryAttempts: 5},
				})
				q := queueOf(t, b, "projects/test/subscriptions/keys")
				send(t, b, "a/1", "a/2", "a/3")
				for range 5 {
					end(q, want(t, q, "a/1", "a/2", "a/3"))
				}
				want(t, q)
				synctest.Wait()
				want(t, queueOf(t, b, "projects/test/subscriptions/dead-of-keys"), "a/1", "a/2", "a/3")
			})
		})
	}
}

func TestE08MessagesWithoutAKeyComeBackInOrder(t *testing.T) {
	ordered(t, &pubsubpb.Subscription{}, func(t *testing.T, b *broker, q *queue) {
		send(t, b, "1", "2", "a/1", "3", "a/2")
		q.extend(numbersOf(want(t, q, "1", "2", "a/1", "3", "a/2")), 0)
		want(t, q, "1", "2", "3", "a/1", "a/2")
	})
}

// A message that only comes again because one before it did has not failed.
func TestE08MessageTakenBackWithAnotherHasNotFailed(t *testing.T) {
	dead := &pubsubpb.DeadLetterPolicy{DeadLetterTopic: testTopic, MaxDeliveryAttempts: 100}
	ordered(t, &pubsubpb.Subscription{DeadLetterPolicy: dead}, func(t *testing.T, b *broker, q *queue) {
		send(t, b, "a/1", "a/2")
		for attempt := range int32(4) {
			ds := want(t, q, "a/1", "a/2")
			if ds[0].attempt != attempt+1 || ds[1].attempt != 1 {
				t.Fatalf("attempts %d and %d, want %d and 1", ds[0].attempt, ds[1].attempt, attempt+1)
			}
			q.extend(numbersOf(ds[:1]), 0)
		}
		if s := q.stats(); s.Redelivered != 6 {
			t.Errorf("%d counted as redelivered, want 6", s.Redelivered)
		}
	})
}

func TestE08AckBeforeItsTurnIsRefusedWhereDeliveryIsExactlyOnce(t *testing.T) {
	ordered(t, &pubsubpb.Subscription{EnableExactlyOnceDelivery: true}, func(t *testing.T, b *broker, q *queue) {
		send(t, b, "a/1", "a/2", "a/3")
		ds := want(t, q, "a/1", "a/2", "a/3")
		ids := []string{q.ackID(ds[2].number), q.ackID(ds[1].number), q.ackID(ds[0].number)}
		service := subscriber{broker: b}
		ack := func(ids []string) error {
			_, err := service.Acknowledge(context.Background(), &pubsubpb.AcknowledgeRequest{Subscription: testSub, AckIds: ids})
			return err
		}
		if got := failures(t, ack(ids[:2])); len(got) != 2 || got[ids[0]] != earlyReason || got[ids[1]] != earlyReason {
			t.Errorf("acks before their turn: %v", got)
		}
		must(t, ack(ids)) // all in one request, in any order
		if s := q.stats(); s.Leased+s.Undelivered != 0 {
			t.Errorf("left %+v", s)
		}
	})
}

// failures returns what an error says of each ack id.
func failures(t *testing.T, err error) map[string]string {
	t.Helper()
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetMetadata()
		}
	}
	t.Fatalf("error %v has no detail", err)
	return nil
}

// What is out of a key, and what of it is acknowledged early, must survive a
// restart; a lease that ended meanwhile takes those behind it back.
func TestE08KeysSurviveARestart(t *testing.T) {
	tests := []struct {
		name string
		away time.Duration
		want []string
	}{
		{"within the leases", 4 * time.Second, nil},
		{"longer than one of them", 6 * time.Second, []string{"a/2", "a/3", "a/4"}},
		{"longer than all of them", 11 * time.Second, []string{"a/1", "a/2", "a/3", "a/4"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				s := open(t, dir)
				must(t, s.broker.createTopic(&pubsubpb.Topic{Name: testTopic}))
				addSub(t, s.broker, testSub, testTopic, &pubsubpb.Subscription{EnableMessageOrdering: true})
				q := queueOf(t, s.broker, testSub)
				send(t, s.broker, "a/1", "a/2", "a/3", "a/4")
				ds := want(t, q, "a/1", "a/2", "a/3", "a/4")
				q.extend(numbersOf(ds[1:2]), 5*time.Second)
				q.acknowledge(numbersOf(ds[3:]))
				must(t, s.Close())
				time.Sleep(tt.away)

				s = open(t, dir)
				defer func() { must(t, s.Close()) }()
				q = queueOf(t, s.broker, testSub)
				if tt.want == nil || tt.want[0] != "a/1" {
					want(t, q) // a/1 is out to someone else
					q.acknowledge(numbersOf(ds[:1]))
				}
				if tt.want == nil {
					q.acknowledge(numbersOf(ds[1:3]))
				}
				q.acknowledge(numbersOf(want(t, q, tt.want...)))
				if st := q.stats(); st.Undelivered+st.Leased != 0 {
					t.Errorf("left %+v", st)
				}
			})
		})
	}
}
