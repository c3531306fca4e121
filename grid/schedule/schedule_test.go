package schedule_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/schedule"
	"github.com/batchfleet/batchfleet/grid/wire"
)

func request(client, exec string) schedule.Submission {
	id := wire.NewGUID()
	body := []byte(fmt.Sprintf(`{"JobId":%q,"ClientId":%q,"ExecName":%q,"Args":[],"Files":[]}`, id, client, exec))
	return schedule.Submission{ID: id, Exec: exec, Body: schedule.Body{Bytes: body, Size: len(body)}}
}

func TestG30JobGoesToAWorkerAndItsResultToTheClient(t *testing.T) {
	c := schedule.New(schedule.Config{Epoch: time.Now()})
	c.ClientHello(1, 1, "a", 2, nil)
	c.WorkerHello(2, 2, schedule.WorkerInfo{ID: wire.NewGUID(), Pattern: "job.assign.*"})
	s := request("a", "calc")
	c.Submit(3, 1, s)
	if out, _ := c.Take(); len(out) != 0 {
		t.Fatalf("without credit: %+v", out)
	}
	c.Credit(4, 2, 1)
	out, _ := c.Take()
	if len(out) != 1 || out[0].Op != schedule.Assign || out[0].Peer != 2 || out[0].Job != s.ID {
		t.Fatalf("with credit: %+v", out)
	}
	c.Ack(5, 2, s.ID, wire.GUID{}, schedule.Ended{OK: true, Body: schedule.Body{Bytes: []byte("{}"), Size: 2}})
	if out, _ = c.Take(); len(out) != 1 || out[0].Op != schedule.Result || out[0].Peer != 1 || string(out[0].Body.Bytes) != "{}" {
		t.Fatalf("after the result: %+v", out)
	}
}

func TestG34RenewWithoutLimitLeavesCredit(t *testing.T) {
	c := schedule.New(schedule.Config{Epoch: time.Now()})
	c.ClientHello(1, 1, "a", 2, nil)
	c.WorkerHello(2, 2, schedule.WorkerInfo{ID: wire.NewGUID(), Pattern: "job.assign.*", Features: []string{wire.FeatureAccept}})
	c.Credit(3, 2, 1)
	c.Renew(4, 2, wire.RenewInfo{})
	c.Submit(5, 1, request("a", "calc"))
	if out, _ := c.Take(); len(out) != 1 || out[0].Op != schedule.Assign {
		t.Fatalf("a worker with credit is given %+v, want the job", out)
	}
}

func BenchmarkNullJob(b *testing.B) {
	c := schedule.New(schedule.Config{Epoch: time.Now()})
	c.ClientHello(1, 1, "a", 64, nil)
	c.WorkerHello(2, 2, schedule.WorkerInfo{ID: wire.NewGUID(), Pattern: "job.assign.*"})
	c.Credit(2, 2, 64)
	s := request("a", "calc")
	b.ReportAllocs()
	for i := range b.N {
		s.ID = wire.NewGUID()
		c.Submit(schedule.Moment(i), 1, s)
		c.Take()
		c.Ack(schedule.Moment(i), 2, s.ID, wire.GUID{}, schedule.Ended{OK: true, Body: s.Body})
		c.Credit(schedule.Moment(i), 2, 1)
		c.Written(schedule.Moment(i), 1, []wire.GUID{s.ID})
		c.Take()
	}
}
