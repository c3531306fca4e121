package leader_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/grid/blob"
	"github.com/batchfleet/batchfleet/grid/leader"
	"github.com/batchfleet/batchfleet/grid/wire"
)

// reports is a Report of an attempt.
func reports(t *testing.T, assigned wire.Frame, b wire.Blob) wire.Frame {
	t.Helper()
	payload, err := json.Marshal(wire.ReportInfo{Checkpoint: &b})
	if err != nil {
		t.Fatal(err)
	}
	return wire.Frame{Type: wire.Report, MsgID: assigned.CorrID, CorrID: assigned.MsgID, Payload: payload}
}

func TestG77NextAttemptGetsCheckpoint(t *testing.T) {
	for name, large := range map[string]int{"of a request in memory": 0, "of a request on disk": 10} {
		t.Run(name, func(t *testing.T) {
			store, err := blob.OpenStore(t.Context(), filepath.Join(t.TempDir(), "blobs"), blob.Options{Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			})
			l := &leader.Leader{Blobs: store}
			if large > 0 {
				l.Dir, l.LargeBody = t.TempDir(), large
			}
			r := start(t, l)
			data, b := contentOf(t, 1000, 1)
			b.Name = "checkpoint.tar"
			if err := store.Put(t.Context(), b.SHA256, b.Size, bytes.NewReader(data)); err != nil {
				t.Fatal(err)
			}
			client := r.client("clientA", 1, every...)
			id, submit := submission("clientA", "calcA", "x")
			client.send(submit)
			client.next()
			elsewhere := b
			elsewhere.SHA256 = strings.Repeat("0a", 32)
			for _, step := range []struct {
				has    bool        // the attempt is given the checkpoint
				report []wire.Blob // of it
			}{{false, []wire.Blob{elsewhere, b}}, {true, []wire.Blob{elsewhere}}, {true, nil}} { // what the leader does not have does not count
				w := r.worker(1, append(slices.Clone(every), wire.FeatureAttempt)...)
				f := w.next()
				want := submit.Payload
				if step.has {
					want = wire.AssignPayload(submit.Payload, f.Subject, 1, &b)
				}
				if f.MsgID != id || !bytes.Equal(f.Payload, want) {
					t.Fatalf("the worker is given %s %s, want %s", f.MsgID, f.Payload, want)
				}
				for _, b := range step.report {
					w.send(reports(t, f, b))
				}
				w.send(wire.Frame{Type: wire.Cancel, MsgID: f.CorrID, CorrID: id}) // back to the leader
			}
			// Also in the result of a submission: the client's digest is that of what it has submitted.
			client.send(submit)
			if f := client.next(); f.Type != wire.SubmitAck {
				t.Errorf("the same request again is answered with %s %s", f.Type, f.Payload)
			}
		})
	}
}

func TestG77ABadCheckpointEndsTheConnection(t *testing.T) {
	r := start(t, &leader.Leader{})
	client, w := r.client("clientA", 1, every...), r.worker(1, every...)
	_, submit := submission("clientA", "calcA", "x")
	client.send(submit)
	f := w.next()
	w.send(reports(t, f, wire.Blob{SHA256: "../../etc", Size: 1}))
	for f = w.next(); f.Type != wire.Error; f = w.next() {
	}
	var info wire.ErrorInfo
	if err := json.Unmarshal(f.Payload, &info); err != nil || info.Code != wire.CodeProtocol || !strings.Contains(info.Message, "Sha256") {
		t.Errorf("it is answered with %s", f.Payload)
	}
}
