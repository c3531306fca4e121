package gateway_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestK11ACheckpointOfAnAgentIsTheGateways(t *testing.T) {
	const object = "results/j1/checkpoint.tar"
	for _, tt := range []struct {
		name         string
		noCheckpoint wire.Code // of the gateway
		earlier      string    // checkpoint in the gateway
		delete       bool      // the handler deletes it in the end
		found, kept  string    // by the handler; in the gateway at the end
	}{
		{"the first attempt", "", "", false, "", "new state"},
		{"one that goes on", "", numbers(1000), false, numbers(1000), "new state"},
		{"one that deletes it", "", "earlier", true, "earlier", ""},
		{"a gateway of an older version", wire.NotFound, "", false, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			test(t, func(t *testing.T, r *rig) {
				p := &filePlane{breaks: 600, checkpoint: tt.earlier, noCheckpoint: string(tt.noCheckpoint)}
				none := jobs.Kind("")
				r.kind, r.kinds = &none, []jobs.Kind{"thumbnail"}
				a := r.agent(p)
				a.EncodeKind = func(_ jobs.Kind, result []byte) (wire.ResultRequest, error) {
					return wire.ResultRequest{Result: result}, nil
				}
				store := a.HandlerStore()
				read := func(ctx context.Context) string {
					content, err := store.Open(ctx, object)
					if errors.Is(err, fs.ErrNotExist) {
						return ""
					}
					if err != nil {
						t.Errorf("open: %v", err)
						return ""
					}
					text, err := io.ReadAll(content)
					if err = errors.Join(err, content.Close()); err != nil {
						t.Error(err)
					}
					return string(text)
				}
				p.input = "x"
				p.asked = []int64{-1, -1} // so that no request is lost
				r.handler = func(ctx context.Context, job jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
					if got := read(ctx); got != tt.found {
						t.Errorf("the handler has found %d bytes %.20q, want %.20q", len(got), got, tt.found)
					}
					if err := store.Put(ctx, object, strings.NewReader("new state")); err != nil {
						t.Errorf("put: %v", err)
					}
					if tt.delete {
						if err := store.Delete(ctx, object); err != nil {
							t.Errorf("delete: %v", err)
						}
					}
					return r.put(ctx, job)
				}
				r.workWith(a, "thumbnail", func() { time.Sleep(10 * time.Minute) })
				if p.result == nil || p.checkpoint != tt.kept {
					t.Errorf("result %+v, and the gateway has the checkpoint %.20q, want %.20q\n%s", p.result, p.checkpoint, tt.kept, r.log)
				}
				if len(tt.earlier) > p.breaks && !slices.Contains(p.asked, 600) {
					t.Errorf("asked for it from %v, want that it goes on from 600", p.asked)
				}
				// Without a lease nothing is asked of the gateway.
				asked := len(p.asked)
				if _, err := store.Open(t.Context(), object); !errors.Is(err, jobs.ErrLeaseLost) || len(p.asked) != asked {
					t.Errorf("opened without a lease: %v", err)
				}
			})
		})
	}
}
