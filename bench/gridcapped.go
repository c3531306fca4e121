package main

import (
	"context"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// gridHeldCap is how many jobs of the capped client may run.
const gridHeldCap = 4

// gridCapped compares what a client gets alone with what it gets beside one that has 1 000 000 jobs queued and as many running as it may.
func gridCapped(ctx context.Context, r *report) error {
	var callers []*gridCaller
	for _, held := range []int{0, gridDeep} {
		leader, err := startLeader(ctx, "", "")
		if err != nil {
			return err
		}
		defer leader.kill()
		if held > 0 {
			conn, err := dialGridClient(ctx, leader.address(), gridHeld, gridHeldCap, wire.FeatureSubmitAck)
			if err != nil {
				return err
			}
			if _, err := queueNull(conn, gridHeld, held); err != nil {
				return err
			}
		}
		worker, err := startNullWorker(ctx, leader.address(), gridSlots+gridHeldCap, 0, "")
		if err != nil {
			return err
		}
		defer worker.kill()
		c, err := callGrid(ctx, leader.address(), gridSlots, 0)
		if err != nil {
			return err
		}
		defer c.close()
		callers = append(callers, c)
	}
	var rates, p99 []float64
	for i := range nullTurns + 1 {
		alone, aloneP99, err := callers[0].timed(ctx, 40_000)
		if err != nil {
			return err
		}
		beside, besideP99, err := callers[1].timed(ctx, 40_000)
		if err != nil {
			return err
		}
		if i > 0 {
			rates, p99 = append(rates, beside/alone), append(p99, besideP99/aloneP99)
		}
	}
	r.add("a client beside one that has 1 000 000 queued and its cap running, against it alone: rate", median(rates), "ratio", atLeast(0.9))
	r.add("… p99 of its jobs, 64 at once", median(p99), "ratio", bar{})
	return nil
}

// timed runs n jobs, 64 at once, and returns the rate and the p99 of how long each took, in ms.
func (c *gridCaller) timed(ctx context.Context, n int) (rate, p99 float64, err error) {
	var mu sync.Mutex
	took := make([]float64, 0, n)
	began := time.Now()
	err = repeat(gridSlots, n, func() error {
		start := time.Now()
		err := c.call(ctx)
		mu.Lock()
		took = append(took, float64(time.Since(start))/1e6)
		mu.Unlock()
		return err
	})
	return float64(n) / time.Since(began).Seconds(), quantile(took, 0.99), err
}
