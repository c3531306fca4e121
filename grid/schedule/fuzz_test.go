package schedule

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/journal"
)

// histories returns records of all kinds, and the jobs that they are about.
func histories(tb testing.TB) (all [][]byte, known map[wire.GUID]bool) {
	tb.Helper()
	c := New(Config{Epoch: time.Unix(1_800_000_000, 0), MaxAttempts: 1})
	known = map[wire.GUID]bool{}
	take := func() {
		effects, records := c.Take()
		for _, e := range effects {
			known[e.Job] = true
		}
		for _, r := range records {
			all = append(all, bytes.Clone(r))
		}
	}
	c.Recovered(0)
	c.ClientHello(1, 1, "a", 9, nil)
	c.WorkerHello(1, 2, worker(2, wire.FeatureAccept, wire.FeatureArray))
	c.Credit(1, 2, 5)
	now, id := c.now, wire.GUID{}
	for i := range 6 {
		s := request("a")
		id = s.ID
		known[id] = true
		switch i {
		case 1:
			s.Options = wire.Options{Priority: 3, RetryOn: []string{wire.ReasonExit}, OnDisconnect: "cancel", TimeoutMs: 5}
			s.NotAfter = time.Hour
		case 3:
			s.Body.Blobs = bytes.Repeat([]byte("b"), 64)
		case 2:
			s.Options, s.Last = wire.Options{Array: "0-9"}, 9
			for k := range int64(10) {
				known[wire.ElementID(id, k)] = true
			}
		}
		c.Submit(now, 1, s)
		take()
	}
	for _, j := range c.jobs {
		if j.run != nil && j.seq == 1 {
			c.Ack(now, 2, j.id, j.run.id, Ended{OK: true, Body: Body{Bytes: []byte("{}"), Size: 2}})
			c.Delivered(now, 1, []wire.GUID{j.id})
			break
		}
	}
	c.Cancel(now, "a", id)
	take()
	c.Tick(3 * time.Second) // attempts become dead letters
	take()
	c.Requeue(c.now, c.dead[0].id)
	c.Drop(c.now, c.dead[0].id)
	take()
	return append(all, records(c)...), known
}

// FuzzF5Replay replays records that are not what a leader has written.
func FuzzF5Replay(f *testing.F) {
	all, _ := histories(f)
	for _, r := range all {
		f.Add(r, r)
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var before, after runtime.MemStats
		c := New(Config{Epoch: time.Unix(1_800_000_100, 0), MaxAttempts: 1})
		runtime.ReadMemStats(&before)
		for _, r := range append(slices.Clip(all), first, second) {
			_ = c.Replay(r)
		}
		c.Recovered(0)
		c.Take()
		audit(t, c)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20+uint64(100*(len(first)+len(second))) {
			t.Errorf("%d bytes were allocated for records of %d and %d", n, len(first), len(second))
		}
		again := New(c.cfg)
		for _, r := range records(c) {
			if err := again.Replay(r); err != nil {
				t.Errorf("a record of its own cannot be replayed: %v", err)
			}
		}
	})
}

// FuzzF5DamagedJournal changes bytes of a leader's journal.
func FuzzF5DamagedJournal(f *testing.F) {
	all, known := histories(f)
	for _, at := range []int{0, 20, 100, 1000, 3000} {
		f.Add(uint16(at), []byte{0xff, 0xff, 0xff, 0x7f})
		f.Add(uint16(at), make([]byte, 8))
	}
	f.Fuzz(func(t *testing.T, at uint16, change []byte) {
		dir := t.TempDir()
		opts := journal.Options{Log: testLog(t)}
		j, err := journal.Open(dir, opts, func([]byte) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			j.Append(r)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(dir, "segment.*"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%d segments, %v", len(files), err)
		}
		file, err := os.OpenFile(files[0], os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt(change, int64(at)); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		c := New(Config{Epoch: time.Unix(1_800_000_100, 0), MaxAttempts: 1})
		if j, err = journal.Open(dir, opts, c.Replay); err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		c.Recovered(0)
		c.Take()
		audit(t, c)
		for id := range c.jobs {
			if !known[id] {
				t.Errorf("job %s was never there", id)
			}
		}
	})
}
