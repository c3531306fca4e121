package leader_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/batchfleet/batchfleet/grid/leader"
	"github.com/batchfleet/batchfleet/grid/schedule"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/internal/testrun"
)

func TestG73DamagedJournalIsReported(t *testing.T) {
	for name, damage := range map[string]func(text []byte) []byte{
		"a torn end":             func(text []byte) []byte { return text[:len(text)-7] },
		"a flipped bit":          func(text []byte) []byte { text[len(text)/2] ^= 4; return text },
		"8 KiB of zeros":         func(text []byte) []byte { clear(text[len(text)/2 : len(text)/2+8<<10]); return text },
		"a length of 0xFFFFFFFF": func(text []byte) []byte { copy(text[len(text)/2:], "\xff\xff\xff\xff\xff\xff\xff\xff"); return text },
	} {
		t.Run(name, func(t *testing.T) {
			const jobs = 200
			dir := filepath.Join(t.TempDir(), "leader")
			r := start(t, &leader.Leader{Dir: dir})
			client := r.client("clientA", 4, every...)
			for range jobs {
				_, submit := submission("clientA", "calcA", strings.Repeat("x", 200))
				client.send(submit)
			}
			for acked := 0; acked < jobs; {
				ids, _ := wire.GUIDs(client.next().Payload)
				acked += len(ids)
			}
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			segments, err := filepath.Glob(filepath.Join(dir, "journal", "segment.*"))
			if err != nil || len(segments) != 1 {
				t.Fatal(segments, err)
			}
			text, err := os.ReadFile(segments[0])
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(segments[0], damage(text), 0o600); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			r = start(t, &leader.Leader{Dir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
			var n schedule.Numbers
			if err := r.Do(t.Context(), func(c *schedule.Core) { n = c.Numbers() }); err != nil {
				t.Fatal(err)
			}
			if n.Queued < jobs-60 || n.Queued > jobs {
				t.Errorf("%d of %d jobs are left", n.Queued, jobs)
			}
			r.works()
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			if text := log.String(); n.Queued < jobs && !strings.Contains(text, "level=WARN") && !strings.Contains(text, "level=ERROR") {
				t.Errorf("the log does not say that something is lost:\n%s", text)
			}
		})
	}
}

func TestG73FailedWriteStopsLeader(t *testing.T) {
	testrun.Long(t, "it starts processes")
	dir := filepath.Join(t.TempDir(), "leader")
	c := startChild(t, dir, "", "LEADER_TEST_FILE_BYTES=200000")
	client := c.client("clientA", 4, every...)
	promised := map[wire.GUID]bool{}
	var sending sync.WaitGroup
	_, first := submission("clientA", "calcA")
	client.send(first)
	if f := client.next(); f.Type != wire.SubmitAck {
		t.Fatal(f.Type)
	}
	promised[first.MsgID] = true
	sending.Go(func() {
		for range 2000 {
			if _, submit := submission("clientA", "calcA", strings.Repeat("x", 500)); client.Send(submit) != nil {
				return
			}
		}
	})
	for {
		f, err := client.Receive()
		if err != nil {
			break
		}
		if f.Type == wire.SubmitAck {
			ids, _ := wire.GUIDs(f.Payload)
			for _, id := range ids {
				promised[id] = true
			}
		}
	}
	sending.Wait()
	err := c.cmd.Wait()
	if err == nil || !strings.Contains(c.log.String(), "journal stopped after a failure") {
		t.Fatalf("the leader has ended with %v:\n%s", err, c.log)
	}
	if len(promised) > 2000 {
		t.Fatalf("%d were promised", len(promised))
	}
	r := start(t, &leader.Leader{Dir: dir, MinFree: 1})
	for id := range promised {
		var known bool
		if err := r.Do(t.Context(), func(c *schedule.Core) { _, known = c.Get(id) }); err != nil {
			t.Fatal(err)
		}
		if !known {
			t.Errorf("job %s was promised and is lost", id)
		}
	}
}

func TestG73DiskThatFillsWithinASecondRefusesNewJobs(t *testing.T) {
	l := &leader.Leader{Dir: filepath.Join(t.TempDir(), "leader")}
	r := start(t, l)
	client := r.client("clientA", 4, every...)
	l.DiskFills(true)
	const jobs = 20
	for range jobs {
		_, submit := submission("clientA", "calcA", strings.Repeat("x", 100<<10))
		client.send(submit)
	}
	taken := 0
	for answered := 0; answered < jobs; answered++ {
		if f := client.next(); f.Type == wire.SubmitAck {
			ids, _ := wire.GUIDs(f.Payload)
			taken += len(ids)
			answered += len(ids) - 1
		}
	}
	if taken > 11 {
		t.Errorf("%d jobs of 100 KiB were taken with no space for them", taken)
	}
}

func TestG73FullDiskRefusesNewJobs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "leader")
	l := &leader.Leader{Dir: dir}
	r := start(t, l)
	client, worker := r.client("clientA", 4, every...), r.worker(4, every...)
	id, submit := submission("clientA", "calcA")
	client.send(submit)
	assign := worker.next()
	if f := client.next(); f.Type != wire.SubmitAck {
		t.Fatal(f.Type)
	}
	l.DiskIsFull(true)
	_, late := submission("clientA", "calcA")
	client.send(late)
	f := client.next()
	var info wire.ErrorInfo
	if err := json.Unmarshal(f.Payload, &info); err != nil || f.Type != wire.Error || info.Code != wire.CodeNoSpace || f.CorrID != late.MsgID {
		t.Errorf("a job is answered with %s %+v", f.Type, info)
	}
	worker.send(ok(assign))
	if f := client.next(); f.Type != wire.Result || f.MsgID != id {
		t.Errorf("the job that was taken ends with %s", f.Type)
	}
	l.DiskIsFull(false)
	client.send(late)
	if f := client.next(); f.Type != wire.SubmitAck {
		t.Errorf("with room the job is answered with %s", f.Type)
	}
}
