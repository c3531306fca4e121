package gcs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	cloud "cloud.google.com/go/storage"
	"github.com/fsouza/fake-gcs-server/fakestorage"
	"google.golang.org/api/option"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/storage/gcs"
	"github.com/batchfleet/batchfleet/storage/storagetest"
)

// newFake starts a fake Cloud Storage with some buckets and returns its address.
// It is a real server: the fake's in-memory transport races on abandoned uploads.
func newFake(t *testing.T, buckets ...string) string {
	t.Helper()
	fake, err := fakestorage.NewServerWithOptions(fakestorage.Options{Scheme: "http", Host: "127.0.0.1", Writer: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Stop)
	for _, b := range buckets {
		fake.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: b})
	}
	return fake.URL()
}

func newClient(t *testing.T, url string) *cloud.Client {
	t.Helper()
	client, err := cloud.NewClient(t.Context(), option.WithEndpoint(url+"/storage/v1/"), option.WithoutAuthentication(), cloud.WithJSONReads())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestF46GCSKeepsThePromises(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T) storage.Store {
		t.Helper()
		return gcs.New(newClient(t, newFake(t, "fleet")), "fleet")
	})
}

func TestF46GCSReadsOnlyAllowedBuckets(t *testing.T) {
	client := newClient(t, newFake(t, "fleet", "shared", "private"))
	for _, bucket := range []string{"fleet", "shared", "private"} {
		storagetest.PutString(t, gcs.New(client, bucket), "a/object", "from "+bucket)
	}
	s := gcs.New(client, "fleet", "shared")
	for name, want := range map[string]string{
		"a/object": "from fleet", "gs://fleet/a/object": "from fleet", "gs://shared/a/object": "from shared",
	} {
		if got := storagetest.GetString(t, s, name); got != want {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
		if info, err := s.Stat(t.Context(), name); err != nil || info.Size != int64(len(want)) {
			t.Errorf("Stat(%q) = %+v, %v", name, info, err)
		}
	}
	for _, name := range []string{"gs://private/a/object", "gs://", "gs://shared", "gs://shared/", "gs://shared/../private/a/object", "gs://shared//a", "GS://shared/a/"} {
		if _, err := s.Open(t.Context(), name); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("Open(%q) = %v, want fs.ErrInvalid", name, err)
		}
	}
	for _, name := range []string{"gs://fleet/a/object", "gs://shared/a/object"} {
		if err := s.Put(t.Context(), name, strings.NewReader("x")); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("Put(%q) = %v, want fs.ErrInvalid", name, err)
		}
		if err := s.Delete(t.Context(), name); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("Delete(%q) = %v, want fs.ErrInvalid", name, err)
		}
	}
}

func TestF46GCSMissingBucketIsUnavailable(t *testing.T) {
	// What Cloud Storage answers; the fake's answer does not tell the two apart.
	missing := func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprint(w, `{"error":{"code":404,"message":"The specified bucket does not exist.","errors":[{"message":"The specified bucket does not exist.","domain":"global","reason":"notFound"}]}}`)
		return true
	}
	s := gcs.New(newClient(t, storagetest.InFront(t, newFake(t), missing)), "nowhere")
	_, openErr := s.Open(t.Context(), "object")
	_, statErr := s.Stat(t.Context(), "object")
	for method, err := range map[string]error{
		"Open": openErr, "Stat": statErr, "Delete": s.Delete(t.Context(), "object"), "Check": s.Check(t.Context()),
		"Put": s.Put(t.Context(), "object", strings.NewReader("x")), "large Put": s.Put(t.Context(), "object", bytes.NewReader(make([]byte, 9<<20))),
	} {
		if !errors.Is(err, jobs.ErrUnavailable) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s = %v, want jobs.ErrUnavailable", method, err)
		}
	}
	// With the fake itself only Put and Check can tell.
	s = gcs.New(newClient(t, newFake(t)), "nowhere")
	if err := s.Put(t.Context(), "object", strings.NewReader("x")); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("Put = %v, want jobs.ErrUnavailable", err)
	}
	if err := s.Check(t.Context()); !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), "create it") {
		t.Errorf("Check = %v, want what to do", err)
	}
}

func TestF46GCSCheckNamesMissingPermissions(t *testing.T) {
	answer := func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/iam/testPermissions") {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"permissions":["storage.objects.get","storage.objects.list"]}`)
		return true
	}
	s := gcs.New(newClient(t, storagetest.InFront(t, newFake(t, "fleet"), answer)), "fleet")
	err := s.Check(t.Context())
	if !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), "storage.objects.create, storage.objects.delete;") {
		t.Errorf("Check = %v, want it to name the two missing permissions", err)
	}
}

func TestF46GCSForbiddenIsUnavailable(t *testing.T) {
	forbid := func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, `{"error":{"code":403,"message":"no"}}`, http.StatusForbidden)
		return true
	}
	s := gcs.New(newClient(t, storagetest.InFront(t, newFake(t), forbid)), "fleet")
	_, openErr := s.Open(t.Context(), "object")
	for method, err := range map[string]error{
		"Open": openErr, "Delete": s.Delete(t.Context(), "object"), "Put": s.Put(t.Context(), "object", strings.NewReader("x")),
	} {
		if !errors.Is(err, jobs.ErrUnavailable) || !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s = %v, want jobs.ErrUnavailable and fs.ErrPermission", method, err)
		}
	}
	if err := s.Check(t.Context()); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("Check = %v, want jobs.ErrUnavailable", err)
	}
	err := s.Walk(t.Context(), "", func(name string, _ storage.Info, _ error) error {
		t.Errorf("shown %q", name)
		return nil
	})
	if !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("Walk = %v, want jobs.ErrUnavailable: nothing was seen", err)
	}
}

func isUpload(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/upload/") }

func TestF46GCSNewSmallObjectIsOneRequest(t *testing.T) {
	var requests atomic.Int32
	count := func(http.ResponseWriter, *http.Request) bool { requests.Add(1); return false }
	s := gcs.New(newClient(t, storagetest.InFront(t, newFake(t, "fleet"), count)), "fleet")
	storagetest.PutString(t, s, "object", strings.Repeat("x", 300))
	if n := requests.Load(); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
	storagetest.PutString(t, s, "object", "replaced")
	if n := requests.Load(); n != 4 {
		t.Errorf("replacing took %d requests, want 3", n-1)
	}
}

func TestF46GCSEveryUploadIsConditional(t *testing.T) {
	var bare atomic.Int32
	look := func(_ http.ResponseWriter, r *http.Request) bool {
		more := r.URL.Query().Has("upload_id") // of an upload that began with its precondition
		if isUpload(r) && r.Method == http.MethodPost && !more && !r.URL.Query().Has("ifGenerationMatch") {
			bare.Add(1)
		}
		return false
	}
	s := gcs.New(newClient(t, storagetest.InFront(t, newFake(t, "fleet"), look)), "fleet")
	for range 2 {
		for _, size := range []int{0, 300, 9 << 20} {
			storagetest.PutString(t, s, "object", strings.Repeat("x", size))
		}
	}
	if n := bare.Load(); n != 0 {
		t.Errorf("%d uploads had no precondition, so they are not repeated when they fail", n)
	}
}

func TestF46GCSRepeatsFailedRequests(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it waits for seconds")
	var requests atomic.Int32
	fail := func(w http.ResponseWriter, _ *http.Request) bool {
		if requests.Add(1)%2 == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	}
	s := gcs.New(newClient(t, storagetest.InFront(t, newFake(t, "fleet"), fail)), "fleet")
	storagetest.PutString(t, s, "object", "old")
	storagetest.PutString(t, s, "object", "new")
	if got := storagetest.GetString(t, s, "object"); got != "new" {
		t.Errorf("got %q", got)
	}
}

func TestF46GCSLostAnswerIsNoFailure(t *testing.T) {
	// The first upload arrives, but its answer does not: the repeated request
	// finds the object changed, by itself.
	fake := newFake(t, "fleet")
	var lost atomic.Bool
	lose := func(w http.ResponseWriter, r *http.Request) bool {
		if !isUpload(r) || lost.Swap(true) {
			return false
		}
		u := fake + r.URL.RequestURI()
		again, err := http.NewRequestWithContext(r.Context(), r.Method, u, r.Body)
		if err != nil {
			t.Error(err)
			return false
		}
		again.Header = r.Header
		resp, err := http.DefaultClient.Do(again)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("upload: %v, %v", resp, err)
			return false
		}
		_ = resp.Body.Close()
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	s := gcs.New(newClient(t, storagetest.InFront(t, fake, lose)), "fleet")
	storagetest.PutString(t, s, "object", "content")
	if got := storagetest.GetString(t, s, "object"); got != "content" || !lost.Load() {
		t.Errorf("got %q", got)
	}
}

func TestF46GCSOvertakenPutKeepsTheNewerObject(t *testing.T) {
	// Another writer comes between the reading of the generation and the end of
	// a large upload.
	fake := newFake(t, "fleet")
	direct := gcs.New(newClient(t, fake), "fleet")
	storagetest.PutString(t, direct, "object", "old")
	var once atomic.Bool
	overtake := func(_ http.ResponseWriter, r *http.Request) bool {
		if isUpload(r) && !once.Swap(true) {
			storagetest.PutString(t, direct, "object", "newer")
		}
		return false
	}
	s := gcs.New(newClient(t, storagetest.InFront(t, fake, overtake)), "fleet")
	storagetest.PutString(t, s, "object", strings.Repeat("x", 9<<20))
	if got := storagetest.GetString(t, s, "object"); got != "newer" {
		t.Errorf("the object is %d bytes long, want the newer one", len(got))
	}
}

func TestF46GCSSilenceIsUnavailable(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	hang := func(http.ResponseWriter, *http.Request) bool { <-ctx.Done(); return true }
	s := gcs.New(newClient(t, storagetest.InFront(t, newFake(t), hang)), "fleet")
	t.Cleanup(cancel) // before the server is closed, which waits for its requests
	gcs.SetTimeout(s, 50*time.Millisecond)
	_, openErr := s.Open(t.Context(), "object")
	_, statErr := s.Stat(t.Context(), "object")
	for method, err := range map[string]error{
		"Open": openErr, "Stat": statErr, "Delete": s.Delete(t.Context(), "object"), "Check": s.Check(t.Context()),
		"Put": s.Put(t.Context(), "object", strings.NewReader("x")), "large Put": s.Put(t.Context(), "object", bytes.NewReader(make([]byte, 1<<20))),
	} {
		if !errors.Is(err, jobs.ErrUnavailable) {
			t.Errorf("%s = %v, want jobs.ErrUnavailable", method, err)
		}
	}
}

func TestF46GCSTransferThatStallsIsUnavailable(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	stall := func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Length", "1000")
		_, _ = fmt.Fprint(w, "the beginning")
		w.(http.Flusher).Flush()
		<-ctx.Done()
		return true
	}
	s := gcs.New(newClient(t, storagetest.InFront(t, newFake(t), stall)), "fleet")
	t.Cleanup(cancel)
	r, err := s.Open(t.Context(), "object")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	gcs.SetSilence(r, 200*time.Millisecond)
	if _, err := io.ReadAll(r); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("Read = %v, want jobs.ErrUnavailable", err)
	}
}

func TestJGCSWalkGoesThroughAllPages(t *testing.T) {
	pages := 0
	small := pageSize("7", func(page int, _ *http.Request) bool {
		pages = page
		return false
	})
	s := gcs.New(newClient(t, storagetest.InFront(t, newFake(t, "fleet"), small)), "fleet")
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

// A bucket tells only what it is asked for, unlike the fake.
func TestJGCSWalkAsksForWhatItShows(t *testing.T) {
	fields := ""
	asked := pageSize("7", func(_ int, r *http.Request) bool {
		fields = r.URL.Query().Get("fields")
		return false
	})
	s := gcs.New(newClient(t, storagetest.InFront(t, newFake(t, "fleet"), asked)), "fleet")
	if err := s.Walk(t.Context(), "", func(string, storage.Info, error) error { return nil }); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"name", "size", "updated", "nextPageToken"} {
		if !strings.Contains(fields, want) {
			t.Errorf("it asks for %q, and not for %s", fields, want)
		}
	}
}

func TestJGCSWalkEndsWhenTheBucketIsMissingOrSilent(t *testing.T) {
	none := func(string, storage.Info, error) error { return nil }
	if err := gcs.New(newClient(t, newFake(t)), "nowhere").Walk(t.Context(), "", none); !errors.Is(err, jobs.ErrUnavailable) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Walk = %v, want jobs.ErrUnavailable", err)
	}
	silent := func(_ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done()
		return true
	}
	s := gcs.New(newClient(t, storagetest.InFront(t, newFake(t, "fleet"), silent)), "fleet")
	gcs.SetTimeout(s, 50*time.Millisecond)
	if err := s.Walk(t.Context(), "", none); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("Walk = %v, want jobs.ErrUnavailable", err)
	}
}

// pageSize has the fake list so many objects a call, and calls before with the number of each.
func pageSize(size string, before func(page int, r *http.Request) bool) func(http.ResponseWriter, *http.Request) bool {
	page := 0
	return func(_ http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/o") || r.Method != http.MethodGet {
			return false
		}
		page++
		q := r.URL.Query()
		q.Set("maxResults", size)
		r.URL.RawQuery = q.Encode()
		return before(page, r)
	}
}

func TestJGCSWalkEndsWhenALaterPageIsSilent(t *testing.T) {
	t.Parallel()
	silent := pageSize("7", func(page int, r *http.Request) bool {
		if page > 1 {
			<-r.Context().Done()
		}
		return page > 1
	})
	s := gcs.New(newClient(t, storagetest.InFront(t, newFake(t, "fleet"), silent)), "fleet")
	for i := range 9 {
		storagetest.PutString(t, s, fmt.Sprintf("results/%02d", i), "x")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	shown := 0
	err := s.Walk(ctx, "", func(string, storage.Info, error) error {
		if shown++; shown == 7 { // the first page has all the time it needs
			gcs.SetTimeout(s, 500*time.Millisecond)
		}
		return nil
	})
	if !errors.Is(err, jobs.ErrUnavailable) || shown != 7 {
		t.Errorf("Walk = %v after %d objects, want jobs.ErrUnavailable after the 7 of the first page", err, shown)
	}
}

func TestJGCSWalkWaitsForItsVisitor(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it waits for seconds")
	pages := pageSize("1", func(int, *http.Request) bool { return false })
	s := gcs.New(newClient(t, storagetest.InFront(t, newFake(t, "fleet"), pages)), "fleet")
	for i := range 3 {
		storagetest.PutString(t, s, fmt.Sprintf("results/%02d", i), "x")
	}
	gcs.SetTimeout(s, 5*time.Second)
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

func TestJGCSWalkPassesOverWhatIsNoName(t *testing.T) {
	client := newClient(t, newFake(t, "fleet"))
	for _, name := range []string{"results/", "results/folder/", "results//x", "results/a"} {
		w := client.Bucket("fleet").Object(name).NewWriter(t.Context())
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	err := gcs.New(client, "fleet").Walk(t.Context(), "results/", func(name string, _ storage.Info, err error) error {
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
