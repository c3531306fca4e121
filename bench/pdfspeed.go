package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"time"
)

// speedRounds is how often each reader reads each manual, in turns.
const speedRounds = 5

// manualPages are the sizes of the manuals whose reading is timed. The corpus
// gives those that come nearest.
var manualPages = []int{350, 1300, 2400}

// A manual is a document for timing.
type manual struct {
	document
	pages int
}

// manuals returns the documents nearest to manualPages.
func (b *pdfBench) manuals(ctx context.Context) ([]manual, error) {
	refs, err := newReferences(ctx)
	if err != nil {
		return nil, err
	}
	nearest := make([]manual, len(manualPages))
	for _, d := range b.documents {
		if d.group != "latin" {
			continue
		}
		poppler, _, err := refs.of(ctx, d)
		if err != nil {
			return nil, err
		}
		for i, want := range manualPages {
			if nearest[i].pages == 0 || distance(poppler.Pages, want) < distance(nearest[i].pages, want) {
				nearest[i] = manual{d, poppler.Pages}
			}
		}
	}
	if nearest[0].pages == 0 {
		return nil, errors.New("the corpus has no manuals")
	}
	return nearest, nil
}

func distance(a, b int) int { return max(a-b, b-a) }

// pdfSpeed reports pages per second of processor time, user and system, of the
// whole process with its start. The output goes to /dev/null.
func pdfSpeed(ctx context.Context, b *pdfBench) error {
	manuals, err := b.manuals(ctx)
	if err != nil {
		return err
	}
	for _, m := range manuals {
		if err := b.speedOf(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

func (b *pdfBench) speedOf(ctx context.Context, m manual) error {
	var rate, toPoppler, toMupdf []float64
	var memory int64
	for range speedRounds {
		var cpu [3]float64
		for i, r := range []reader{ours, pdftotext, mutool} {
			got := r.read(ctx, m.document, 10*time.Minute, b.null)
			if got.err != nil {
				return fmt.Errorf("time %s on %s: %w", r.name, m.path, got.err)
			}
			cpu[i] = got.cpu.Seconds()
			if got.summary != nil {
				memory = max(memory, got.summary.Memory)
			}
		}
		rate = append(rate, float64(m.pages)/cpu[0])
		toPoppler = append(toPoppler, cpu[1]/cpu[0])
		toMupdf = append(toMupdf, cpu[2]/cpu[0])
	}
	what := fmt.Sprintf("%s, %d pages", m.origin, m.pages)
	b.add(what, median(rate), "pages/s of CPU", bar{})
	b.add(what+", by pdftotext", median(toPoppler), "times", atLeast(3))
	b.add(what+", by mutool", median(toMupdf), "times", atLeast(1.3))
	b.add(what+", memory", float64(memory)/(1<<20), "MiB", bar{})
	return nil
}

// pdfWorkers compares two workers on two cores with one on one, on the largest
// manual. The text must not depend on them.
func pdfWorkers(ctx context.Context, b *pdfBench) error {
	manuals, err := b.manuals(ctx)
	if err != nil {
		return err
	}
	m := manuals[len(manuals)-1]
	one, two := withWorkers(1).read(ctx, m.document, 10*time.Minute, nil), withWorkers(2).read(ctx, m.document, 10*time.Minute, nil)
	if err := errors.Join(one.err, two.err); err != nil {
		return fmt.Errorf("read %s: %w", m.path, err)
	}
	if !bytes.Equal(one.text, two.text) {
		return fmt.Errorf("read %s: the text depends on the number of workers", m.path)
	}
	var wall, cpu []float64
	for range 2 * speedRounds { // a wall clock is shared with whatever else runs
		one, two = withWorkers(1).read(ctx, m.document, 10*time.Minute, b.null), withWorkers(2).read(ctx, m.document, 10*time.Minute, b.null)
		if err := errors.Join(one.err, two.err); err != nil {
			return fmt.Errorf("time %s: %w", m.path, err)
		}
		wall = append(wall, one.wall.Seconds()/two.wall.Seconds())
		cpu = append(cpu, two.cpu.Seconds()/one.cpu.Seconds())
	}
	what := fmt.Sprintf("%s, %d pages, one core by two", m.origin, m.pages)
	b.add(what+", wall time", median(wall), "times", atLeast(1.7))
	b.add(m.origin+", two cores by one, processor time", median(cpu), "times", bar{})
	if two.summary != nil {
		b.add(m.origin+", two cores, memory", float64(two.summary.Memory)/(1<<20), "MiB", bar{})
	}
	return nil
}

// withWorkers is our reader with n pages at a time on n cores. On one, garbage
// is not collected on another meanwhile.
func withWorkers(n int) reader {
	return reader{ours.name, func(ctx context.Context, d document) *exec.Cmd {
		cmd := ours.command(ctx, d)
		cmd.Env = append(cmd.Env, workersVar+"="+strconv.Itoa(n), "GOMAXPROCS="+strconv.Itoa(n))
		return cmd
	}}
}
