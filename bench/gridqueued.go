package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/wire"
)

const (
	gridDeep    = 1_000_000
	gridShallow = 1_000
	queuedTurns = 5
	queuedJobs  = 50_000 // of a turn
)

// queueNull queues n jobs, and returns how many bytes their requests have.
func queueNull(conn *link.Conn, client string, n int) (bytes int, err error) {
	const batch = 1000
	for sent := 0; sent < n; sent += batch {
		var out []wire.Frame
		for range min(batch, n-sent) {
			f := nullSubmit(client)
			bytes += len(f.Payload)
			out = append(out, f)
		}
		if err := conn.Send(out...); err != nil {
			return bytes, err
		}
		for left := len(out); left > 0; {
			f, err := conn.Receive()
			if err != nil {
				return bytes, err
			}
			switch f.Type {
			case wire.SubmitAck:
				left -= len(f.Payload) / 16
			case wire.Error:
				return bytes, fmt.Errorf("a job is refused: %s", f.Payload)
			default: // the welcome
			}
		}
	}
	return bytes, nil
}

// queuedLeader is a leader in memory with jobs that are queued, and a client to which their results go.
type queuedLeader struct {
	*process
	client *link.Conn
}

func startQueued(ctx context.Context, r *report, n int) (q queuedLeader, err error) {
	if q.process, err = startLeader(ctx, "", ""); err != nil {
		return q, err
	}
	if q.client, err = dialGridClient(ctx, q.address(), gridClient, gridSlots, wire.FeatureSubmitAck); err != nil {
		return q, err
	}
	heap, err1 := q.heap(ctx)
	rss, err2 := q.memory("VmRSS")
	bytes, err3 := queueNull(q.client, gridClient, n)
	fullRSS, err4 := q.memory("VmRSS")
	full, err5 := q.heap(ctx)
	for _, err := range []error{err1, err2, err3, err4, err5} {
		if err != nil {
			return q, err
		}
	}
	if n == gridDeep {
		r.add("memory for a queued job, beside its request: heap", (full-heap-float64(bytes))/float64(n), "bytes", atMost(200))
		r.add("… resident, with what is not collected yet", (fullRSS-rss-float64(bytes))/float64(n), "bytes", bar{})
	}
	return q, nil
}

// turn has a worker run jobs that are queued, and as many are queued again.
func (q queuedLeader) turn(ctx context.Context, n int) (rate float64, err error) {
	worker, err := startNullWorker(ctx, q.address(), gridSlots, n, "all")
	if err != nil {
		return 0, err
	}
	defer worker.kill()
	began := time.Now()
	for got, again := 0, 0; got < n; {
		f, err := q.client.Receive()
		if err != nil {
			return 0, err
		}
		if f.Type == wire.Result {
			got, again = got+1, again+1
		}
		if again > 0 && !q.client.Ready() {
			var out []wire.Frame
			for range again {
				out = append(out, nullSubmit(gridClient))
			}
			if err := q.client.Send(out...); err != nil {
				return 0, err
			}
			again = 0
		}
	}
	return float64(n) / time.Since(began).Seconds(), nil
}

// gridQueued compares a leader with many queued jobs with one that has few.
func gridQueued(ctx context.Context, r *report) error {
	deep, err := startQueued(ctx, r, gridDeep)
	if err != nil {
		return err
	}
	defer deep.kill()
	shallow, err := startQueued(ctx, r, gridShallow)
	if err != nil {
		return err
	}
	defer shallow.kill()
	var ratios []float64
	for i := range queuedTurns + 1 {
		many, err := deep.turn(ctx, queuedJobs)
		if err != nil {
			return err
		}
		few, err := shallow.turn(ctx, queuedJobs)
		if err != nil {
			return err
		}
		if i > 0 {
			ratios = append(ratios, many/few)
		}
	}
	r.add("1 000 000 queued against 1 000 queued, rate", median(ratios), "ratio", atLeast(0.9))
	return nil
}

// gridRestart kills a leader with many queued jobs, and measures until the next one has assigned a job.
func gridRestart(ctx context.Context, r *report) error {
	dir := filepath.Join(r.dir, "restart")
	leader, err := startLeader(ctx, dir, "interval")
	if err != nil {
		return err
	}
	client, err := dialGridClient(ctx, leader.address(), gridClient, gridSlots, wire.FeatureSubmitAck)
	if err != nil {
		return err
	}
	if _, err := queueNull(client, gridClient, gridDeep); err != nil {
		return err
	}
	var took, read []float64
	for range 3 {
		leader.kill()
		began := time.Now()
		if err := readFiles(filepath.Join(dir, "journal")); err != nil {
			return err
		}
		read = append(read, time.Since(began).Seconds())
		began = time.Now()
		if leader, err = startLeader(ctx, dir, "interval"); err != nil {
			return err
		}
		if err := awaitAssign(ctx, leader.address()); err != nil {
			return err
		}
		took = append(took, time.Since(began).Seconds())
	}
	memory, err := leader.memory("VmHWM")
	leader.kill()
	r.add("kill -9 of a leader with 1 000 000 queued, exec to the first job that is assigned", median(took), "s", atMost(2))
	r.add("… against a plain read of its journal", median(took)/median(read), "ratio", bar{})
	r.add("… memory of the leader, at most", memory/1e6, "MB", bar{})
	return err
}

// awaitAssign connects a worker and waits for its first job.
func awaitAssign(ctx context.Context, address string) error {
	conn, err := dialGrid(ctx, address)
	if err != nil {
		return err
	}
	if err := conn.Send(wire.Frame{Type: wire.HelloWorker, MsgID: wire.NewGUID()}, gridCredit(1)); err != nil {
		return err
	}
	_, err = conn.Receive()
	return err
}

func readFiles(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, err := os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
