package emulator

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"pgregory.net/rapid"
)

// A laneModel is what the messages of one ordering key should be, written the
// slow and obvious way: a list in the order published.
type laneModel []*modelItem

type modelItem struct {
	data   string
	out    bool // handed out and not come back
	early  bool // acknowledged while it was out, before its turn
	number uint64
	due    time.Time
	to     *waiter
}

// comeBack ends what is out from place i on.
func (m laneModel) comeBack(i int) {
	for _, it := range m[i:] {
		it.out, it.early = false, false
	}
}

// find returns where the current delivery of that number is, if it can be
// settled.
func find(keys map[string]laneModel, number uint64) (key string, place int, found bool) {
	for key, m := range keys {
		for i, it := range m {
			if it.out && !it.early && it.number == number {
				return key, i, true
			}
		}
	}
	return "", 0, false
}

func modelExpire(keys map[string]laneModel, now time.Time) {
	for {
		var first *modelItem
		var of laneModel
		var place int
		for _, m := range keys {
			for i, it := range m {
				if it.out && !it.early && !it.due.After(now) && (first == nil || it.due.Before(first.due)) {
					first, of, place = it, m, i
				}
			}
		}
		if first == nil {
			return
		}
		of.comeBack(place)
	}
}

func modelAck(keys map[string]laneModel, numbers []uint64) {
	for _, n := range numbers {
		if key, i, ok := find(keys, n); ok {
			keys[key][i].early = true
		}
	}
	for key, m := range keys {
		for len(m) > 0 && m[0].early {
			m = m[1:]
		}
		keys[key] = m
	}
}

// free returns how many messages are available to w.
func free(keys map[string]laneModel, w *waiter) int {
	n := 0
	for _, m := range keys {
		if len(m) == 0 || m[0].out && m[0].to != w {
			continue
		}
		for _, it := range m {
			if !it.out {
				n++
			}
		}
	}
	return n
}

func TestE08KeysAreWhatASimpleModelSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(struct{ rapid.TB }{t}, func(t *rapid.T) {
			q := newQueue(time.Now(), settings{lease: 10 * time.Second, retention: defaultRetention, ordered: true})
			defer q.close(errStopped)
			keys := map[string]laneModel{}
			streams := []*waiter{newWaiter(1, here), newWaiter(3, here), newWaiter(100, here)}
			published := 0
			pull := func(t *rapid.T, w *waiter) []delivery {
				modelExpire(keys, time.Now())
				left := free(keys, w)
				ds, err := q.poll(w)
				if err != nil || len(ds) != min(left, w.max) {
					t.Fatalf("pulled %q of %d, at most %d: %v", dataOf(ds), left, w.max, err)
				}
				for _, d := range ds {
					m := keys[d.msg.pb.GetOrderingKey()]
					i := slices.IndexFunc(m, func(it *modelItem) bool { return !it.out })
					if i < 0 || m[i].data != string(d.msg.pb.GetData()) || i > 0 && m[i-1].to != w {
						t.Fatalf("message %s was handed out before its turn, or to another puller", d.msg.pb.GetData())
					}
					*m[i] = modelItem{data: m[i].data, out: true, number: d.number, due: time.Now().Add(10 * time.Second), to: w}
				}
				return ds
			}
			numbers := func(t *rapid.T) []uint64 {
				modelExpire(keys, time.Now())
				return rapid.SliceOfNDistinct(rapid.Uint64Range(1, q.lastDelivery+1), 1, 6, rapid.ID).Draw(t, "numbers")
			}
			t.Repeat(map[string]func(*rapid.T){
				"publish": func(t *rapid.T) {
					for range rapid.IntRange(1, 5).Draw(t, "n") {
						key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")
						data := fmt.Sprintf("%s%06d", key, published)
						published++
						putMessage(q, &pubsubpb.PubsubMessage{Data: []byte(data), OrderingKey: key})
						keys[key] = append(keys[key], &modelItem{data: data})
					}
				},
				"stream": func(t *rapid.T) { pull(t, rapid.SampledFrom(streams).Draw(t, "stream")) },
				"pull":   func(t *rapid.T) { pull(t, newWaiter(rapid.IntRange(1, 5).Draw(t, "most"), here)) },
				"give back": func(t *rapid.T) {
					ds := pull(t, rapid.SampledFrom(streams).Draw(t, "stream"))
					q.undeliver(ds)
					for _, d := range ds {
						if key, i, ok := find(keys, d.number); ok {
							keys[key].comeBack(i)
						}
					}
				},
				"ack": func(t *rapid.T) {
					ns := numbers(t)
					q.acknowledge(ns)
					modelAck(keys, ns)
				},
				"nack": func(t *rapid.T) {
					ns := numbers(t)
					q.extend(ns, 0)
					for _, n := range ns {
						if key, i, ok := find(keys, n); ok {
							keys[key].comeBack(i)
						}
					}
				},
				"extend": func(t *rapid.T) {
					ns := numbers(t)
					d := time.Duration(rapid.IntRange(1, 30).Draw(t, "seconds")) * time.Second
					q.extend(ns, d)
					for _, n := range ns {
						if key, i, ok := find(keys, n); ok {
							keys[key][i].due = time.Now().Add(d)
						}
					}
				},
				"time": func(t *rapid.T) { time.Sleep(time.Duration(rapid.IntRange(1, 12).Draw(t, "seconds")) * time.Second) },
				"": func(t *rapid.T) {
					modelExpire(keys, time.Now())
					left, out := 0, 0
					for _, m := range keys {
						left += len(m)
						for _, it := range m {
							if it.out {
								out++
							}
						}
					}
					if s := q.stats(); s.Leased != out || s.Undelivered != left-out {
						t.Fatalf("%d out and %d not, want %d and %d", s.Leased, s.Undelivered, out, left-out)
					}
				},
			})
		})
	})
}

// A keyWatch sees what is delivered to several streams, and what they settle at the same time.
type keyWatch struct {
	mu     sync.Mutex
	by     map[uint64]string // what each delivery was of
	holder map[string]string // who has messages of a key, for certain
	has    map[string]int    // and how many
}

// A puller takes messages and treats them well or badly, by chance.
type puller struct {
	name    string
	q       *queue
	w       *waiter
	watch   *keyWatch
	doubt   map[string]time.Time // of these keys some that it has may come back until then
	pending sync.WaitGroup
}

func (p *puller) run(t *testing.T) {
	for {
		ds, err := p.q.pullOrWait(p.w)
		if err == nil && ds == nil {
			var open bool
			if ds, open = <-p.w.got; !open {
				break
			}
		}
		if err != nil {
			break
		}
		p.note(t, ds)
		p.settle(ds)
	}
	p.pending.Wait()
}

// note checks that no other puller has messages of the same keys.
func (p *puller) note(t *testing.T, ds []delivery) {
	p.watch.mu.Lock()
	defer p.watch.mu.Unlock()
	for _, d := range ds {
		key := d.msg.pb.GetOrderingKey()
		p.watch.by[d.number] = string(d.msg.pb.GetData())
		if time.Now().Before(p.doubt[key]) {
			continue
		}
		delete(p.doubt, key)
		if h := p.watch.holder[key]; h != p.name && p.watch.has[key] > 0 {
			t.Errorf("%s was handed %s while %s has messages of the key", p.name, d.msg.pb.GetData(), h)
		}
		p.watch.holder[key] = p.name
		p.watch.has[key]++
	}
}

// settle acks, hands back or forgets what came. The watch hears of it before
// the queue does.
func (p *puller) settle(ds []delivery) {
	byKey := map[string][]delivery{}
	for _, d := range ds {
		byKey[d.msg.pb.GetOrderingKey()] = append(byKey[d.msg.pb.GetOrderingKey()], d)
	}
	for key, ds := range byKey {
		_, doubtful := p.doubt[key]
		if !doubtful && rand.N(6) == 0 { // something comes back, and with it whatever else is out
			p.watch.mu.Lock()
			p.watch.has[key] = 0
			p.watch.mu.Unlock()
			p.doubt[key] = time.Now().Add(testLease)
			if n := ds[rand.N(len(ds))].number; rand.N(2) == 0 {
				p.q.extend([]uint64{n}, 0)
			}
			continue
		}
		rand.Shuffle(len(ds), func(i, j int) { ds[i], ds[j] = ds[j], ds[i] })
		p.pending.Go(func() { p.ack(key, ds, doubtful) })
	}
}

const testLease = 10 * time.Second

// ack acknowledges messages in two requests.
func (p *puller) ack(key string, ds []delivery, doubtful bool) {
	time.Sleep(rand.N(time.Second))
	for half := range slices.Chunk(ds, (len(ds)+1)/2) {
		p.watch.mu.Lock()
		if !doubtful && p.watch.holder[key] == p.name {
			p.watch.has[key] = max(0, p.watch.has[key]-len(half))
		}
		p.watch.mu.Unlock()
		p.q.acknowledge(numbersOf(half))
	}
}

func TestE08KeysStayInOrderAmongPullersThatAckNackAndForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys, each = 5, 200
		q := newQueue(time.Now(), settings{lease: testLease, retention: defaultRetention, ordered: true})
		watch := &keyWatch{by: map[uint64]string{}, holder: map[string]string{}, has: map[string]int{}}
		var running sync.WaitGroup
		for i := range 4 {
			p := &puller{name: fmt.Sprint("puller ", i), q: q, w: newWaiter(1+7*i, here), watch: watch, doubt: map[string]time.Time{}}
			p.w.flow = &flow{maxCount: 10 * i} // 0 is no limit
			running.Go(func() { p.run(t) })
		}
		var publishers sync.WaitGroup
		for k := range keys {
			publishers.Go(func() {
				for i := range each {
					putMessage(q, &pubsubpb.PubsubMessage{Data: fmt.Appendf(nil, "%d/%06d", k, i), OrderingKey: fmt.Sprint(k)})
					if rand.N(10) == 0 {
						time.Sleep(rand.N(time.Second))
					}
				}
			})
		}
		publishers.Wait()
		for start := time.Now(); ; time.Sleep(time.Second) {
			if s := q.stats(); s.Undelivered+s.Leased == 0 {
				break
			}
			if time.Since(start) > 24*time.Hour {
				t.Fatalf("not done after a day: %+v", q.stats())
			}
		}
		q.close(errStopped)
		running.Wait()

		last := map[string]int{}
		for n := uint64(1); n <= q.lastDelivery; n++ {
			var i int
			key, data, _ := strings.Cut(watch.by[n], "/")
			if _, err := fmt.Sscanf(data, "%d", &i); err != nil {
				t.Fatalf("delivery %d was of %q", n, watch.by[n])
			}
			if before, seen := last[key]; seen && i > before+1 || !seen && i > 0 {
				t.Errorf("of key %s message %d followed %d", key, i, before)
			}
			last[key] = i
		}
		for key, i := range last {
			if i != each-1 {
				t.Errorf("of key %s message %d was the last, want %d", key, i, each-1)
			}
		}
	})
}
