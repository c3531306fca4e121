package control

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/gateway/queue"
)

// A scrape waits for Redis for scrapeLimit at most, and asks it no more often
// than every scrapeFresh, however many scrape.
const (
	scrapeLimit = 2 * time.Second
	scrapeFresh = time.Second
)

// holdings is what the queue holds, counted when it is scraped. While Redis
// cannot be asked only redis_up is there.
type holdings struct {
	queue *queue.Queue

	mu    sync.Mutex
	at    time.Time
	stats queue.Stats
	err   error
}

func holding(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("batchfleet_gateway_"+name, help, nil, nil)
}

var (
	redisUp      = holding("redis_up", "1 if Redis answered at this scrape.")
	queueDepth   = holding("queue_depth", "Jobs in the queue.")
	activeLeases = holding("active_leases", "Jobs under a lease.")
	delayed      = holding("delayed_jobs", "Jobs that wait to be run again.")
	deadLetters  = holding("dead_letters", "Dead letters.")
	oldestQueued = holding("oldest_queued_seconds", "Age of the job that is next in the queue, since it was submitted; 0 without one.")
)

// Describe implements [prometheus.Collector].
func (h *holdings) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{redisUp, queueDepth, activeLeases, delayed, deadLetters, oldestQueued} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (h *holdings) Collect(ch chan<- prometheus.Metric) {
	s, err := h.count()
	gauge := func(d *prometheus.Desc, v float64) { ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	if err != nil {
		gauge(redisUp, 0)
		return
	}
	gauge(redisUp, 1)
	gauge(queueDepth, float64(s.Queued))
	gauge(activeLeases, float64(s.Leased))
	gauge(delayed, float64(s.Delayed))
	gauge(deadLetters, float64(s.Dead))
	age := 0.0
	if !s.Oldest.IsZero() {
		age = max(0, h.queue.Now().Sub(s.Oldest).Seconds())
	}
	gauge(oldestQueued, age)
}

func (h *holdings) count() (queue.Stats, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.at) < scrapeFresh {
		return h.stats, h.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeLimit)
	defer cancel()
	h.stats, h.err = h.queue.Stats(ctx)
	h.at = time.Now()
	return h.stats, h.err
}
