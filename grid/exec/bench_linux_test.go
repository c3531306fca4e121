package exec

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// BenchmarkRun compares attempts at a program that does nothing with a loop that has none of their care: a process with
// pipes, and a directory with a link of the program, each time. Four at a time.
func BenchmarkRun(b *testing.B) {
	r := open(b, Limits{})
	program, err := os.ReadFile("/bin/true")
	if err != nil {
		b.Fatal(err)
	}
	exe := filepath.Join(r.ExeDir, "calcA.exe")
	write(b, exe, string(program), 0o755)
	for _, way := range []struct {
		name string
		once func(b *testing.B)
	}{
		{"bare", func(b *testing.B) {
			b.Helper()
			dir, err := os.MkdirTemp(r.JobsDir, "bare") //nolint:usetesting // it is what is measured
			if err != nil {
				b.Fatal(err)
			}
			var out, bad bytes.Buffer
			c := exec.CommandContext(b.Context(), exe)
			c.Dir, c.Env, c.Stdout, c.Stderr = dir, []string{"PATH=/usr/bin:/bin"}, &out, &bad
			if err := c.Run(); err != nil {
				b.Fatal(err)
			}
			if err := os.RemoveAll(dir); err != nil {
				b.Fatal(err)
			}
		}},
		{"run", func(b *testing.B) {
			b.Helper()
			q := wire.JobRequest{JobID: wire.NewGUID(), ClientID: "clientA", ExecName: "calcA"}
			if got, err := r.Run(b.Context(), Attempt{Request: q, Number: 1}); err != nil || got.Status != wire.OK {
				b.Fatal(got, err)
			}
		}},
	} {
		b.Run(way.name, func(b *testing.B) {
			before := cpuUsed(b)
			defer func() { b.ReportMetric(float64((cpuUsed(b)-before).Microseconds())/float64(b.N), "µs-cpu/op") }()
			b.SetParallelism(2) // times the processors: four on two
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					way.once(b)
				}
			})
		})
	}
}

// cpuUsed is the CPU time of this process and of those it has waited for. On a machine where others work, it says more than
// the time that has passed.
func cpuUsed(b *testing.B) (used time.Duration) {
	b.Helper()
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			b.Fatal(err)
		}
		used += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return used
}
