package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

// pdfStart reports what a process costs that reads one page, over one that
// reads nothing: the worker starts one for every document. What this program
// initializes next to the reader is in both and does not matter; the
// packages of the reader are counted by themselves.
func pdfStart(ctx context.Context, b *pdfBench) error {
	page, err := b.write("page.pdf", pdftest.Pages("one page\nof two lines").Table(""))
	if err != nil {
		return err
	}
	without := func(variables ...string) reader {
		return reader{"nothing", func(ctx context.Context, _ document) *exec.Cmd {
			cmd := ownCommand(ctx, "read-pdf")
			cmd.Env = append(os.Environ(), variables...)
			return cmd
		}}
	}
	// The trace costs more than what it tells of, so it is a run of its own.
	traced := initialization(without("GODEBUG=inittrace=1").read(ctx, page, readLimit, nil).stderr)
	var whole, more, cpu []float64
	for range 60 {
		e, w := without().read(ctx, page, readLimit, nil), ours.read(ctx, page, readLimit, nil)
		if w.summary == nil || w.summary.Pages != 1 {
			return fmt.Errorf("read one page: %w", w.err)
		}
		whole = append(whole, w.wall.Seconds()*1000)
		more = append(more, (w.wall-e.wall).Seconds()*1000+traced)
		cpu = append(cpu, (w.cpu-e.cpu).Seconds()*1000+traced)
	}
	b.add("start and one page, wall time, median", median(whole), "ms", bar{})
	b.add("of that for the reader, median", median(more), "ms", atMost(10))
	b.add("processor time for the reader, median", median(cpu), "ms", bar{})
	return nil
}

// initialization returns the milliseconds that the packages of the reader took,
// from lines such as "init example.org/pdf/font @1.2 ms, 0.3 ms clock, …".
func initialization(trace []byte) (ms float64) {
	for line := range strings.Lines(string(trace)) {
		fields := strings.Fields(line)
		if len(fields) > 5 && fields[0] == "init" && strings.Contains(fields[1], "/batchfleet/pdf") {
			took, _ := strconv.ParseFloat(fields[4], 64) // in a form of the runtime
			ms += took
		}
	}
	return ms
}

// pdfScale reports what very many pages cost.
func pdfScale(ctx context.Context, b *pdfBench) error {
	for _, tt := range []struct {
		name  string
		build func(*pdftest.Builder) []byte
		fan   int // most kids of a node; 0 has all pages below the root
	}{
		{"flat", func(p *pdftest.Builder) []byte { return p.Table("") }, 0},
		{"nested", func(p *pdftest.Builder) []byte { return p.Table("") }, 10},
		{"nested, in an object stream", func(p *pdftest.Builder) []byte { return p.Packed("") }, 10},
	} {
		got, err := b.readPages(ctx, 100_000, tt.fan, tt.build)
		if err != nil {
			return err
		}
		what := "100 000 pages, " + tt.name
		b.add(what+", memory", float64(got.summary.Memory)/(1<<20), "MiB", atMost(150))
		b.add(what+", processor time", got.cpu.Seconds(), "s", bar{})
	}
	var ratios []float64
	for range speedRounds {
		var perPage [2]float64
		for i, n := range []int{20_000, 40_000} {
			got, err := b.readPages(ctx, n, 0, func(p *pdftest.Builder) []byte { return p.Table("") })
			if err != nil {
				return err
			}
			perPage[i] = got.cpu.Seconds() / float64(n)
		}
		ratios = append(ratios, perPage[1]/perPage[0])
	}
	b.add("time per page, 40 000 flat by 20 000", median(ratios), "times", atMost(1.5))
	return nil
}

// readPages reads a new document of n pages.
func (b *pdfBench) readPages(ctx context.Context, n, fan int, build func(*pdftest.Builder) []byte) (reading, error) {
	d, err := b.write("pages.pdf", build(manyPages(n, fan)))
	if err != nil {
		return reading{}, err
	}
	got := ours.read(ctx, d, 10*time.Minute, b.null)
	if got.summary == nil || got.summary.Pages != n || got.summary.Failed > 0 {
		return got, fmt.Errorf("read %d pages: %+v, %w", n, got.summary, got.err)
	}
	return got, nil
}

func (b *pdfBench) write(name string, data []byte) (document, error) {
	d := document{path: filepath.Join(b.dir, name), origin: "bench"}
	if err := os.WriteFile(d.path, data, 0o644); err != nil {
		return d, fmt.Errorf("write document: %w", err)
	}
	return d, nil
}

// manyPages returns a document of n pages with a line each, in a tree whose
// nodes have at most fan kids.
func manyPages(n, fan int) *pdftest.Builder {
	b := &pdftest.Builder{}
	b.Add("") // the catalog, when its pages are known
	font := b.Add("<</Type /Font /Subtype /Type1 /BaseFont /Helvetica>>")
	level := make([]int, n)
	for i := range level {
		contents := b.Flate("", pdftest.Contents(fmt.Sprintf("page %d of many", i+1)))
		level[i] = b.Add("<</Type /Page /MediaBox [0 0 595 842] /Contents %d 0 R /Resources <</Font <</F %d 0 R>>>>>>", contents, font)
	}
	leaves := 1 // below each node of the level
	if fan == 0 {
		fan = n
	}
	for len(level) > 1 {
		var above []int
		leaves *= fan
		for start := 0; start < len(level); start += fan {
			kids := level[start:min(start+fan, len(level))]
			var refs strings.Builder
			for _, kid := range kids {
				fmt.Fprintf(&refs, "%d 0 R ", kid)
			}
			count := min(leaves, n-len(above)*leaves)
			above = append(above, b.Add("<</Type /Pages /Count %d /Kids [%s]>>", count, refs.String()))
		}
		level = above
	}
	b.Set(1, "<</Type /Catalog /Pages %d 0 R>>", level[0])
	return b
}
