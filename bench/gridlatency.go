package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// latencyTime is how long jobs are submitted at a rate.
const latencyTime = 5 * time.Second

// gridLatency measures from when a job was to be submitted until its result is there, while jobs are submitted at half of the rate that is
// reached with 64 at once. A job that is late because others are late counts as late.
func gridLatency(ctx context.Context, r *report) error {
	n, err := startNATS(ctx)
	if err != nil {
		return err
	}
	defer n.stop()
	g, err := startGrid(ctx, "", "", 1024, "all")
	if err != nil {
		return err
	}
	defer g.stop()
	c, err := callGrid(ctx, g.leader.address(), 1024, 1<<18)
	if err != nil {
		return err
	}
	defer c.close()
	job := func() error { return c.call(ctx) }
	var rates []float64
	for range 4 {
		l, err := measureLoad(g.processes(), 50_000, func(n int) error { return repeat(gridSlots, n, job) })
		if err != nil {
			return err
		}
		rates = append(rates, l.rate)
	}
	rate := quantile(rates, 1) / 2
	p99 := map[string][]float64{}
	for range 3 {
		for name, call := range map[string]func() error{"job": job, "nats": n.ask} {
			took, err := atRate(rate, call)
			if err != nil {
				return err
			}
			p99[name] = append(p99[name], quantile(took, 0.99))
			r.add(fmt.Sprintf("%s at %.0f/s: p50", name, rate), quantile(took, 0.5), "ms", bar{})
			r.add("… p99", quantile(took, 0.99), "ms", bar{})
		}
	}
	r.add("submit to result at half of the load, p99, best of 3", quantile(p99["job"], 0), "ms", atMost(2))
	r.add("… median of 3", median(p99["job"]), "ms", bar{})
	r.add("… against NATS at the same rate", median(p99["job"])/median(p99["nats"]), "ratio", bar{})
	return nil
}

// atRate calls f at a rate, whether those before have returned or not, and returns how long each took from when it was due, in ms.
func atRate(rate float64, f func() error) (took []float64, err error) {
	n := int(rate * latencyTime.Seconds())
	took = make([]float64, n)
	var calls sync.WaitGroup
	var once sync.Once
	began := time.Now()
	for i := range n {
		due := began.Add(time.Duration(float64(i) / rate * 1e9))
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
		calls.Go(func() {
			if e := f(); e != nil {
				once.Do(func() { err = e })
			}
			took[i] = float64(time.Since(due)) / 1e6
		})
	}
	calls.Wait()
	return took, err
}
