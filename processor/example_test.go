package processor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strings"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor"
	"github.com/batchfleet/batchfleet/storage"
)

// verses is an engine: it reads text files whose pages are separated by blank lines.
type verses struct{}

func (verses) Name() string     { return "verses" }
func (verses) NeedsInput() bool { return true }

// Read begins at page from: the pages before it are kept from an earlier attempt.
func (verses) Read(_ context.Context, _ jobs.Job, path string, from int, out processor.Sink) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	pages := strings.Split(strings.TrimSpace(string(text)), "\n\n")
	if err := out.Open(len(pages), json.RawMessage(`{"format": "text"}`)); err != nil {
		return err
	}
	for n := from; n <= len(pages); n++ {
		page := pages[n-1]
		err := out.Page(processor.Record{Page: n, Text: page, Words: len(strings.Fields(page)), HasText: true})
		if err != nil {
			return err
		}
	}
	return nil
}

// A job is read by an engine, and its result stored. A worker does the same through
// its handler of the job's kind, which a Pages is.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	store, err := storage.NewLocal(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	ctx := context.Background()
	if err := store.Put(ctx, "poem.txt", strings.NewReader("The wind\nis up.\n\nThe lamp is out.\n")); err != nil {
		log.Fatal(err)
	}

	pages := &processor.Pages{Engine: verses{}, Store: store, Log: slog.New(slog.DiscardHandler), MaxInputBytes: 1 << 20}
	job := jobs.Job{ID: "poem", Kind: "verses", Input: "poem.txt"}
	result, err := pages.Run(ctx, job, func(jobs.Progress) {})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %d pages\n", result.Object, result.Pages)
	summary, err := processor.Stored(ctx, store, job.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("read by %s, %d words, text in %s\n", summary.Engine, summary.Document.Words, summary.TextObject)
	// Output:
	// results/poem/result.json: 2 pages
	// read by verses, 8 words, text in results/poem/pages.jsonl
}
