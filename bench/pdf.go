package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
)

// pdfParts are what the section "pdf" consists of. BENCH_PARTS names some of
// them, between commas.
var pdfParts = []pdfPart{
	{"accuracy", pdfAccuracy},
	{"speed", pdfSpeed},
	{"workers", pdfWorkers},
	{"start", pdfStart},
	{"small", pdfSmall},
	{"scale", pdfScale},
	{"mutants", pdfMutants},
}

type pdfPart struct {
	name string
	run  func(context.Context, *pdfBench) error
}

// A pdfBench is one run of the section.
type pdfBench struct {
	*report
	documents []document
	dir       string   // for files made on the way; removed at the end
	null      *os.File // where output goes that is not looked at
	chosen    bool     // BENCH_FILES chose the documents, which need not be of every kind
	verbose   bool     // list the worst documents
}

// pdfSection reads the corpus with our reader, pdftotext and mutool:
//
//	BENCH_CORPUS=DIR      where bench/corpus/gather.sh has put it
//	BENCH_FILES=GLOB...   score these files instead, and nothing else
//	BENCH_PARTS=part,...  these parts only
//	BENCH_VERBOSE=1       list the worst documents of each measure
//
// Paths are absolute or relative to bench.
func pdfSection(ctx context.Context, r *report) (err error) {
	b := &pdfBench{report: r, verbose: os.Getenv("BENCH_VERBOSE") != ""}
	if err := needTools(); err != nil {
		return err
	}
	parts := os.Getenv("BENCH_PARTS")
	if globs := os.Getenv("BENCH_FILES"); globs != "" {
		b.documents, err = globDocuments(strings.Fields(globs))
		b.chosen = true
		parts = cmp.Or(parts, "accuracy")
	} else {
		b.documents, err = corpusDocuments()
	}
	if err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "bench-pdf"); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(b.dir) }() // in the directory for temporary files
	if b.null, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0); err != nil {
		return fmt.Errorf("open null device: %w", err)
	}
	defer func() { _ = b.null.Close() }() // it keeps nothing
	wanted, err := chooseParts(parts)
	if err != nil {
		return err
	}
	for _, part := range wanted {
		if err := part.run(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// chooseParts returns the parts with the given names, between commas, or all
// when none is named.
func chooseParts(names string) ([]pdfPart, error) {
	if names == "" {
		return pdfParts, nil
	}
	var chosen []pdfPart
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(pdfParts, func(p pdfPart) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("BENCH_PARTS: no part %q", name)
		}
		chosen = append(chosen, pdfParts[i])
	}
	return chosen, nil
}
