package main

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/cli/own"
	"github.com/batchfleet/batchfleet/processor/custom"
	"github.com/batchfleet/batchfleet/scratch"
)

// manyKinds is how many kinds the file has.
const manyKinds = 1000

// kindsFileSection measures what a file of many kinds adds to the start of a worker: it is read and checked,
// their programs are looked for, and each has a handler.
func kindsFileSection(_ context.Context, r *report) error {
	var text strings.Builder
	for i := range manyKinds {
		fmt.Fprintf(&text, `[thumbnail-%d]
description = "first page as a PNG"
command = ["true", "-png", "-r", "{params.dpi}", "-f", "1", "-l", "1", "{input}", "{output}/page"]
outputs = ["*.png"]
timeout = "2m"
memory = "1GiB"
retries = 3
backoff = "10s..10m"
progress = '^page (\d+) of (\d+)'
[thumbnail-%d.params.dpi]
type = "integer"
default = 60
min = 10
max = 600
`, i, i)
	}
	log := slog.New(slog.DiscardHandler)
	root, err := scratch.Open(r.dir, log)
	if err != nil {
		return err
	}
	var took, cpu, memory []float64
	for range 9 {
		before := liveHeap()
		began, used := time.Now(), ownCPU()
		all, err := openKinds(r.dir, text.String())
		if err != nil {
			return err
		}
		handlers := own.Handlers(all, custom.Handler{Store: new(memoryStore), Scratch: root, Log: log})
		took, cpu = append(took, float64(time.Since(began))/1e6), append(cpu, float64(ownCPU()-used)/1e6)
		memory = append(memory, liveHeap()-before)
		runtime.KeepAlive(handlers)
	}
	r.add("file of 1000 kinds", float64(text.Len())/(1<<10), "KiB", bar{})
	r.add("read, programs found, handlers made: median of 9", median(took), "ms", atMost(100))
	r.add("… processor time", median(cpu), "ms", bar{})
	r.add("memory of a kind and its handler", median(memory)/manyKinds/(1<<10), "KiB", bar{})
	return root.Close()
}

func liveHeap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
