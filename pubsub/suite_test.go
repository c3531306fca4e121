package pubsub

import (
	"testing"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
	"github.com/batchfleet/batchfleet/worker/workertest"
)

func TestSourceIsASource(t *testing.T) {
	t.Parallel()
	workertest.Source(t, func(t *testing.T) workertest.Queue {
		_, l := startEmulator(t)
		p := publisher(t, l.Addr())
		return workertest.Queue{Source: source(t, l.Addr()), Submit: func(t *testing.T, job jobs.Job) { publish(t, p, job) }}
	})
}

func TestPriorityIsASource(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it waits for seconds")
	for _, name := range []string{"normal", "priority"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			workertest.Source(t, func(t *testing.T) workertest.Queue {
				_, p, to, priority := startBoth(t)
				for _, src := range []worker.Source{p.Priority, p.Normal} {
					src.(*Source).grace = replyGrace // nothing is on its way where calls are called off
				}
				if name == "priority" {
					to = priority
				}
				return workertest.Queue{Source: p, Submit: func(t *testing.T, job jobs.Job) { publish(t, to, job) }}
			})
		})
	}
}
