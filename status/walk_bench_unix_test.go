//go:build unix

package status_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status/redistest"
)

// BenchmarkWalk is what one job costs the status store: submitted, claimed, two reports, finished.
func BenchmarkWalk(b *testing.B) {
	rdb := redistest.New(b, "--appendonly", "no").Client()
	s := newStore(rdb, "w1")
	ctx := b.Context()
	server, client := serverTime(b, rdb), clientTime(b)
	defer func() { // processor time tells more than the clock, on a machine that does other things as well
		b.ReportMetric(float64((serverTime(b, rdb)-server).Microseconds())/float64(b.N), "server-µs/op")
		b.ReportMetric(float64((clientTime(b)-client).Microseconds())/float64(b.N), "client-µs/op")
	}()
	for i := 0; b.Loop(); i++ {
		id := jobs.ID(fmt.Sprintf("j%d", i))
		job := jobs.Job{ID: id, Kind: "pdf", Input: "uploads/x/y.pdf", Submitted: time.Now()}
		if _, err := s.Submit(ctx, job); err != nil {
			b.Fatal(err)
		}
		job.Submitted = job.Submitted.Truncate(time.Second)
		c, err := s.Claim(ctx, job, time.Minute, jobs.Claim{})
		if err != nil {
			b.Fatal(err)
		}
		for n := 1; n <= 2; n++ {
			if err := s.Report(ctx, c, time.Minute, &jobs.Progress{Done: n, Total: 2, Step: "pages", Message: fmt.Sprintf("Page %d/2 analyzing...", n)}, jobs.Lines{Text: []string{"x"}}); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := s.Finish(ctx, c, jobs.Outcome{State: jobs.Succeeded, Result: jobs.Result{Object: "results/x/result.json", Pages: 2}}); err != nil {
			b.Fatal(err)
		}
	}
}

// serverTime returns the processor time that Redis has used.
func serverTime(b *testing.B, rdb *redis.Client) (spent time.Duration) {
	b.Helper()
	for line := range strings.Lines(rdb.Info(context.WithoutCancel(b.Context()), "cpu").Val()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			spent += time.Duration(seconds * float64(time.Second))
		}
	}
	return spent
}

// clientTime returns the processor time that this process has used.
func clientTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
