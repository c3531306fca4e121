package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// readLimit is how long our reader may take for a document of the corpus
// before it counts as hung.
const readLimit = 2 * time.Minute

// A score is how our reading of a document compares.
type score struct {
	document
	ours, poppler, mupdf int    // pages
	words                [3]int // ours, pdftotext's, mutool's
	cjk, rtl             bool
	// F1 of words; below 0 where the other has too few words to tell.
	toPoppler, toMupdf, limit float64
	sameText, ofText          int // pages that agree with pdftotext on having text
	reading                   reading
}

// minWords is how many words a text needs for a score: with fewer, one word
// decides.
const minWords = 5

func pdfAccuracy(ctx context.Context, b *pdfBench) error {
	scores, err := scoreAll(ctx, b.documents)
	if err != nil {
		return err
	}
	b.addReadings(scores)
	b.addPages(scores)
	for _, g := range []struct {
		name           string
		in             func(score) bool
		poppler, mupdf bar
	}{
		{"outside CJK", func(s score) bool { return !s.cjk }, atLeast(0.965), atLeast(0.98)},
		{"CJK", func(s score) bool { return s.cjk }, atLeast(0.95), atLeast(0.95)},
		// Parts of these, to see where a mean comes from.
		{"right to left", func(s score) bool { return s.rtl }, bar{}, bar{}},
		{"neither CJK nor right to left", func(s score) bool { return !s.cjk && !s.rtl }, bar{}, bar{}},
		{"damaged", func(s score) bool { return s.group == "damaged" }, bar{}, bar{}},
		{"encrypted", func(s score) bool { return s.group == "encrypted" }, bar{}, bar{}},
		{"generated", func(s score) bool { return s.group == "generated" }, bar{}, bar{}},
	} {
		group := filter(scores, g.in)
		b.addF1(g.name+", to pdftotext", group, g.poppler, func(s score) float64 { return s.toPoppler })
		b.addF1(g.name+", to mutool", group, g.mupdf, func(s score) float64 { return s.toMupdf })
		b.addF1(g.name+", pdftotext to mutool", group, bar{}, func(s score) float64 { return s.limit })
	}
	b.addHasText(scores)
	b.listOrigins(scores)
	return nil
}

func filter(scores []score, in func(score) bool) []score {
	return slices.DeleteFunc(slices.Clone(scores), func(s score) bool { return !in(s) })
}

// scoreAll scores the documents, two at a time.
func scoreAll(ctx context.Context, documents []document) ([]score, error) {
	refs, err := newReferences(ctx)
	if err != nil {
		return nil, err
	}
	scores := make([]score, len(documents))
	scoring, untilError := errgroup.WithContext(ctx)
	scoring.SetLimit(2)
	for i := 0; i < len(documents) && untilError.Err() == nil; i++ {
		scoring.Go(func() (err error) {
			if scores[i], err = scoreDocument(untilError, refs, documents[i]); err != nil {
				return fmt.Errorf("score %s: %w", documents[i].path, err)
			}
			return nil
		})
	}
	return scores, cmp.Or(scoring.Wait(), ctx.Err())
}

func scoreDocument(ctx context.Context, refs *references, d document) (score, error) {
	s := score{document: d, toPoppler: -1, toMupdf: -1, limit: -1}
	poppler, mupdf, err := refs.of(ctx, d)
	if err != nil {
		return s, err
	}
	s.reading = ours.read(ctx, d, readLimit, nil)
	if s.reading.summary != nil {
		s.ours = s.reading.summary.Pages
	}
	s.poppler, s.mupdf = poppler.Pages, mupdf.Pages
	s.cjk, s.rtl = isCJK(poppler.Text), isRightToLeft(poppler.Text)
	a, p, m := countWords(s.reading.text), countWords(poppler.Text), countWords(mupdf.Text)
	s.words = [3]int{a.total, p.total, m.total}
	if p.total >= minWords {
		s.toPoppler = f1(a, p)
	}
	if m.total >= minWords {
		s.toMupdf = f1(a, m)
	}
	if min(p.total, m.total) >= minWords {
		s.limit = f1(p, m)
	}
	s.sameText, s.ofText = sameHasText(pages(s.reading.text), pages(poppler.Text))
	s.reading.text, s.reading.stderr = nil, nil // of a thousand documents it would be too much
	return s, ctx.Err()
}

// addReadings reports how the readings went, whatever they read.
func (b *pdfBench) addReadings(scores []score) {
	pages := 0
	var cpu time.Duration
	readings := make([]reading, len(scores))
	for i, s := range scores {
		readings[i] = s.reading
		cpu += s.reading.cpu
		pages += s.ours
	}
	b.add("documents", float64(len(scores)), "", bar{})
	b.add("pages", float64(pages), "", bar{})
	b.addEnds("", readings)
	b.add("processor time", cpu.Seconds(), "s", bar{})
	b.worst("failed", scores, func(s score) (float64, bool) {
		return 0, s.reading.summary == nil || s.reading.summary.Err != ""
	})
	b.worst("slowest, s", scores, func(s score) (float64, bool) { return -s.reading.cpu.Seconds(), s.reading.cpu > time.Second })
}

// addPages reports on how many documents the number of pages is right. It is
// right if pdfinfo or mutool gives it: where they differ, either may be right.
func (b *pdfBench) addPages(scores []score) {
	opened := filter(scores, func(s score) bool { return s.poppler+s.mupdf > 0 })
	whole := filter(opened, func(s score) bool { return s.group != "damaged" })
	b.add("page count right", percentRight(opened), "%", atLeast(98.5))
	b.add("page count right, the damaged apart", percentRight(whole), "%", bar{})
	b.worst("page count wrong", opened, func(s score) (float64, bool) { return 0, !s.pagesRight() })
}

func (s score) pagesRight() bool {
	return s.ours > 0 && (s.ours == s.poppler || s.ours == s.mupdf)
}

func percentRight(scores []score) float64 {
	right := 0
	for _, s := range scores {
		if s.pagesRight() {
			right++
		}
	}
	return 100 * float64(right) / float64(max(1, len(scores)))
}

func (b *pdfBench) addF1(name string, scores []score, limit bar, value func(score) float64) {
	sum, n := 0.0, 0
	for _, s := range scores {
		if v := value(s); v >= 0 {
			sum += v
			n++
		}
	}
	if n == 0 && (limit == bar{} || b.chosen) {
		return
	}
	b.add(fmt.Sprintf("mean F1 %s (%d)", name, n), sum/float64(max(1, n)), "", limit) // of no documents it is missed
	if limit != (bar{}) {
		b.worst("F1 "+name, scores, func(s score) (float64, bool) { return value(s), value(s) >= 0 })
	}
}

func (b *pdfBench) addHasText(scores []score) {
	same, of := 0, 0
	for _, s := range scores {
		if s.poppler > 0 {
			same += s.sameText
			of += s.ofText
		}
	}
	b.add("pages that have text, as pdftotext says", 100*float64(same)/float64(max(1, of)), "%", atLeast(99.7))
	b.worst("pages that differ in having text", scores, func(s score) (float64, bool) {
		return -float64(s.ofText - s.sameText), s.poppler > 0 && s.ofText > s.sameText
	})
}

// listOrigins lists, if asked for, the mean F1 by the package or program that
// documents come from, least first.
func (b *pdfBench) listOrigins(scores []score) {
	if !b.verbose {
		return
	}
	type mean struct {
		origin string
		sums   [3]float64
		counts [3]int
	}
	means := map[string]*mean{}
	for _, s := range scores {
		m := means[s.origin]
		if m == nil {
			m = &mean{origin: s.origin}
			means[s.origin] = m
		}
		for i, v := range []float64{s.toPoppler, s.toMupdf, s.limit} {
			if v >= 0 {
				m.sums[i] += v
				m.counts[i]++
			}
		}
	}
	of := func(m *mean, i int) float64 { return m.sums[i] / float64(max(1, m.counts[i])) }
	fmt.Fprintln(os.Stderr, "\nmean F1 by origin: to pdftotext, to mutool (pdftotext to mutool), documents")
	for _, m := range slices.SortedFunc(maps.Values(means), func(a, b *mean) int { return cmp.Compare(of(a, 0), of(b, 0)) }) {
		fmt.Fprintf(os.Stderr, "  %.3f %.3f (%.3f) %4d  %s\n", of(m, 0), of(m, 1), of(m, 2), m.counts[0], m.origin)
	}
}

// worst lists, if asked for, the 15 documents with the least values.
func (b *pdfBench) worst(what string, scores []score, value func(score) (v float64, listed bool)) {
	if !b.verbose {
		return
	}
	listed := filter(scores, func(s score) bool { _, ok := value(s); return ok })
	slices.SortStableFunc(listed, func(a, b score) int {
		x, _ := value(a)
		y, _ := value(b)
		return cmp.Compare(x, y)
	})
	fmt.Fprintf(os.Stderr, "\n%s: %d documents\n", what, len(listed))
	for _, s := range listed[:min(15, len(listed))] {
		v, _ := value(s)
		said := ""
		if s.reading.summary != nil {
			said = s.reading.summary.Err
		} else if s.reading.err != nil {
			said = s.reading.err.Error()
		}
		fmt.Fprintf(os.Stderr, "%7.3f  F1 %.3f %.3f (%.3f)  pages %d %d %d  words %d  %s [%s] %s\n",
			v, s.toPoppler, s.toMupdf, s.limit, s.ours, s.poppler, s.mupdf, s.words, s.path, s.origin, said)
	}
}
