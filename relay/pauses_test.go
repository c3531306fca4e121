package relay

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

func failed(code string) jobs.Outcome { return jobs.Outcome{State: jobs.Failed, Code: code} }

func TestR30KindWaitsAfterFailuresInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPauses(slog.New(slog.DiscardHandler))
		var woken atomic.Int64
		p.over = func() { woken.Add(1) }
		for range failuresInRow - 1 {
			p.ended("motion", failed("PROGRAM_FAILED"))
			p.ended("scene", failed("INVALID_PARAMS")) // is the fault of the request
			p.ended("scene", jobs.Outcome{State: jobs.Canceled})
			p.ended("scene", failed("JOB_TIMEOUT"))
			p.ended("scene", failed(codeInputDamaged))
		}
		if p.paused("motion") {
			t.Error("paused too early")
		}
		p.ended("motion", failed("GPU_OOM"))
		// Tasks that ran at the same time end in the pause, and do not lengthen it.
		p.ended("motion", failed("PROGRAM_FAILED"))
		if !p.paused("motion") || p.paused("scene") || p.paused("music") {
			t.Errorf("paused: motion %t, scene %t, music %t", p.paused("motion"), p.paused("scene"), p.paused("music"))
		}
		for _, want := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 30 * time.Minute, 30 * time.Minute} {
			if got := time.Until(p.until("motion")); got != want {
				t.Errorf("a pause of %s, want %s", got, want)
			}
			before := woken.Load()
			time.Sleep(want - 1)
			synctest.Wait()
			if !p.paused("motion") || woken.Load() != before {
				t.Errorf("a pause of %s is over before its time", want)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if p.paused("motion") || woken.Load() != before+1 {
				t.Errorf("a pause of %s does not end", want)
			}
			p.ended("motion", failed("OUTPUT_MISSING")) // the next one fails as well
		}
		// Success of one that still ran ends the pause at once.
		before := woken.Load()
		p.ended("motion", jobs.Outcome{State: jobs.Succeeded})
		synctest.Wait()
		if p.paused("motion") || woken.Load() != before+1 {
			t.Error("success does not end a pause")
		}
		for range failuresInRow - 1 {
			p.ended("motion", failed("PROGRAM_FAILED"))
		}
		if p.paused("motion") {
			t.Error("success does not begin the count again")
		}
		p.ended("motion", failed("PROGRAM_FAILED"))
		if got := time.Until(p.until("motion")); got != time.Minute {
			t.Errorf("after success a pause of %s, want a minute", got)
		}
		p.stop()
	})
}
