package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/batchfleet/batchfleet/safefile"
)

// A turn of creating tasks, or of writing files.
const (
	createTurns = 9
	createTime  = time.Second
	createBody  = `{"job_id":"job_1","kind":"wait"}`
)

// relayCreates measures tasks that are created over HTTP beside as many small files that are written, synced, renamed
// and their directory synced, by as many at once.
func relayCreates(ctx context.Context, r *report, s relaySetup) error {
	p, err := s.start(ctx)
	if err != nil {
		return err
	}
	defer p.kill()
	files := filepath.Join(s.dir, "files")
	if err := os.Mkdir(files, 0o700); err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	create := func(int64) error {
		resp, err := askRelay(ctx, client, http.MethodPost, p.address()+"/v1/tasks", strings.NewReader(createBody))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusAccepted {
			return fmt.Errorf("create a task: %s", resp.Status)
		}
		_, err = io.Copy(io.Discard, resp.Body) // so that the connection is used again
		return err
	}
	bare := func(i int64) error {
		return safefile.Replace(filepath.Join(files, fmt.Sprint(i)), []byte(createBody))
	}
	for _, atOnce := range []int{1, 16} {
		var rates, ratios, costs []float64
		for range createTurns {
			limit, err := perSecond(atOnce, bare)
			if err != nil {
				return err
			}
			var rate float64
			used, err := p.cpuDuring(func() (err error) { rate, err = perSecond(atOnce, create); return err })
			if err != nil {
				return err
			}
			rates, ratios = append(rates, rate), append(ratios, rate/limit)
			costs = append(costs, 1e6*used.Seconds()/(rate*createTime.Seconds()))
		}
		r.add(fmt.Sprintf("tasks created, %d at once", atOnce), median(rates), "/s", bar{})
		r.add("… against one synced file each", median(ratios), "ratio", atLeast(0.5))
		r.add("… the least, and the most of 9 turns", quantile(ratios, 0), "ratio", bar{})
		r.add("…", quantile(ratios, 1), "ratio", bar{})
		r.add("… processor time of the relay", median(costs), "µs each", bar{})
	}
	memory, err := p.memory("VmHWM")
	r.add("memory of the relay meanwhile, at most", memory/1e6, "MB", bar{})
	return err
}

// perSecond calls do for a while, so many at once, and returns how often it did a second.
func perSecond(atOnce int, do func(i int64) error) (float64, error) {
	var n atomic.Int64
	var all errgroup.Group
	began := time.Now()
	for range atOnce {
		all.Go(func() error {
			for time.Since(began) < createTime {
				if err := do(n.Add(1)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := all.Wait()
	return float64(n.Load()) / time.Since(began).Seconds(), err
}
