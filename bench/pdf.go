package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
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
	if b.null, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0); err != nil {
		return fmt.Errorf("open null device: %w", err)
	}
	defer func() { _ = b.null.Close() }() // it keeps nothing
	names := strings.FieldsFunc(parts, func(r rune) bool { return r == ',' })
	wanted, err := choose(pdfParts, names, func(p pdfPart) string { return p.name })
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
