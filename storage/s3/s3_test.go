package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/storage/s3"
	"github.com/batchfleet/batchfleet/storage/s3/s3test"
	"github.com/batchfleet/batchfleet/storage/storagetest"
)

// large is an object of three parts.
var large = strings.Repeat("x", 2*s3.PartSize+1)

// servers are those that the promises are checked on.
func servers(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	for name, start := range map[string]func(testing.TB, ...string) string{"in memory": s3test.New, "Versity's gateway": s3test.Gateway} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t, "fleet"))
		})
	}
}

func open(t *testing.T, url string) *s3.Store {
	t.Helper()
	return s3.New(s3test.Client(t, url), "fleet")
}

func TestF47S3KeepsThePromises(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, url string) {
		client, buckets := s3test.Client(t, url), 0
		storagetest.Run(t, func(t *testing.T) storage.Store {
			t.Helper()
			buckets++
			bucket := fmt.Sprintf("fleet-%d", buckets)
			if err := client.MakeBucket(t.Context(), bucket, minio.MakeBucketOptions{Region: s3test.Region}); err != nil {
				t.Fatal(err)
			}
			return s3.New(client, bucket)
		})
	})
}

func TestF47S3ReadsOnlyAllowedBuckets(t *testing.T) {
	client := s3test.Client(t, s3test.New(t, "fleet", "shared", "private"))
	for _, bucket := range []string{"fleet", "shared", "private"} {
		storagetest.PutString(t, s3.New(client, bucket), "a/object", "from "+bucket)
	}
	s := s3.New(client, "fleet", "shared")
	for name, want := range map[string]string{
		"a/object": "from fleet", "s3://fleet/a/object": "from fleet", "s3://shared/a/object": "from shared",
	} {
		if got := storagetest.GetString(t, s, name); got != want {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
		if info, err := s.Stat(t.Context(), name); err != nil || info.Size != int64(len(want)) {
			t.Errorf("Stat(%q) = %+v, %v", name, info, err)
		}
	}
	for _, name := range []string{
		"s3://private/a/object", "s3://", "s3://shared", "s3://shared/", "s3://shared/../private/a/object", "s3://shared//a", "S3://shared/a/", "gs://shared/a/object",
	} {
		if _, err := s.Open(t.Context(), name); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("Open(%q) = %v, want fs.ErrInvalid", name, err)
		}
	}
	for _, name := range []string{"s3://fleet/a/object", "s3://shared/a/object"} {
		if err := s.Put(t.Context(), name, strings.NewReader("x")); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("Put(%q) = %v, want fs.ErrInvalid", name, err)
		}
		if err := s.Delete(t.Context(), name); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("Delete(%q) = %v, want fs.ErrInvalid", name, err)
		}
	}
}

func TestF47S3MissingBucketIsUnavailable(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, url string) {
		s := s3.New(s3test.Client(t, url), "nowhere")
		_, openErr := s.Open(t.Context(), "object")
		_, statErr := s.Stat(t.Context(), "object")
		for method, err := range map[string]error{
			"Open": openErr, "Stat": statErr, "Delete": s.Delete(t.Context(), "object"), "Check": s.Check(t.Context()),
			"Put": s.Put(t.Context(), "object", strings.NewReader("x")), "large Put": s.Put(t.Context(), "object", strings.NewReader(large)),
			"Walk": s.Walk(t.Context(), "", func(string, storage.Info, error) error { return nil }),
		} {
			if !errors.Is(err, jobs.ErrUnavailable) || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "create it") {
				t.Errorf("%s = %v, want jobs.ErrUnavailable and what to do", method, err)
			}
		}
	})
}

func TestF47S3WrongKeysAreUnavailable(t *testing.T) {
	server := s3test.Server(s3test.Gateway(t, "fleet"))
	server.SecretKey = "another"
	client, err := server.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := s3.New(client, "fleet")
	_, openErr := s.Open(t.Context(), "object")
	for method, err := range map[string]error{"Check": s.Check(t.Context()), "Open": openErr, "Put": s.Put(t.Context(), "object", strings.NewReader("x"))} {
		if !errors.Is(err, jobs.ErrUnavailable) || errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "AWS_SECRET_ACCESS_KEY") {
			t.Errorf("%s = %v, want jobs.ErrUnavailable and what to do", method, err)
		}
	}
}

func TestF47S3CheckSaysWhatToDo(t *testing.T) {
	for _, tt := range []struct {
		name, method string
		status       int
		code, want   string
	}{
		{"may not be listed", http.MethodGet, 403, "AccessDenied", "s3:ListBucket"},
		{"may not be written", http.MethodPut, 403, "AccessDenied", "s3:PutObject"},
		{"another region", http.MethodGet, 400, "AuthorizationHeaderMalformed", "S3_REGION"},
		{"an old token", http.MethodGet, 400, "InvalidToken", "new credentials"},
		{"a wrong clock", http.MethodGet, 403, "RequestTimeTooSkewed", "clock"},
		{"conditions are refused", http.MethodPut, 501, "NotImplemented", "S3_CONDITIONAL_PUTS=false"},
		{"conditions are not heeded", http.MethodPut, 200, "", "S3_CONDITIONAL_PUTS=false"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answer := func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != tt.method {
					return false
				}
				if tt.status != http.StatusOK {
					s3test.Refuse(w, tt.status, tt.code, "No")
				}
				return true
			}
			err := open(t, storagetest.InFront(t, s3test.New(t, "fleet"), answer)).Check(t.Context())
			if !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Check = %v, want it to say %q", err, tt.want)
			}
		})
	}
}

func TestF47S3CheckLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, url string) {
		client := s3test.Client(t, url)
		if err := s3.New(client, "fleet").Check(t.Context()); err != nil {
			t.Error(err)
		}
		for object := range client.ListObjectsIter(t.Context(), "fleet", minio.ListObjectsOptions{Recursive: true}) {
			t.Errorf("there is %s, %v", object.Key, object.Err)
		}
	})
}

func TestF47S3ForbiddenIsUnavailable(t *testing.T) {
	forbid := func(w http.ResponseWriter, _ *http.Request) bool {
		s3test.Refuse(w, http.StatusForbidden, "AccessDenied", "Access Denied")
		return true
	}
	s := open(t, storagetest.InFront(t, s3test.New(t), forbid))
	_, openErr := s.Open(t.Context(), "object")
	_, statErr := s.Stat(t.Context(), "object")
	for method, err := range map[string]error{
		"Open": openErr, "Stat": statErr, "Delete": s.Delete(t.Context(), "object"), "Put": s.Put(t.Context(), "object", strings.NewReader("x")),
	} {
		if !errors.Is(err, jobs.ErrUnavailable) || !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s = %v, want jobs.ErrUnavailable and fs.ErrPermission", method, err)
		}
	}
	err := s.Walk(t.Context(), "", func(name string, _ storage.Info, _ error) error {
		t.Errorf("shown %q", name)
		return nil
	})
	if !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("Walk = %v, want jobs.ErrUnavailable: nothing was seen", err)
	}
	if err := s.RemoveUnfinished(t.Context(), "results/a"); err != nil {
		t.Errorf("RemoveUnfinished = %v: an account need not list uploads", err)
	}
}

func TestF47S3ContentHasItsType(t *testing.T) {
	client := s3test.Client(t, s3test.New(t, "fleet"))
	s := s3.New(client, "fleet")
	for _, content := range []string{"{}", large} {
		storagetest.PutString(t, s, "a/result.json", content)
		info, err := client.StatObject(t.Context(), "fleet", "a/result.json", minio.StatObjectOptions{})
		if err != nil || info.ContentType != "application/json" {
			t.Errorf("the type of %d bytes is %q, %v", len(content), info.ContentType, err)
		}
	}
}

func TestF47S3SilenceIsUnavailable(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	hang := func(http.ResponseWriter, *http.Request) bool { <-ctx.Done(); return true }
	s := open(t, storagetest.InFront(t, s3test.New(t), hang))
	t.Cleanup(cancel) // before the server is closed, which waits for its requests
	s3.SetTimeout(s, 50*time.Millisecond)
	_, openErr := s.Open(t.Context(), "object")
	_, statErr := s.Stat(t.Context(), "object")
	for method, err := range map[string]error{
		"Open": openErr, "Stat": statErr, "Delete": s.Delete(t.Context(), "object"), "Check": s.Check(t.Context()),
		"Put": s.Put(t.Context(), "object", strings.NewReader("x")), "large Put": s.Put(t.Context(), "object", strings.NewReader(large)),
		"RemoveUnfinished": s.RemoveUnfinished(t.Context(), "results/a"),
	} {
		if !errors.Is(err, jobs.ErrUnavailable) {
			t.Errorf("%s = %v, want jobs.ErrUnavailable", method, err)
		}
	}
}

func TestF47S3TransferThatStallsIsUnavailable(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	stall := func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Length", "1000")
		w.Header().Set("Last-Modified", "Tue, 24 Nov 2026 10:00:00 GMT")
		_, _ = fmt.Fprint(w, "the beginning")
		w.(http.Flusher).Flush()
		<-ctx.Done()
		return true
	}
	s := open(t, storagetest.InFront(t, s3test.New(t), stall))
	t.Cleanup(cancel)
	r, err := s.Open(t.Context(), "object")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	s3.SetSilence(r, 200*time.Millisecond)
	if _, err := io.ReadAll(r); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("Read = %v, want jobs.ErrUnavailable", err)
	}
}

// cut answers a request for content with its beginning and breaks the connection, so many
// times; before each it calls then.
func cut(t *testing.T, server string, times int32, then func()) func(http.ResponseWriter, *http.Request) bool {
	t.Helper()
	var cuts atomic.Int32
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || cuts.Add(1) > times {
			return false
		}
		again, err := http.NewRequestWithContext(r.Context(), http.MethodGet, server+r.URL.RequestURI(), nil)
		if err != nil {
			t.Error(err)
			return false
		}
		again.Header = r.Header
		again.Host = r.Host
		resp, err := http.DefaultClient.Do(again)
		if err != nil {
			t.Error(err)
			return false
		}
		defer resp.Body.Close()
		maps.Copy(w.Header(), resp.Header)
		w.WriteHeader(resp.StatusCode)
		_, _ = io.CopyN(w, resp.Body, 300_000)
		then()
		panic(http.ErrAbortHandler)
	}
}

func TestF47S3BrokenDownloadGoesOn(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, url string) {
		content := strings.Repeat("0123456789", 200_000)
		storagetest.PutString(t, open(t, url), "object", content)
		s := open(t, storagetest.InFront(t, url, cut(t, url, 4, func() {})))
		if got := storagetest.GetString(t, s, "object"); got != content {
			t.Errorf("got %d bytes, want the %d that were put", len(got), len(content))
		}
	})
}

func TestF47S3BrokenDownloadOfAReplacedObjectIsUnavailable(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, url string) {
		direct := open(t, url)
		storagetest.PutString(t, direct, "object", strings.Repeat("0123456789", 200_000))
		replace := func() {
			err := jobs.ErrUnavailable
			for tries := 0; tries < 5 && errors.Is(err, jobs.ErrUnavailable); tries++ { // on a machine that stalls, the server may have hung up
				err = direct.Put(t.Context(), "object", strings.NewReader(strings.Repeat("abcdefghij", 200_000)))
			}
			if err != nil {
				t.Error(err)
			}
		}
		r, err := open(t, storagetest.InFront(t, url, cut(t, url, 1, replace))).Open(t.Context(), "object")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Close() }()
		got, err := io.ReadAll(r)
		if !errors.Is(err, jobs.ErrUnavailable) || bytes.ContainsAny(got, "abcdefghij") {
			t.Errorf("read %d bytes, %v; want jobs.ErrUnavailable and nothing of the other content", len(got), err)
		}
	})
}
