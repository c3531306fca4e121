package provider_test

import (
	"errors"
	"testing"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

func TestD06FleetPausesKindsThatItKnows(t *testing.T) {
	r := newFleetRig(t)
	ctx := t.Context()
	if _, err := r.st.Submit(ctx, jobs.Job{ID: "a", Kind: "queued"}); err != nil {
		t.Fatal(err)
	}
	if err := r.st.Member(status.Worker{Kinds: []jobs.Kind{"runs"}}).Pulse(ctx, 0, false, ""); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"pdf", "queued", "runs", "runs"} {
		if err := r.fleet.Pause(ctx, kind); err != nil {
			t.Errorf("pause %s: %v", kind, err)
		}
	}
	for _, kind := range []string{"", "none", "unknown", "No Kind", "a\nb"} {
		if err := r.fleet.Pause(ctx, kind); !errors.Is(err, jobapi.ErrNoKind) {
			t.Errorf("pause %q: %v, want ErrNoKind", kind, err)
		}
		if err := r.fleet.Resume(ctx, kind); !errors.Is(err, jobapi.ErrNoKind) {
			t.Errorf("resume %q: %v, want ErrNoKind", kind, err)
		}
	}
	if err := r.fleet.Resume(ctx, "mock"); err != nil { // known and not paused
		t.Error(err)
	}
	all, err := r.fleet.Paused(ctx)
	if err != nil || len(all) != 3 || all[0].Kind != "pdf" || all[1].Kind != "queued" || all[2].Since.IsZero() {
		t.Errorf("paused: %+v, %v", all, err)
	}
}

func TestD05FleetDrainsOneWorker(t *testing.T) {
	r := newFleetRig(t)
	ctx := t.Context()
	if err := r.fleet.DrainWorker(ctx, "none"); !errors.Is(err, jobapi.ErrNoWorker) {
		t.Errorf("unknown worker: %v", err)
	}
	member := r.st.Member(status.Worker{Kinds: []jobs.Kind{"pdf"}, Slots: 1, GPUs: []int{1}})
	pulse := func() bool {
		t.Helper()
		if err := member.Pulse(ctx, 0, false, ""); err != nil {
			t.Fatal(err)
		}
		drain, _ := member.Orders()
		return drain
	}
	pulse()
	all, err := r.fleet.Workers(ctx)
	if err != nil || len(all) != 1 || len(all[0].GPUs) != 1 || all[0].GPUs[0] != "1" {
		t.Fatalf("%+v, %v", all, err)
	}
	if err := r.fleet.DrainWorker(ctx, all[0].ID); err != nil || !pulse() {
		t.Errorf("drain: %v", err)
	}
	if err := r.fleet.ResumeWorker(ctx, all[0].ID); err != nil || pulse() {
		t.Errorf("resume: %v", err)
	}
	if all, err = r.fleet.Workers(ctx); err != nil || all[0].ClockOffset == nil {
		t.Errorf("%+v, %v; want the offset of its clock", all, err)
	}
}
