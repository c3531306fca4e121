package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
)

// manyTasks is how many tasks a relay has that have ended.
const manyTasks = 100_000

// relayMany measures a relay with many tasks: its start beside a loop that reads as many files, pages of its lists, and
// what it costs with nothing to do. A task is its directory and its task.json, which is all that a start reads.
func relayMany(ctx context.Context, r *report, s relaySetup) error {
	var writing errgroup.Group
	for share := range 8 {
		writing.Go(func() error {
			for i := share; i < manyTasks; i += 8 {
				if err := s.put(benchTask(i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := writing.Wait(); err != nil {
		return err
	}
	var starts, bare []float64
	for range 3 {
		began := time.Now()
		if err := s.readAll(); err != nil {
			return err
		}
		bare = append(bare, time.Since(began).Seconds())
		began = time.Now()
		p, err := s.start(ctx)
		if err != nil {
			return err
		}
		if err := listPage(ctx, p.address()+"/v1/tasks?limit=50"); err != nil {
			p.kill()
			return err
		}
		starts = append(starts, time.Since(began).Seconds())
		used, err := p.cpu()
		p.kill()
		if err != nil {
			return err
		}
		r.add("start to first answer, 100 000 tasks", starts[len(starts)-1], "s", atMost(5))
		r.add("… processor time", used.Seconds(), "s", bar{})
	}
	r.add("… median, against files that are read alone", median(starts)/median(bare), "ratio", bar{})
	p, err := s.start(ctx)
	if err != nil {
		return err
	}
	defer p.kill()
	for _, path := range []string{"/v1/tasks?limit=50", "/v1/tasks?limit=50&status=failed", "/api/v1/relay/jobs?limit=50"} {
		var took []float64
		for range 101 {
			began := time.Now()
			if err := listPage(ctx, p.address()+path); err != nil {
				return err
			}
			took = append(took, float64(time.Since(began).Microseconds())/1000)
		}
		r.add("GET "+path+", 100 000 tasks, median", median(took), "ms", atMost(20))
		r.add("… p99", quantile(took, 0.99), "ms", bar{})
	}
	return idleShare(r, p, "relay with 100 000 tasks")
}

// readAll reads the files of all tasks, as a start does.
func (s relaySetup) readAll() error {
	var reading errgroup.Group
	for share := range 4 {
		reading.Go(func() error {
			for i := share; i < manyTasks; i += 4 {
				if _, err := os.ReadFile(s.path("tasks", string(benchTask(i).ID), "task.json")); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return reading.Wait()
}

func listPage(ctx context.Context, url string) error {
	resp, err := askRelay(ctx, http.DefaultClient, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
