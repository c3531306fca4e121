package gateway_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/wire"
)

// batching gives a worker eight slots and a control plane whose calls take a second, and nine jobs of a minute:
// what comes meanwhile waits for the next call.
func (r *rig) batching() {
	r.slots, r.plane.batches, r.plane.takes = 8, true, time.Second
	r.handler = r.lasting(time.Minute)
	for i := range 9 {
		r.plane.submit(fmt.Sprintf("j%d", i))
	}
}

// atLeases calls f when all slots ask for jobs, and has that call go wrong as it says.
func (r *rig) atLeases(f func() string) {
	r.plane.fault = func(route string, n int) string {
		switch {
		case route == "lease" && n == 1: // of a slot that may be alone
			time.Sleep(time.Second) // the others wait then
			return "500"
		case route == "lease" && n == 2:
			return f()
		}
		return ""
	}
}

// wantAllFinished checks that each job has one result, and that nothing is left on disk.
func (r *rig) wantAllFinished() {
	r.t.Helper()
	for i := range 9 {
		if j := r.plane.job(fmt.Sprintf("j%d", i)); j.status != "finished" || j.retries != 0 {
			r.t.Errorf("job j%d is %s, with %d retries", i, j.status, j.retries)
		}
	}
	if n := len(r.plane.times("result")); n < 9 {
		r.t.Errorf("%d results", n)
	}
	if left := r.entries(); len(left) != 0 {
		r.t.Errorf("left on disk: %v\nlog:\n%s", left, r.log)
	}
}

func TestK18SlotsThatWaitAtTheSameTimeShareRequests(t *testing.T) {
	t.Parallel()
	test(t, func(t *testing.T, r *rig) {
		r.batching()
		_ = r.work(func() { time.Sleep(10 * time.Minute) })
		r.wantAllFinished()
		// A slot that is alone asks for a job, without a number.
		first, second := 1, 1
		if most := r.plane.asks[0].Max; most != nil {
			first = *most
		}
		if most := r.plane.asks[1].Max; most != nil {
			second = *most
		}
		if first < 1 || first > 8 || first < 8 && first+second != 8 { // one for all leaves none to wait
			t.Errorf("the first two requests, of 8 slots, ask for %d and %d jobs", first, second)
		}
		// The first job of eight, and the ninth, end alone, and of others those that find no request on its way.
		if n := r.plane.calls["result"] + r.plane.calls["results"]; n > 7 || r.plane.calls["results"] == 0 {
			t.Errorf("%d requests had one result, %d several", r.plane.calls["result"], r.plane.calls["results"])
		}
		if n := r.plane.calls["heartbeats"]; n == 0 {
			t.Error("no heartbeats share a request")
		}
	})
}

func TestK18GatewayOfBeforeBatchesGetsEachReportAlone(t *testing.T) {
	t.Parallel()
	test(t, func(t *testing.T, r *rig) {
		r.batching()
		r.plane.batches = false
		_ = r.work(func() { time.Sleep(10 * time.Minute) })
		r.wantAllFinished()
		if n := r.plane.calls["results"] + r.plane.calls["heartbeats"]; n != 0 {
			t.Errorf("%d requests were batches", n)
		}
		if !slices.ContainsFunc(r.plane.asks[1:], func(ask wire.LeaseRequest) bool { return ask.Max != nil }) {
			t.Error("no request was for several jobs, so the gateway was not asked whether it knows them")
		}
	})
}

// Behind one address there may be gateways of two versions.
func TestK18GatewayThatKnowsNoBatchesAnyMore(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{"no route", "404 page"} {
		t.Run(wrong, func(t *testing.T) {
			t.Parallel()
			test(t, func(t *testing.T, r *rig) {
				r.batching()
				r.plane.fault = func(route string, _ int) string {
					if route == "results" || route == "heartbeats" {
						return wrong
					}
					return ""
				}
				_ = r.work(func() { time.Sleep(10 * time.Minute) })
				r.wantAllFinished()
				if n := r.plane.calls["heartbeats"] + r.plane.calls["results"]; n == 0 || n > 4 {
					t.Errorf("%d batches were tried", n)
				}
			})
		})
	}
}

func TestK18BatchOfResultsThatIsCutIsDeliveredAgain(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{"cut", "lost", "truncated", "500"} {
		t.Run(wrong, func(t *testing.T) {
			t.Parallel()
			test(t, func(t *testing.T, r *rig) {
				r.batching()
				r.plane.fault = func(route string, n int) string {
					if route == "results" && n == 1 {
						return wrong
					}
					return ""
				}
				_ = r.work(func() { time.Sleep(20 * time.Minute) })
				r.wantAllFinished()
				once, again := 0, 0
				for _, e := range r.plane.said() {
					if strings.HasPrefix(e, "result") {
						if strings.HasSuffix(e, "again") {
							again++
						} else {
							once++
						}
					}
				}
				if once != 9 || (again > 0) != (wrong == "lost" || wrong == "truncated") {
					t.Errorf("%d results were recorded, %d came again", once, again)
				}
			})
		})
	}
}

// An entry is deleted by the verdict on it, not by that on its batch.
func TestK18OneResultOfABatchIsRefused(t *testing.T) {
	t.Parallel()
	test(t, func(t *testing.T, r *rig) {
		r.batching()
		_ = r.work(func() {
			time.Sleep(30 * time.Second)
			r.plane.do(func() {
				j := r.plane.jobs["j3"] // it is taken back
				j.reaped[j.lease], j.lease, j.status = true, "", "failed"
			})
			time.Sleep(10 * time.Minute)
		})
		for i := range 9 {
			if j := r.plane.job(fmt.Sprintf("j%d", i)); (j.status == "finished") == (i == 3) {
				t.Errorf("job j%d is %s", i, j.status)
			}
		}
		if late := r.files("late"); len(late) != 1 || !strings.Contains(late[0], "j3") {
			t.Errorf("kept %v, want the result of j3", late)
		}
	})
}

// The response to a request for several jobs is lost: the same request gets all of them again.
func TestK18LeasesOfALostResponseComeAgain(t *testing.T) {
	t.Parallel()
	test(t, func(t *testing.T, r *rig) {
		r.batching()
		r.atLeases(func() string { return "lost" })
		_ = r.work(func() { time.Sleep(20 * time.Minute) })
		r.wantAllFinished()
		if n := len(slices.DeleteFunc(r.plane.said(), func(e string) bool { return !strings.HasSuffix(e, "again") })); n != 7 {
			t.Errorf("%d leases came again, want 7", n)
		}
	})
}

// A worker that is stopped while its request is on its way hands back what that brings.
func TestK18NoJobIsLeftWithoutASlot(t *testing.T) {
	t.Parallel()
	test(t, func(t *testing.T, r *rig) {
		r.batching()
		r.handler = untilStopped
		r.plane.takes = gateway.CancelGrace / 2 // the response comes while a canceled request may go on
		if err := r.work(func() { time.Sleep(r.plane.takes + r.plane.takes/2) }); err != nil {
			t.Error(err)
		}
		back := 0
		for i := range 9 {
			if j := r.plane.job(fmt.Sprintf("j%d", i)); j.status != "queued" || j.retries != 0 {
				t.Errorf("job j%d is %s, with %d retries\n%v", i, j.status, j.retries, r.plane.said())
			} else if j.code != "" {
				back++
			}
		}
		if back != 8 {
			t.Errorf("%d jobs were handed back, want 8: the worker has so many slots", back)
		}
		if left := r.entries(); len(left) > 8 || strings.Contains(fmt.Sprint(left), `"running"`) {
			t.Errorf("left on disk: %v", left)
		}
	})
}

func TestK18LeasesThatCannotBeWrittenGoBack(t *testing.T) {
	t.Parallel()
	test(t, func(t *testing.T, r *rig) {
		r.batching()
		r.atLeases(func() string { r.breakDisk(); return "" })
		_ = r.work(func() {
			time.Sleep(30 * time.Second)
			r.mendDisk()
			time.Sleep(20 * time.Minute)
		})
		back := 0
		for i := range 9 {
			j := r.plane.job(fmt.Sprintf("j%d", i))
			if j.status != "finished" {
				t.Errorf("job j%d is %s", i, j.status)
			}
			if j.retries > 0 {
				back++
			}
		}
		if n := len(r.plane.times("failed")); n < 2 || back != n {
			t.Errorf("%d jobs were handed back, and %d jobs have failed once, want those of the second request\n%q", n, back, r.plane.said())
		}
		if left := r.entries(); len(left) != 0 {
			t.Errorf("left on disk: %v", left)
		}
	})
}
