package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/batchfleet/batchfleet/worker"
	"github.com/batchfleet/batchfleet/worker/memory"
)

// floodBytes is what a program writes that writes as fast as it can.
const floodBytes = 1 << 30

// programLogSection runs programs that write much: one as fast as it can, beside others that say
// little, and eight that write 10 000 lines a second each, whose logs are in a real Redis.
func programLogSection(ctx context.Context, r *report) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, kind := range []string{"flood", "quiet", "paced"} {
		fmt.Fprintf(&text, "[%s]\ncommand = [%q, \"write-%s\"]\n", kind, self, kind)
	}
	if err := flood(ctx, r, text.String()); err != nil {
		return err
	}
	return pacedLogs(ctx, r, text.String())
}

// writeFlood is the program that writes as fast as it can: lines of 80 bytes.
func writeFlood(context.Context) error {
	out := bufio.NewWriterSize(os.Stdout, 64<<10)
	line := []byte(strings.Repeat("12.5 ", 15) + "page\n")
	for written := 0; written < floodBytes; written += len(line) {
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
	return out.Flush()
}

// writeQuiet is a program that says little and waits most of the time, for 60 ms.
func writeQuiet(context.Context) error {
	for i := range 3 {
		fmt.Printf(logLine+"\n", i, i+1)
		pause(20 * time.Millisecond)
	}
	return nil
}

// writePaced is a program that writes logRate lines a second.
func writePaced(context.Context) (err error) {
	pacedLines(logRate*pacedSeconds, func(i int) { _, err = fmt.Printf(logLine+"\n", i, i+1) })
	return err
}

// flood measures what programs that write 1 GiB each cost their worker, one after the other, and the jobs beside
// them.
func flood(ctx context.Context, r *report, text string) error {
	statuses := new(memory.Status)
	rig, err := startProgramRig(ctx, r.dir, text, statuses, worker.Pool{Slots: 4})
	if err != nil {
		return err
	}
	enough := make(chan struct{})
	time.AfterFunc(6*time.Second, func() { close(enough) })
	alone, err := quietJobs(ctx, rig, enough)
	if err != nil {
		return err
	}
	before, err := memoryOf("self", "VmRSS")
	if err != nil {
		return err
	}
	const floods = 4
	var flooding errgroup.Group
	var took, cpu []float64
	var logged int
	ended := make(chan struct{})
	flooding.Go(func() error {
		defer close(ended)
		for range floods {
			used := ownCPU()
			id := rig.submit("flood", 1)
			one, err := rig.wait(ctx, "flood", 1)
			if err != nil {
				return err
			}
			record, _ := statuses.Get(id)
			took, cpu, logged = append(took, one[0]), append(cpu, float64(ownCPU()-used)/1e3/(floodBytes>>20)), len(record.Lines)
		}
		return nil
	})
	beside, err := quietJobs(ctx, rig, ended)
	if err := errors.Join(err, flooding.Wait()); err != nil {
		return err
	}
	peak, err := memoryOf("self", "VmHWM")
	if err != nil {
		return err
	}
	r.add("1 GiB in lines of 80 bytes, median of 4", median(took)/1e3, "s", bar{})
	r.add("… processor time of the worker, with the jobs beside it", median(cpu), "µs/MiB", bar{})
	r.add("… memory of the worker, above that before", (peak-before)/(1<<20), "MiB", atMost(16))
	r.add("… lines in the log, of 13.4 million", float64(logged), "", atMost(10_000))
	r.add("other jobs alone, p99", quantile(alone, 0.99), "ms", bar{})
	r.add("other jobs beside it, p99", quantile(beside, 0.99), "ms", bar{})
	r.add("… against alone", quantile(beside, 0.99)/quantile(alone, 0.99), "ratio", atMost(1.3))
	return rig.close()
}

// quietJobs runs jobs that say little, three at a time, until end, and returns how long they took in milliseconds.
func quietJobs(ctx context.Context, rig *programRig, end <-chan struct{}) (took []float64, err error) {
	for {
		rig.submit("quiet", 3)
		some, err := rig.wait(ctx, "quiet", 3)
		if err != nil {
			return nil, err
		}
		took = append(took, some...)
		select {
		case <-end:
			return took, nil
		default:
		}
	}
}
