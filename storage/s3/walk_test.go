package s3_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/storage/s3"
	"github.com/batchfleet/batchfleet/storage/s3/s3test"
	"github.com/batchfleet/batchfleet/storage/storagetest"
)

// pageSize has the server list so many objects a call, and calls before with the number of each.
func pageSize(size string, before func(page int, r *http.Request) bool) func(http.ResponseWriter, *http.Request) bool {
	page := 0
	return func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("list-type") != "2" {
			return false
		}
		page++
		q := r.URL.Query()
		q.Set("max-keys", size)
		r.URL.RawQuery = q.Encode()
		return before(page, r)
	}
}

func TestF47S3WalkGoesThroughAllPages(t *testing.T) {
	pages := 0
	small := pageSize("7", func(page int, _ *http.Request) bool {
		pages = page
		return false
	})
	s := open(t, storagetest.InFront(t, s3test.New(t, "fleet"), small))
	for i := range 30 {
		storagetest.PutString(t, s, fmt.Sprintf("results/%02d", i), "x")
	}
	var got []string
	err := s.Walk(t.Context(), "results/", func(name string, _ storage.Info, err error) error {
		if err != nil {
			return err
		}
		got = append(got, name)
		return s.Delete(t.Context(), name)
	})
	if err != nil || len(got) != 30 || pages < 5 {
		t.Errorf("Walk = %v after %d objects on %d pages, want 30 on 5", err, len(got), pages)
	}
}

func TestF47S3WalkEndsWhenTheBucketIsMissingOrSilent(t *testing.T) {
	none := func(string, storage.Info, error) error { return nil }
	if err := s3.New(s3test.Client(t, s3test.New(t)), "nowhere").Walk(t.Context(), "", none); !errors.Is(err, jobs.ErrUnavailable) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Walk = %v, want jobs.ErrUnavailable", err)
	}
	silent := func(_ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done()
		return true
	}
	s := open(t, storagetest.InFront(t, s3test.New(t, "fleet"), silent))
	s3.SetTimeout(s, 50*time.Millisecond)
	if err := s.Walk(t.Context(), "", none); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("Walk = %v, want jobs.ErrUnavailable", err)
	}
}

func TestF47S3WalkEndsWhenALaterPageIsSilent(t *testing.T) {
	t.Parallel()
	silent := pageSize("7", func(page int, r *http.Request) bool {
		if page > 1 {
			<-r.Context().Done()
		}
		return page > 1
	})
	s := open(t, storagetest.InFront(t, s3test.New(t, "fleet"), silent))
	for i := range 9 {
		storagetest.PutString(t, s, fmt.Sprintf("results/%02d", i), "x")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	shown := 0
	err := s.Walk(ctx, "", func(string, storage.Info, error) error {
		if shown++; shown == 7 { // the first page has all the time it needs
			s3.SetTimeout(s, 500*time.Millisecond)
		}
		return nil
	})
	if !errors.Is(err, jobs.ErrUnavailable) || shown != 7 {
		t.Errorf("Walk = %v after %d objects, want jobs.ErrUnavailable after the 7 of the first page", err, shown)
	}
}

func TestF47S3WalkWaitsForItsVisitor(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it waits for seconds")
	pages := pageSize("1", func(int, *http.Request) bool { return false })
	s := open(t, storagetest.InFront(t, s3test.New(t, "fleet"), pages))
	for i := range 3 {
		storagetest.PutString(t, s, fmt.Sprintf("results/%02d", i), "x")
	}
	s3.SetTimeout(s, 5*time.Second)
	shown := 0
	err := s.Walk(t.Context(), "", func(string, storage.Info, error) error {
		if shown++; shown == 1 {
			<-time.After(6 * time.Second) // that is no silence of the store
		}
		return nil
	})
	if err != nil || shown != 3 {
		t.Errorf("Walk = %v after %d objects, want all three", err, shown)
	}
}

func TestF47S3WalkPassesOverWhatIsNoName(t *testing.T) {
	client := s3test.Client(t, s3test.New(t, "fleet"))
	for _, name := range []string{"results/", "results/folder/", "results//x", "results/a", "results/.batchfleet-put-check"} {
		if _, err := client.PutObject(t.Context(), "fleet", name, strings.NewReader(""), 0, minio.PutObjectOptions{DisableContentSha256: true}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	err := s3.New(client, "fleet").Walk(t.Context(), "results/", func(name string, _ storage.Info, err error) error {
		if err != nil {
			return err
		}
		got = append(got, name)
		return nil
	})
	if err != nil || len(got) != 1 || got[0] != "results/a" {
		t.Errorf("Walk = %v, shown %q, want the one whose name is one", err, got)
	}
}
