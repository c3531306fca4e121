package control_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestK17LinesOfAHeartbeatAreCutAndMadeHarmless(t *testing.T) {
	r := newKindRig(t, nil)
	w := r.worker()
	id := r.submitKind("thumbnail")
	g := w.leaseOf("/calc/thumbnail/compute/jobs/lease", "thumbnail")
	if a := w.reportOf("thumbnail", "heartbeat", id, wire.HeartbeatRequest{LeaseID: g.LeaseID, Log: &wire.Log{
		Lines: []string{"\x1b[31mred\u202e", strings.Repeat("x", 2000), "", "a\nb"},
	}}); a.status != 200 {
		t.Fatalf("answered %d %s", a.status, a.body)
	}
	many := make([]string, wire.MaxLogLines+3)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	w.reportOf("thumbnail", "heartbeat", id, wire.HeartbeatRequest{LeaseID: g.LeaseID, Log: &wire.Log{Before: 4, Lines: many}})
	got, err := r.plane.Queue.Lines(t.Context(), jobs.ID(id))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, l := range got {
		lines = append(lines, l.Text)
	}
	want := append([]string{`\x1b[31mred\u202e`, strings.Repeat("x", wire.MaxLogLine), "", "a\nb"}, many[3:]...)
	if !slices.Equal(lines, want) {
		t.Errorf("the log is %q\nwant %q", lines, want)
	}
	refused(t, w.reportOf("thumbnail", "heartbeat", id, wire.HeartbeatRequest{LeaseID: g.LeaseID, Log: &wire.Log{Before: -1, Lines: []string{"a"}}}), 400, wire.InvalidPayload)
}
