package emulator

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// A statsCollector exports the statistics to Prometheus, read at each scrape.
type statsCollector func() []SubscriptionStats

// A statsMetric is one number of each subscription.
type statsMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*SubscriptionStats) float64
}

func gauge(name, help string, value func(*SubscriptionStats) float64) statsMetric {
	desc := prometheus.NewDesc("pubsub_subscription_"+name, help, []string{"subscription"}, nil)
	return statsMetric{desc, prometheus.GaugeValue, value}
}

func counter(name, help string, value func(*Counters) uint64) statsMetric {
	m := gauge(name+"_total", help, func(s *SubscriptionStats) float64 { return float64(value(&s.Counters)) })
	m.kind = prometheus.CounterValue
	return m
}

var statsMetrics = []statsMetric{
	gauge("undelivered_messages", "Messages without a lease.", func(s *SubscriptionStats) float64 { return float64(s.Undelivered) }),
	gauge("leased_messages", "Messages delivered and not yet acknowledged.", func(s *SubscriptionStats) float64 { return float64(s.Leased) }),
	gauge("oldest_message_age_seconds", "Age of the oldest message not acknowledged.", func(s *SubscriptionStats) float64 { return s.OldestAgeSeconds }),
	gauge("waiting_pulls", "Pulls and streams that wait for a message.", func(s *SubscriptionStats) float64 { return float64(s.WaitingPulls) }),
	counter("published", "Messages published to the subscription.", func(c *Counters) uint64 { return c.Published }),
	counter("delivered", "Deliveries.", func(c *Counters) uint64 { return c.Delivered }),
	counter("redelivered", "Deliveries that were not the message's first.", func(c *Counters) uint64 { return c.Redelivered }),
	counter("acked", "Messages acknowledged.", func(c *Counters) uint64 { return c.Acked }),
	counter("nacked", "Deliveries returned by a nack.", func(c *Counters) uint64 { return c.Nacked }),
	counter("expired_leases", "Leases that ran out.", func(c *Counters) uint64 { return c.Expired }),
	counter("dead_lettered", "Messages published to the dead-letter topic.", func(c *Counters) uint64 { return c.DeadLettered }),
	counter("dropped", "Messages dropped for being older than the retention.", func(c *Counters) uint64 { return c.Dropped }),
}

// Describe implements prometheus.Collector.
func (c statsCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range statsMetrics {
		ch <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c statsCollector) Collect(ch chan<- prometheus.Metric) {
	for _, s := range c() {
		for _, m := range statsMetrics {
			ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&s), s.Subscription)
		}
	}
}

// metricsHandler serves the statistics as Prometheus text.
func metricsHandler(stats func() []SubscriptionStats) http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(statsCollector(stats))
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
}
