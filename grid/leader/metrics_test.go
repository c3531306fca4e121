package leader_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/grid/leader"
	"github.com/batchfleet/batchfleet/grid/wire"
)

func TestG02BrokenConnectionsAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	r := start(t, &leader.Leader{Metrics: leader.NewMetrics(registry)})
	_, submit := submission("clientA", "calcA")
	hello := wire.Frame{Type: wire.HelloClient, Subject: "clientA"}
	for _, end := range [][]byte{nil, submit.Append(nil)[:20], {0, 0, 0, 0}} { // orderly, within a frame, no frame
		conn := r.raw()
		if _, err := conn.Write(append(hello.Append(nil), end...)); err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	bad := r.worker(1, every...)
	bad.send(wire.Frame{Type: wire.Renew, Payload: []byte("[]")}) // PROTOCOL
	greedy := r.worker(1, every...)
	for range 20 { // the same, after 16 credits
		if greedy.Send(credit(4)) != nil {
			break
		}
	}
	for _, e := range []*end{bad, greedy} {
		for f, err := e.Receive(); err == nil; f, err = e.Receive() {
			if f.Type != wire.Error {
				t.Errorf("it is sent %s", f.Type)
			}
		}
	}
	r.until("the connections have ended", func() bool { return r.Conns() == 0 })
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "batchfleet_grid_broken_connections_total" {
			if n := f.GetMetric()[0].GetCounter().GetValue(); n != 4 {
				t.Errorf("%v connections are counted as broken, want 4", n)
			}
			return
		}
	}
	t.Error("broken connections are not counted")
}
