package leader_test

import (
	"encoding/json"
	"testing"

	"github.com/batchfleet/batchfleet/grid/leader"
	"github.com/batchfleet/batchfleet/grid/wire"
)

func TestG16ResultOfAWorkerGoesToTheClient(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		r := start(t, &leader.Leader{Dir: dir})
		client, worker := r.client("clientA", 8), r.worker(1)
		id, submit := submission("clientA", "calcA", "1", "2")
		client.send(submit)
		assign := worker.next()
		if assign.Type != wire.AssignJob || assign.MsgID != id || string(assign.Payload) != string(submit.Payload) || !assign.CorrID.IsZero() {
			t.Fatalf("the worker was sent %+v", assign)
		}
		worker.send(ok(assign), credit(1))
		result := client.next()
		var got wire.JobResult
		if err := json.Unmarshal(result.Payload, &got); err != nil || result.Type != wire.Result || result.MsgID != id || result.CorrID != id || got.Stdout != "done 2" {
			t.Errorf("the client was sent %+v: %+v (%v)", result, got, err)
		}
		if want := "job.result.clientA." + id.N(); result.Subject != want {
			t.Errorf("its subject is %q, want %q", result.Subject, want)
		}
	}
}

// BenchmarkNullJobs has 64 jobs of one client under way, which a worker ends at once.
func BenchmarkNullJobs(b *testing.B) {
	for name, dir := range map[string]string{"memory": "", "durable": b.TempDir()} {
		b.Run(name, func(b *testing.B) {
			r := start(b, &leader.Leader{Dir: dir})
			client, worker := r.client("clientA", 64), r.worker(64)
			go func() {
				for {
					f, err := worker.Receive()
					if err != nil {
						return
					}
					out := []wire.Frame{ok(f), credit(1)}
					for worker.Ready() {
						if f, err = worker.Receive(); err != nil {
							return
						}
						out = append(out, ok(f), credit(1))
					}
					if worker.Send(out...) != nil {
						return
					}
				}
			}()
			b.ResetTimer()
			sent := 0
			for ; sent < min(64, b.N); sent++ {
				_, submit := submission("clientA", "calcA")
				client.send(submit)
			}
			for got := 0; got < b.N; got++ {
				client.next()
				if sent < b.N {
					_, submit := submission("clientA", "calcA")
					client.send(submit)
					sent++
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}
