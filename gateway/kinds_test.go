package gateway_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

// asked returns the kinds that the plane was asked for jobs of.
func (p *plane) asked() (kinds []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, ask := range p.asks {
		for _, kind := range ask.Kinds {
			if !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
	}
	return kinds
}

func TestK17AnAgentGoesOnWithoutTheKindsThatItsGatewayLacks(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		none := jobs.Kind("")
		r.kind, r.kinds = &none, []jobs.Kind{"tally", "thumbnail"}
		r.plane.kinds = []string{"tally"}
		r.adjust = func(w *worker.Worker) {
			w.StartTimeout = time.Minute
			w.Handlers = map[jobs.Kind]worker.Handler{"tally": r.handler, "thumbnail": r.handler}
			w.Pools = []worker.Pool{{Slots: 1}, {Name: "thumbnail", Kinds: []jobs.Kind{"thumbnail"}, Slots: 1}}
		}
		err := r.work(func() {
			time.Sleep(10 * time.Minute)
			if got := r.plane.asked(); !slices.Equal(got, []string{"tally"}) {
				t.Errorf("it asked for jobs of %q, want only of the kind that there is", got)
			}
			r.plane.mu.Lock()
			r.plane.kinds = append(r.plane.kinds, "thumbnail") // the gateway has another kinds file now
			r.plane.mu.Unlock()
			time.Sleep(3 * time.Minute)
			if got := r.plane.asked(); !slices.Equal(got, []string{"tally", "thumbnail"}) {
				t.Errorf("it asked for jobs of %q, want also of the kind that there is now", got)
			}
		})
		if err != nil {
			t.Errorf("the worker ended with %v", err)
		}
		r.wantLogged("so no jobs of it come: add it to the gateway's KINDS_FILE\" kind=thumbnail", "the gateway has the kind now\" kind=thumbnail")
		if n := strings.Count(r.log.String(), "so no jobs of it come"); n != 1 {
			t.Errorf("the log says %d times that there is no such kind, want once\n%s", n, r.log)
		}
	})
}
