package emulator

import (
	"fmt"
	"log/slog"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"
)

// dump writes down all that must survive a restart.
func dump(b *broker) string {
	var lines []string
	for _, sub := range b.allSubscriptions() {
		q := sub.queue
		q.stats() // settles what is due
		q.mu.Lock()
		lines = append(lines, fmt.Sprintf("%v\n  instance %x last %d since %v", sub.pb, q.instance, q.lastDelivery, q.lastSeek))
		for it := range q.order.all {
			line := fmt.Sprintf("  %s %s %d", it.msg.pb.GetMessageId(), it.msg.pb.GetData(), it.deliveries)
			switch it.state {
			case leased:
				line += fmt.Sprintf(" leased %d until %v", it.ack, it.due)
			case delayed:
				line += fmt.Sprintf(" delayed until %v", it.due)
			case ackedEarly:
				line += fmt.Sprintf(" acknowledged early %d", it.ack)
			case available, blocked, deadLettering, acked, removed:
			}
			lines = append(lines, line)
		}
		var kept []string
		for it := range q.ackedItems.all {
			if q.retentionEnd(it) > time.Since(q.epoch) {
				kept = append(kept, fmt.Sprintf("  kept %s", it.msg.pb.GetData()))
			}
		}
		slices.Sort(kept)
		lines = append(lines, kept...)
		q.mu.Unlock()
	}
	for _, pb := range b.allTopics() {
		t, _, _ := b.topicFor(pb.GetName())
		lines = append(lines, fmt.Sprintf("%v retains", pb))
		t.retained(func(log []*message) {
			lines[len(lines)-1] += joined(log)
		})
	}
	for _, pb := range listSchemas(b.schemas) {
		lines = append(lines, fmt.Sprint(pb))
	}
	for _, snap := range b.snapshots {
		lines = append(lines, fmt.Sprintf("%v holds%s", snap.pb, joined(snap.msgs)))
	}
	// The text form of a message of the API varies its white space on purpose.
	text := strings.ReplaceAll(strings.Join(lines, "\n"), "  ", " ")
	all := strings.Split(text, "\n")
	return strings.Join(all, "\n")
}

// joined lists the data of messages. A test may have a hundred thousand.
func joined(msgs []*message) string {
	var all strings.Builder
	for _, m := range msgs {
		fmt.Fprintf(&all, " %s", m.pb.GetData())
	}
	return all.String()
}

func open(t rapid.TB, dir string) *Server {
	t.Helper()
	s, err := Open(Config{Log: slog.New(slog.DiscardHandler)}, dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sorted(text string) string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// A restarted server must be where the one before it was, whatever was done
// and wherever a checkpoint came between.
func TestE06StateSurvivesARestartWhateverWasDone(t *testing.T) {
	const otherSub, deadTopic = "projects/test/subscriptions/other", "projects/test/topics/dead"
	root := t.TempDir()
	runs := 0
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(struct{ rapid.TB }{t}, func(rt *rapid.T) {
			check := func(err error) {
				rt.Helper()
				if err != nil {
					rt.Fatal(err)
				}
			}
			runs++
			dir := filepath.Join(root, fmt.Sprint(runs))
			s := open(rt, dir)
			defer func() { check(s.Close()) }()
			b := func() *broker { return s.broker }
			topic := &pubsubpb.Topic{Name: testTopic}
			if rapid.Bool().Draw(rt, "topic retains") {
				topic.MessageRetentionDuration = durationpb.New(minRetention)
			}
			check(b().createTopic(topic))
			check(b().createTopic(&pubsubpb.Topic{Name: deadTopic}))
			for _, name := range []string{testSub, otherSub} {
				pb := &pubsubpb.Subscription{
					Name: name, Topic: testTopic,
					MessageRetentionDuration: durationpb.New(minRetention),
					RetainAckedMessages:      rapid.Bool().Draw(rt, "keep"),
					EnableMessageOrdering:    rapid.Bool().Draw(rt, "ordered"),
				}
				if rapid.Bool().Draw(rt, "retry") {
					pb.RetryPolicy = &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(time.Second), MaximumBackoff: durationpb.New(2 * time.Second)}
				}
				if rapid.Bool().Draw(rt, "dead letters") {
					pb.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: deadTopic}
				}
				check(setSubscriptionDefaults(pb))
				check(b().createSubscription(pb))
			}
			published := 0
			names := []string{testSub, otherSub}
			pick := func(rt *rapid.T) *queue {
				sub, err := b().subscriptionFor(rapid.SampledFrom(names).Draw(rt, "subscription"))
				check(err)
				return sub.queue
			}
			numbers := func(rt *rapid.T, q *queue) []uint64 {
				return rapid.SliceOfN(rapid.Uint64Range(1, q.lastDelivery+1), 1, 4).Draw(rt, "numbers")
			}
			restart := func(rt *rapid.T) {
				synctest.Wait() // for dead letters on their way
				before := sorted(dump(b()))
				check(s.Close())
				s = open(rt, dir)
				synctest.Wait()
				if after := sorted(dump(b())); after != before {
					rt.Fatalf("before the restart:\n%s\nafter:\n%s", before, after)
				}
			}
			rt.Repeat(map[string]func(*rapid.T){
				"publish": func(rt *rapid.T) {
					var msgs []*pubsubpb.PubsubMessage
					for range rapid.IntRange(1, 4).Draw(rt, "n") {
						published++
						key := rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "key")
						msgs = append(msgs, &pubsubpb.PubsubMessage{Data: fmt.Append(nil, published), OrderingKey: key})
					}
					to, _, err := b().topicFor(testTopic)
					check(err)
					_, err = b().publish(to, msgs)
					check(err)
				},
				"pull": func(rt *rapid.T) {
					ds, err := pick(rt).poll(newWaiter(rapid.IntRange(1, 5).Draw(rt, "most"), here))
					check(err)
					_ = ds
				},
				"give back": func(rt *rapid.T) {
					q := pick(rt)
					ds, err := q.poll(newWaiter(2, here))
					check(err)
					q.undeliver(ds)
				},
				"ack": func(rt *rapid.T) { q := pick(rt); q.acknowledge(numbers(rt, q)) },
				"nack": func(rt *rapid.T) {
					q := pick(rt)
					for range rapid.IntRange(1, 6).Draw(rt, "times") { // 5 are the last
						ds, err := q.poll(newWaiter(2, here))
						check(err)
						q.extend(numbersOf(ds), 0)
						time.Sleep(time.Duration(rapid.IntRange(0, 2).Draw(rt, "seconds")) * time.Second)
					}
				},
				"extend": func(rt *rapid.T) {
					q := pick(rt)
					q.extend(numbers(rt, q), time.Duration(rapid.IntRange(1, 60).Draw(rt, "seconds"))*time.Second)
				},
				"seek": func(rt *rapid.T) {
					ago := time.Duration(rapid.IntRange(-1, 600).Draw(rt, "seconds ago")) * time.Second
					check(b().seek(&pubsubpb.SeekRequest{
						Subscription: rapid.SampledFrom(names).Draw(rt, "subscription"),
						Target:       &pubsubpb.SeekRequest_Time{Time: timestamppb.New(time.Now().Add(-ago))},
					}))
				},
				"snapshot": func(rt *rapid.T) {
					if _, err := b().snapshotFor(testSnapshot); err == nil {
						check(b().seek(&pubsubpb.SeekRequest{
							Subscription: rapid.SampledFrom(names).Draw(rt, "subscription"),
							Target:       &pubsubpb.SeekRequest_Snapshot{Snapshot: testSnapshot},
						}))
						if rapid.Bool().Draw(rt, "delete") {
							check(b().deleteSnapshot(testSnapshot))
						}
						return
					}
					check(b().createSnapshot(&pubsubpb.Snapshot{Name: testSnapshot}, rapid.SampledFrom(names).Draw(rt, "subscription")))
				},
				"keep": func(rt *rapid.T) {
					_, err := b().updateSubscription(testSub, func(pb *pubsubpb.Subscription) error {
						pb.RetainAckedMessages = !pb.GetRetainAckedMessages()
						return nil
					})
					check(err)
				},
				"retention": func(rt *rapid.T) {
					d := durationpb.New(time.Duration(rapid.IntRange(10, 30).Draw(rt, "minutes")) * time.Minute)
					_, err := b().updateSubscription(rapid.SampledFrom(names).Draw(rt, "subscription"), func(pb *pubsubpb.Subscription) error {
						pb.MessageRetentionDuration = d
						return nil
					})
					check(err)
					_, err = b().updateTopic(testTopic, func(pb *pubsubpb.Topic) error {
						pb.MessageRetentionDuration = d
						return nil
					})
					check(err)
				},
				"time": func(rt *rapid.T) {
					time.Sleep(time.Duration(rapid.IntRange(1, 300).Draw(rt, "seconds")) * time.Second)
				},
				"schema": func(rt *rapid.T) {
					service, name := schemas{b()}, testProject+"/schemas/"+rapid.SampledFrom([]string{"one", "two"}).Draw(rt, "schema")
					var err error
					switch rapid.SampledFrom([]string{"create", "commit", "delete"}).Draw(rt, "what") {
					case "create":
						_, err = service.CreateSchema(t.Context(), &pubsubpb.CreateSchemaRequest{Parent: testProject, SchemaId: path.Base(name), Schema: avroSchema(avroOne)})
					case "commit":
						_, err = service.CommitSchema(t.Context(), &pubsubpb.CommitSchemaRequest{Name: name, Schema: avroSchema(avroOne)})
					case "delete":
						_, err = service.DeleteSchema(t.Context(), &pubsubpb.DeleteSchemaRequest{Name: name})
					}
					if code := status.Code(err); code == codes.InvalidArgument || code == codes.Internal {
						rt.Fatal(err)
					}
				},
				"checkpoint": func(rt *rapid.T) { check(b().checkpoint(t.Context())) },
				"restart":    restart,
			})
			restart(rt)
		})
	})
}
