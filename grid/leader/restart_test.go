package leader_test

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/leader"
	"github.com/batchfleet/batchfleet/grid/schedule"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/journal"
)

const restartJobs = 1_000_000

// BenchmarkRestart opens a leader with many jobs of 300 bytes in line.
func BenchmarkRestart(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "leader")
	quiet := slog.New(slog.DiscardHandler)
	l := &leader.Leader{Dir: dir, Log: quiet}
	if err := l.Open(b.Context()); err != nil { // makes the directories
		b.Fatal(err)
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	j, err := journal.Open(filepath.Join(dir, "journal"), journal.Options{Log: quiet}, func([]byte) error { return nil })
	if err != nil {
		b.Fatal(err)
	}
	core := schedule.New(schedule.Config{Epoch: time.Now()})
	core.Recovered(0)
	core.ClientHello(1, 1, "clientA", 8, nil)
	var last journal.Ticket
	for i := range restartJobs {
		_, submit := submission("clientA", "calcA", string(make([]byte, 30))+"x")
		core.Submit(schedule.Moment(i)*10_000, 1, schedule.Submission{ID: wire.NewGUID(), Exec: "calcA", Digest: uint64(i) | 1, Body: schedule.Body{Bytes: submit.Payload, Size: len(submit.Payload)}})
		_, records := core.Take()
		for _, r := range records {
			last = j.Append(r)
		}
		if i%10_000 == 0 {
			if err := j.Commit(b.Context(), last, false); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for b.Loop() {
		l := &leader.Leader{Dir: dir, Log: quiet}
		if err := l.Open(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
