package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	eventListeners = 2000
	eventWindow    = 8 * time.Second // of each measurement
	eventTurns     = 2
)

// jobEventsSection measures what it costs to follow one job that changes ten
// times a second.
func jobEventsSection(ctx context.Context, r *report) error {
	p, err := startProcess(ctx, "serve-jobevents", 1)
	if err != nil {
		return err
	}
	defer func() { _ = p.stop() }()
	b := &eventBench{server: p, url: p.lines[0]}
	const ours, bare = "/api/v1/fleet/jobs/j/events", "/bare"

	one, err := b.crowd(ctx, 1, ours)
	if err != nil {
		return err
	}
	alone, err := b.measure(ctx, one)
	if err != nil {
		return err
	}
	one.close()
	if err := b.memory(ctx, r, ours); err != nil {
		return err
	}
	var oursCores, bareCores, oursRates, calls []float64
	for range eventTurns {
		for _, path := range []string{bare, ours} {
			c, err := b.crowd(ctx, eventListeners, path)
			if err != nil {
				return err
			}
			m, err := b.measure(ctx, c)
			if err != nil {
				return err
			}
			if path == bare {
				bareCores = append(bareCores, m.cores)
			} else {
				oursCores, oursRates, calls = append(oursCores, m.cores), append(oursRates, m.events), append(calls, m.calls)
				if len(oursCores) == eventTurns {
					final, err := b.end(ctx, c)
					if err != nil {
						return err
					}
					r.add("listeners that got the final state", float64(final), "of 2000", atLeast(eventListeners))
				}
			}
			c.close()
		}
	}
	r.add("processor of the server, 2000 listeners, 10 changes/s", median(oursCores), "cores", atMost(1))
	r.add("the same of a bare handler", median(bareCores), "cores", bar{})
	r.add("ratio to the bare handler", median(oursCores)/median(bareCores), "", bar{})
	r.add("states that each listener got", median(oursRates)/eventListeners, "/s", bar{})
	r.add("calls of the store, 1 listener", alone.calls, "/s", bar{})
	r.add("calls of the store, 2000 listeners", median(calls), "/s", atMost(alone.calls*1.1+0.2))
	return nil
}

type eventBench struct {
	server *process
	url    string
}

// crowd is a number of listeners, each with a connection of its own.
type crowd struct {
	events  atomic.Int64 // states that all of them got
	final   atomic.Int64 // listeners that got the final state, and the end
	readers sync.WaitGroup
	close   func()
}

// crowd connects n listeners, and returns once each has got its first event.
func (b *eventBench) crowd(ctx context.Context, n int, path string) (*crowd, error) {
	ctx, stop := context.WithCancel(ctx)
	c := &crowd{}
	transport := &http.Transport{}
	client := &http.Client{Transport: transport}
	c.close = func() {
		stop()
		c.readers.Wait()
		transport.CloseIdleConnections()
	}
	first := make(chan error, n)
	gate := make(chan struct{}, 50) // a listener's queue is short
	for range n {
		gate <- struct{}{}
		c.readers.Go(func() {
			in, err := get(ctx, client, b.url+path)
			<-gate
			first <- err
			if err == nil {
				c.read(in)
			}
		})
	}
	var errs []error
	for range n {
		errs = append(errs, <-first)
	}
	if err := errors.Join(errs...); err != nil {
		c.close()
		return nil, err
	}
	for c.events.Load() < int64(n) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return c, nil
}

// read counts the events of one listener until its stream ends.
func (c *crowd) read(in io.ReadCloser) {
	defer in.Close()
	succeeded := false
	for s := bufio.NewScanner(in); s.Scan(); {
		switch line := s.Text(); {
		case strings.HasPrefix(line, "data: {"):
			c.events.Add(1)
			succeeded = strings.Contains(line, `"status":"succeeded"`)
		case line == "event: end" && succeeded:
			c.final.Add(1)
		}
	}
}

// load is what a crowd costs.
type load struct{ cores, events, calls float64 } // events and calls of the store a second

func (b *eventBench) measure(ctx context.Context, c *crowd) (load, error) {
	if err := wait(ctx, time.Second); err != nil { // for what connecting has left behind
		return load{}, err
	}
	calls, err := b.ask(ctx, "/calls")
	if err != nil {
		return load{}, err
	}
	events, began := c.events.Load(), time.Now()
	cpu, err := b.server.cpuDuring(func() error { return wait(ctx, eventWindow) })
	if err != nil {
		return load{}, err
	}
	took := time.Since(began).Seconds()
	callsAfter, err := b.ask(ctx, "/calls")
	return load{
		cores: cpu.Seconds() / took, events: float64(c.events.Load()-events) / took, calls: float64(callsAfter-calls) / took,
	}, err
}

// memory adds what a listener costs, of a server that has had none before.
func (b *eventBench) memory(ctx context.Context, r *report, path string) error {
	before, err := b.server.memory("VmRSS")
	if err != nil {
		return err
	}
	c, err := b.crowd(ctx, eventListeners, path)
	if err != nil {
		return err
	}
	defer c.close()
	if err := wait(ctx, time.Second); err != nil {
		return err
	}
	after, err := b.server.memory("VmRSS")
	r.add("memory of the server per listener, with its connection", (after-before)/eventListeners/1024, "KiB", bar{})
	return err
}

// end ends the job and returns how many were told of it within ten seconds.
func (b *eventBench) end(ctx context.Context, c *crowd) (int64, error) {
	if _, err := b.ask(ctx, "/end"); err != nil {
		return 0, err
	}
	for range 100 {
		if c.final.Load() == eventListeners {
			break
		}
		if err := wait(ctx, 100*time.Millisecond); err != nil {
			return 0, err
		}
	}
	return c.final.Load(), nil
}

// ask returns the number that the server answers.
func (b *eventBench) ask(ctx context.Context, path string) (n int64, err error) {
	err = getJSON(ctx, b.url+path, &n)
	return n, err
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
