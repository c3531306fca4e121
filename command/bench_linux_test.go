package command_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/command"
)

// BenchmarkTrue compares a run of a program that does nothing with what a loop would do that
// has none of the care of this package: a process with pipes, and a directory, each time.
func BenchmarkTrue(b *testing.B) {
	const program = "/bin/true"
	run := func(alone bool) func(b *testing.B, dir string) {
		return func(b *testing.B, dir string) {
			b.Helper()
			c := &command.Command{
				Path: program, Dir: dir, Env: []string{"PATH=/usr/bin:/bin"}, Stdin: strings.NewReader("{}"), Alone: alone,
				Output: func(command.Stream, []byte, bool) error { return nil },
			}
			if _, err := c.Run(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, way := range []struct {
		name string
		once func(b *testing.B, dir string)
		mark bool // markers only
	}{
		{"bare", func(b *testing.B, dir string) {
			b.Helper()
			var out, err bytes.Buffer
			c := exec.CommandContext(context.Background(), program)
			c.Dir, c.Env, c.Stdin, c.Stdout, c.Stderr = dir, []string{"PATH=/usr/bin:/bin"}, strings.NewReader("{}"), &out, &err
			if err := c.Run(); err != nil {
				b.Fatal(err)
			}
		}, false},
		{"alone", run(true), false},
		{"cgroup", run(false), false},
		{"marker", run(false), true},
	} {
		b.Run(way.name, func(b *testing.B) {
			if way.mark {
				defer command.WithoutCgroups()()
			}
			root := b.TempDir()
			before := cpuUsed(b)
			defer func() { b.ReportMetric(float64((cpuUsed(b)-before).Microseconds())/float64(b.N), "µs-cpu/op") }()
			once := func() {
				dir, err := os.MkdirTemp(root, "") //nolint:usetesting // it is what is measured
				if err != nil {
					b.Fatal(err)
				}
				way.once(b, dir)
				if err := os.RemoveAll(dir); err != nil {
					b.Fatal(err)
				}
			}
			b.SetParallelism(4) // times the processors
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					once()
				}
			})
		})
	}
}

// cpuUsed is the CPU time of this process and of those it has waited for. On a machine where others work, it
// says more than the time that has passed.
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
