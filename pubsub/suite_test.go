package pubsub

import (
	"testing"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
	"github.com/batchfleet/batchfleet/worker/workertest"
)

func TestSourceIsASource(t *testing.T) {
	workertest.Source(t, func(t *testing.T) workertest.Queue {
		_, l := startEmulator(t)
		p := publisher(t, l.Addr())
		return workertest.Queue{Source: source(t, l.Addr()), Submit: func(t *testing.T, job jobs.Job) { publish(t, p, job) }}
	})
}

func TestPriorityIsASource(t *testing.T) {
	for _, name := range []string{"normal", "urgent"} {
		t.Run(name, func(t *testing.T) {
			workertest.Source(t, func(t *testing.T) workertest.Queue {
				_, p, to, urgent := startBoth(t)
				for _, src := range []worker.Source{p.Urgent, p.Normal} {
					src.(*Source).grace = replyGrace // nothing is on its way where calls are called off
				}
				if name == "urgent" {
					to = urgent
				}
				return workertest.Queue{Source: p, Submit: func(t *testing.T, job jobs.Job) { publish(t, to, job) }}
			})
		})
	}
}
