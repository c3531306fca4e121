package emulator

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// A queueModel is what a queue should be, written the slow and obvious way.
type queueModel struct {
	q         *queue
	published int
	ready     map[string]bool          // available, by data
	due       map[string]time.Time     // leased: when that ends
	byNumber  map[uint64]string        // every delivery ever made
	current   map[string]uint64        // the delivery a leased message is on
	expiry    map[string]time.Time     // end of retention
	flows     map[*flow]map[string]int // what is outstanding, with sizes
}

func (m *queueModel) settle() {
	now := time.Now()
	for data, due := range m.due {
		if !due.After(now) {
			m.release(data)
			m.ready[data] = true
		}
	}
	for data, end := range m.expiry {
		if !end.After(now) {
			m.release(data)
			delete(m.ready, data)
			delete(m.expiry, data)
		}
	}
}

func (m *queueModel) release(data string) {
	delete(m.due, data)
	delete(m.current, data)
	for _, outstanding := range m.flows {
		delete(outstanding, data)
	}
}

func (m *queueModel) took(t *rapid.T, ds []delivery, lease time.Duration, f *flow) {
	for _, d := range ds {
		data := string(d.msg.pb.GetData())
		if !m.ready[data] {
			t.Fatalf("message %s was handed out while it was not available", data)
		}
		if _, again := m.byNumber[d.number]; again {
			t.Fatalf("delivery number %d used twice", d.number)
		}
		delete(m.ready, data)
		m.due[data] = time.Now().Add(lease)
		m.byNumber[d.number] = data
		m.current[data] = d.number
		if f != nil {
			m.flows[f][data] = d.msg.size
		}
	}
}

func (m *queueModel) check(t *rapid.T) {
	m.settle()
	s := m.q.stats()
	if s.Undelivered != len(m.ready) || s.Leased != len(m.due) {
		t.Fatalf("%d available and %d leased, want %d and %d", s.Undelivered, s.Leased, len(m.ready), len(m.due))
	}
	q := m.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.order.n != len(m.expiry) || len(q.outstanding) != len(q.timed) {
		t.Fatalf("%d messages, %d held, %d leases; want %d messages", q.order.n, len(q.outstanding), len(q.timed), len(m.expiry))
	}
	last, n := "", 0
	for it := q.order.front; it != nil; it = it.place[inOrder].next {
		data := string(it.msg.pb.GetData())
		if data <= last {
			t.Fatalf("message %s stands behind %s", data, last)
		}
		last = data
		n++
		switch it.state {
		case available:
			if !m.ready[data] || it.ready == nil {
				t.Fatalf("message %s is available and should not be", data)
			}
		case leased:
			due := q.epoch.Add(it.due)
			if !due.Equal(m.due[data]) || q.outstanding[it.ack] != it || q.timed[it.index] != it {
				t.Fatalf("message %s is leased until %v, want %v", data, due, m.due[data])
			}
		case blocked, delayed, deadLettering, acked, ackedEarly, removed:
			t.Fatalf("message %s is gone and still in line", data)
		}
	}
	for f, outstanding := range m.flows {
		bytes := 0
		for _, size := range outstanding {
			bytes += size
		}
		if f.count != len(outstanding) || f.bytes != bytes {
			t.Fatalf("flow counts %d messages of %d bytes, want %d of %d", f.count, f.bytes, len(outstanding), bytes)
		}
	}
}

// pick draws some delivery numbers made so far, current or stale.
func (m *queueModel) pick(t *rapid.T) []uint64 {
	if len(m.byNumber) == 0 {
		return nil
	}
	return rapid.SliceOfN(rapid.Uint64Range(1, uint64(len(m.byNumber))), 1, 5).Draw(t, "numbers")
}

// The number of a delivery is its rank only while none is given back; the
// model does not give back.
func (m *queueModel) isCurrent(n uint64) (string, bool) {
	data, ok := m.byNumber[n]
	return data, ok && m.current[data] == n
}

func TestE04EveryMessageIsAvailableLeasedOrGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// rapid asks a *testing.T for its deadline, which a bubble does not allow.
		rapid.Check(struct{ rapid.TB }{t}, func(t *rapid.T) {
			const lease, retention = 10 * time.Second, 40 * time.Second
			m := &queueModel{
				q:        newQueue(time.Now(), settings{lease: lease, retention: retention}),
				ready:    map[string]bool{},
				due:      map[string]time.Time{},
				byNumber: map[uint64]string{},
				current:  map[string]uint64{},
				expiry:   map[string]time.Time{},
				flows:    map[*flow]map[string]int{},
			}
			defer m.q.close(errStopped)
			for _, f := range []*flow{{maxCount: 3}, {maxBytes: 20}, {}} {
				m.flows[f] = map[string]int{}
			}
			flows := slices.Collect(func(yield func(*flow) bool) {
				for f := range m.flows {
					if !yield(f) {
						return
					}
				}
			})
			slices.SortFunc(flows, func(a, b *flow) int {
				return 2*(a.maxCount-b.maxCount) + a.maxBytes - b.maxBytes
			})
			t.Repeat(map[string]func(*rapid.T){
				"publish": func(t *rapid.T) {
					for range rapid.IntRange(1, 4).Draw(t, "n") {
						data := fmt.Sprintf("%06d", m.published)
						m.published++
						put(m.q, data)
						m.ready[data] = true
						m.expiry[data] = time.Now().Add(retention)
					}
				},
				"pull": func(t *rapid.T) {
					m.settle()
					most := rapid.IntRange(1, 5).Draw(t, "most")
					ds, err := m.q.poll(newWaiter(most, here))
					if err != nil || len(ds) != min(most, len(m.ready)) {
						t.Fatalf("pulled %d of %d, at most %d: %v", len(ds), len(m.ready), most, err)
					}
					m.took(t, ds, lease, nil)
				},
				"stream": func(t *rapid.T) {
					m.settle()
					f := rapid.SampledFrom(flows).Draw(t, "flow")
					w := newWaiter(rapid.IntRange(1, 5).Draw(t, "most"), here)
					w.flow, w.lease = f, 20*time.Second
					ds, err := m.q.poll(w)
					if err != nil || f.maxCount > 0 && f.count > f.maxCount || f.maxBytes > 0 && f.bytes > f.maxBytes {
						t.Fatalf("flow over its credit: %+v, %v", f, err)
					}
					m.took(t, ds, w.lease, f)
				},
				"ack": func(t *rapid.T) {
					m.settle()
					numbers := m.pick(t)
					m.q.acknowledge(numbers)
					for _, n := range numbers {
						if data, ok := m.isCurrent(n); ok {
							m.release(data)
							delete(m.expiry, data)
						}
					}
				},
				"modack": func(t *rapid.T) {
					m.settle()
					numbers := m.pick(t)
					d := time.Duration(rapid.IntRange(0, 30).Draw(t, "seconds")) * time.Second
					m.q.extend(numbers, d)
					for _, n := range numbers {
						data, ok := m.isCurrent(n)
						switch {
						case !ok:
						case d == 0:
							m.release(data)
							m.ready[data] = true
						default:
							m.due[data] = time.Now().Add(d)
						}
					}
				},
				"time": func(t *rapid.T) {
					time.Sleep(time.Duration(rapid.IntRange(1, 30).Draw(t, "half seconds")) * time.Second / 2)
				},
				"": m.check,
			})
		})
	})
}

func TestAckIDsOfOtherQueuesAreStaleAndOfNobodyRefused(t *testing.T) {
	q, other := testQueue(), testQueue()
	tests := []struct {
		name, id string
		want     []uint64
		refused  bool
	}{
		{"own", q.ackID(7), []uint64{7}, false},
		{"largest", q.ackID(1<<64 - 1), []uint64{1<<64 - 1}, false},
		{"other queue", other.ackID(7), []uint64{0}, false},
		{"empty", "", nil, true},
		{"not hexadecimal", "x" + q.ackID(7)[1:], nil, true},
		{"too long", q.ackID(7) + "0", nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := q.deliveries([]string{tt.id})
			if !slices.Equal(got, tt.want) || (err != nil) != tt.refused {
				t.Errorf("deliveries(%s) = %v, %v", strconv.Quote(tt.id), got, err)
			}
		})
	}
}
