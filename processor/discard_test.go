package processor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
)

func TestF24DiscardLeavesNothingOfAJob(t *testing.T) {
	t.Parallel()
	d := newFixture(t, &book{})
	for _, name := range []string{
		"results/j/result.json", "results/j/pages.jsonl", "results/j/parts/00000001.jsonl",
		"results/j/parts/2cf24dba5fb0a30e-00000001.jsonl", "results/j2/result.json",
	} {
		d.put(t, name, "x")
	}
	if err := d.Discard(t.Context(), jobs.Job{ID: "j"}); err != nil {
		t.Fatal(err)
	}
	var left []string
	err := d.store.Walk(t.Context(), "", func(name string, _ storage.Info, err error) error {
		left = append(left, name)
		return err
	})
	if got := strings.Join(left, " "); err != nil || got != "results/j2/result.json" {
		t.Errorf("left are %q, %v; want the other job's result only", got, err)
	}
	if err := d.Discard(t.Context(), jobs.Job{ID: "j"}); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

// An attempt that was stopped between its last look at its lease and the rename cannot
// rename any more when it goes on.
func TestF24TakingAJobOverTakesItsUnfinishedFiles(t *testing.T) {
	t.Parallel()
	for name, takeOver := range map[string]func(*Pages) error{
		"by running it": func(p *Pages) error {
			_, err := p.Run(context.Background(), jobs.Job{ID: "j"}, func(jobs.Progress) {})
			return err
		},
		"by ending it": func(p *Pages) error { return p.Discard(context.Background(), jobs.Job{ID: "j"}) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			local, err := storage.NewLocal(dir)
			if err != nil {
				t.Fatal(err)
			}
			d := newFixture(t, &book{pages: 1})
			d.Store = local
			defer local.Close()
			for _, object := range []string{"results/j/result.json", "results/j/parts/00000001.jsonl"} {
				ctx := jobs.WithHold(t.Context(), func(context.Context) error {
					return takeOver(d.Pages) // the last moment has passed
				})
				if err := local.Put(ctx, object, strings.NewReader("stale")); err == nil {
					t.Errorf("put %s after the job was taken over", object)
				}
				if text, _ := os.ReadFile(filepath.Join(dir, object)); string(text) == "stale" {
					t.Errorf("%s is what the attempt that lost its job has written", object)
				}
			}
			if parts, _ := os.Stat(filepath.Join(dir, "results/j/parts")); parts != nil {
				t.Error("the directory of parts is left behind")
			}
		})
	}
}

func TestF24PagesGoOnWhileNothingIsKnownOfTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t, &book{pages: 6, took: 31 * time.Second})
		began := time.Now()
		const away, back = 60 * time.Second, 200 * time.Second // the pages end after 186 s
		ctx := jobs.WithHold(t.Context(), func(context.Context) error {
			if at := time.Since(began); at > away && at < back {
				return fmt.Errorf("%w: redis is away", jobs.ErrUnavailable)
			}
			return nil
		})
		var last time.Duration
		_, err := d.Run(ctx, jobs.Job{ID: "j"}, func(p jobs.Progress) {
			if p.Step == "pages" {
				last = time.Since(began)
			}
		})
		if err != nil || last != 186*time.Second {
			t.Errorf("run: %v, the last page after %s, want 186 s", err, last)
		}
		if took := time.Since(began); took < back || !d.has(t, resultName("j")) {
			t.Errorf("ended after %s, want the result, and not before %s", took, back)
		}
	})
}
