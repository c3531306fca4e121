package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/engine"
)

// What the logs of jobs are measured with: so many jobs, and so many lines a
// second of each.
const (
	logJobs    = 200
	logRate    = 10_000
	logSeconds = 4
	logLine    = "page %d of 240: 3 tables, 1204 words, took 12.5ms, next: %d"
)

// joblogSection measures the logs of many jobs that write at once, while others
// list them and look at them, beside buffers that take the same lines and do
// nothing else.
func joblogSection(ctx context.Context, r *report) error {
	if err := belowCap(ctx, r); err != nil {
		return err
	}
	bare, err := loadLogs(ctx, bareWriters())
	if err != nil {
		return err
	}
	rig, err := startLogRig(ctx, logRate*logSeconds)
	if err != nil {
		return err
	}
	readers := rig.read(ctx)
	close(rig.begin)
	began, cpu := time.Now(), ownCPU()
	rig.written.Wait()
	took, used := time.Since(began), ownCPU()-cpu
	calls := readers()
	lines := float64(logJobs * logRate * logSeconds)

	r.add("lines of 200 jobs at 10 000/s each", lines/took.Seconds()/1e6, "M/s, target 2", bar{})
	r.add("the same into bare buffers", bare.rate/1e6, "M/s, target 2", bar{})
	r.add("processor time a line", used.Seconds()/lines*1e6, "µs", bar{})
	r.add("the same into bare buffers", bare.cpu.Seconds()/lines*1e6, "µs", bar{})
	r.add("ratio", float64(used)/float64(bare.cpu), "x", atMost(6))
	r.add("List of 200, p99 meanwhile", quantile(calls.list, 0.99), "ms", atMost(5))
	r.add("Get of one, p99 meanwhile", quantile(calls.get, 0.99), "ms", atMost(5))
	r.add("a copy of 200 items, p99 meanwhile", quantile(calls.bare, 0.99), "ms", bar{})
	r.add("Log of 200 lines, p99 meanwhile", quantile(calls.log, 0.99), "ms", bar{})
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	r.add("memory of logs, of their budget", float64(rig.logs.Used())/engine.DefaultLogBytes, "x", atMost(1.05))
	r.add("live heap, of the budget", float64(m.HeapAlloc)/engine.DefaultLogBytes, "x", atMost(1.15))
	runtime.KeepAlive(rig)
	return rig.engine.Close(ctx)
}

// belowCap counts lines that are lost though there was room for all.
func belowCap(ctx context.Context, r *report) error {
	const lines = logRate // 0.6 MiB a job
	rig, err := startLogRig(ctx, lines)
	if err != nil {
		return err
	}
	close(rig.begin)
	rig.written.Wait()
	lost := 0
	for _, id := range rig.ids {
		l, err := rig.engine.Log(ctx, id, jobapi.LogQuery{Tail: 1})
		if err != nil {
			return err
		}
		last, err := strconv.Atoi(l.Lines[0].Pos)
		if err != nil {
			return err
		}
		lost += l.Dropped + lines + 1 - last // one is the engine's
	}
	r.add("lines lost below the cap, of 2 million", float64(lost), "", atMost(0))
	return rig.engine.Close(ctx)
}

// A logRig is an engine whose jobs write their logs once begin is closed.
type logRig struct {
	engine  *engine.Engine
	logs    *engine.LogBudget
	ids     []string
	begin   chan struct{}
	written sync.WaitGroup
}

type logRequest struct {
	jobapi.Options
	write func(engine.Run)
}

func (q *logRequest) Check() error { return nil }
func (q *logRequest) Echo() any    { return struct{}{} }
func (q *logRequest) Steps() []engine.Step {
	return []engine.Step{{Name: "write", Run: func(ctx context.Context, r engine.Run) (string, error) {
		q.write(r)
		<-ctx.Done()
		return "", nil
	}}}
}

func startLogRig(ctx context.Context, lines int) (*logRig, error) {
	rig := &logRig{logs: &engine.LogBudget{}, begin: make(chan struct{})}
	rig.engine = &engine.Engine{
		Scope: "bench", Logs: rig.logs, Limits: engine.Limits{MaxRunning: logJobs},
		Supported: []engine.Operation{{Name: "log", New: func() engine.Request { return &logRequest{} }}},
	}
	for range logJobs {
		rig.written.Add(1)
		j, err := rig.engine.Create(ctx, "log", &logRequest{write: func(r engine.Run) {
			defer rig.written.Done()
			<-rig.begin
			pacedLines(lines, func(i int) { r.Logf(logLine, i, i+1) })
		}})
		if err != nil {
			return nil, fmt.Errorf("create job: %w", err)
		}
		rig.ids = append(rig.ids, j.ID)
	}
	return rig, nil
}

// pacedLines writes n lines, logRate a second, in batches of 10 ms. One that is
// late is slow, like a step that waits for the network.
func pacedLines(n int, write func(i int)) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := range n {
		write(i)
		if i%(logRate/100) == 0 {
			<-tick.C
		}
	}
}

// logCalls is how long calls took, in milliseconds.
type logCalls struct{ list, get, log, bare []float64 }

// read calls the engine until the function it returns is called.
func (rig *logRig) read(ctx context.Context) (stop func() logCalls) {
	var calls logCalls
	var done atomic.Bool
	var reader sync.WaitGroup
	timed := func(into *[]float64, call func() error) {
		began := time.Now()
		if err := call(); err != nil {
			panic(err) // none of these can fail here
		}
		*into = append(*into, float64(time.Since(began))/1e6)
	}
	reader.Go(func() {
		var mu sync.Mutex
		var items [logJobs]jobapi.Item
		for i := 0; !done.Load(); i++ {
			id := rig.ids[i%len(rig.ids)]
			timed(&calls.list, func() error { _, err := rig.engine.List(ctx, jobapi.Query{Limit: 200}); return err })
			timed(&calls.get, func() error { _, err := rig.engine.Get(ctx, []string{id}); return err })
			timed(&calls.log, func() error { _, err := rig.engine.Log(ctx, id, jobapi.LogQuery{Tail: 200}); return err })
			timed(&calls.bare, func() error {
				mu.Lock()
				defer mu.Unlock()
				_ = append([]jobapi.Item(nil), items[:]...)
				return nil
			})
			pause(2 * time.Millisecond)
		}
	})
	return func() logCalls {
		done.Store(true)
		reader.Wait()
		return calls
	}
}

// bareLoad is what it costs to write the lines into buffers.
type bareLoad struct {
	rate float64
	cpu  time.Duration
}

// bareWriters returns what writes a line into a buffer each, which starts again
// when it is full.
func bareWriters() []func(i int) {
	writers := make([]func(int), logJobs)
	for w := range writers {
		var mu sync.Mutex
		buf := make([]byte, 0, 1<<20)
		writers[w] = func(i int) {
			line := fmt.Sprintf(logLine, i, i+1)
			mu.Lock()
			defer mu.Unlock()
			if len(buf)+len(line) > cap(buf) {
				buf = buf[:0]
			}
			buf = append(buf, line...)
		}
	}
	return writers
}

func loadLogs(ctx context.Context, writers []func(i int)) (bareLoad, error) {
	began, cpu := time.Now(), ownCPU()
	var all sync.WaitGroup
	for _, write := range writers {
		all.Go(func() { pacedLines(logRate*logSeconds, write) })
	}
	all.Wait()
	return bareLoad{float64(logJobs*logRate*logSeconds) / time.Since(began).Seconds(), ownCPU() - cpu}, ctx.Err()
}
