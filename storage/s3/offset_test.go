package s3_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage/s3"
	"github.com/batchfleet/batchfleet/storage/s3/s3test"
	"github.com/batchfleet/batchfleet/storage/storagetest"
)

// rest reads an object from an offset on.
func rest(t *testing.T, s *s3.Store, name string, offset int64) (string, error) {
	t.Helper()
	body, err := s.OpenAt(t.Context(), name, offset)
	if err != nil {
		return "", err
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	return string(text), err
}

func TestF47S3BrokenDownloadFromAnOffsetGoesOn(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, url string) {
		content := strings.Repeat("0123456789", 200_000)
		storagetest.PutString(t, open(t, url), "object", content)
		s := open(t, storagetest.InFront(t, url, cut(t, url, 3, func() {})))
		if got, err := rest(t, s, "object", 500_003); err != nil || got != content[500_003:] {
			t.Errorf("got %d bytes, %v; want the last %d", len(got), err, len(content)-500_003)
		}
	})
}

func TestF47S3StoreThatSendsAllInPlaceOfAPartIsUnavailable(t *testing.T) {
	url := s3test.New(t, "fleet")
	storagetest.PutString(t, open(t, url), "object", "0123456789")
	s := open(t, storagetest.InFront(t, url, func(_ http.ResponseWriter, r *http.Request) bool {
		r.Header.Del("Range")
		return false
	}))
	if got, err := rest(t, s, "object", 4); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("got %q, %v; want jobs.ErrUnavailable", got, err)
	}
}

func TestF47S3PartsOfAllowedBucketsCanBeRead(t *testing.T) {
	client := s3test.Client(t, s3test.New(t, "fleet", "shared", "private"))
	storagetest.PutString(t, s3.New(client, "shared"), "a/object", "0123456789")
	s := s3.New(client, "fleet", "shared")
	if got, err := rest(t, s, "s3://shared/a/object", 4); err != nil || got != "456789" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := rest(t, s, "s3://private/a/object", 4); err == nil {
		t.Errorf("got %q of a bucket that is not allowed", got)
	}
}
