package s3_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage/s3"
	"github.com/batchfleet/batchfleet/storage/s3/s3test"
	"github.com/batchfleet/batchfleet/storage/storagetest"
)

// shows reports whether a request makes an object visible.
func shows(r *http.Request) bool {
	return r.Method == http.MethodPut && !r.URL.Query().Has("partNumber") || r.Method == http.MethodPost && r.URL.Query().Has("uploadId")
}

func TestF47S3NewObjectOfOnePartIsOneRequest(t *testing.T) {
	var requests atomic.Int32
	count := func(http.ResponseWriter, *http.Request) bool { requests.Add(1); return false }
	s := open(t, storagetest.InFront(t, s3test.New(t, "fleet"), count))
	for i, size := range []int{300, 3 << 20} {
		storagetest.PutString(t, s, "object"+strings.Repeat("x", i), strings.Repeat("x", size))
		if n := requests.Swap(0); n != 1 {
			t.Errorf("a new object of %d bytes took %d requests, want 1", size, n)
		}
	}
	storagetest.PutString(t, s, "object", "new")
	if n := requests.Load(); n != 3 {
		t.Errorf("replacing took %d requests, want 3", n)
	}
}

func TestF47S3EveryWriteIsConditional(t *testing.T) {
	var bare, all atomic.Int32
	look := func(_ http.ResponseWriter, r *http.Request) bool {
		if shows(r) {
			all.Add(1)
			if r.Header.Get("If-Match")+r.Header.Get("If-None-Match") == "" {
				bare.Add(1)
			}
		}
		return false
	}
	s := open(t, storagetest.InFront(t, s3test.New(t, "fleet"), look))
	put := func() {
		for range 2 {
			for _, content := range []string{"", strings.Repeat("x", 300), large} {
				storagetest.PutString(t, s, "object", content)
			}
		}
	}
	if put(); bare.Load() != 0 || all.Load() == 0 {
		t.Errorf("%d of %d writes had no condition", bare.Load(), all.Load())
	}
	s.Unconditional = true
	if all.Store(0); s.Check(t.Context()) != nil {
		t.Error("the store is not accepted")
	}
	if put(); bare.Load() != all.Load() {
		t.Errorf("%d of %d writes had no condition, none was to have one", bare.Load(), all.Load())
	}
}

func TestF47S3ReplacesWhereARefusalIsLost(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it waits for seconds")
	reset := func(w http.ResponseWriter, r *http.Request) bool { // as a server that refuses before it has read all
		if r.Header.Get("If-None-Match") == "" {
			return false
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return true
		}
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
		return true
	}
	server := s3test.New(t, "fleet")
	storagetest.PutString(t, open(t, server), "object", "old")
	s := open(t, storagetest.InFront(t, server, reset))
	content := strings.Repeat("x", 1<<20)
	storagetest.PutString(t, s, "object", content)
	if got := storagetest.GetString(t, s, "object"); got != content {
		t.Errorf("the object has %d bytes, want %d", len(got), len(content))
	}
	if err := s.Put(t.Context(), "new", strings.NewReader(content)); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("a new object that did not arrive: %v, want %v", err, jobs.ErrUnavailable)
	}
}

func TestF47S3RepeatsFailedRequests(t *testing.T) {
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
	s := open(t, storagetest.InFront(t, s3test.New(t, "fleet"), fail))
	for _, content := range []string{"old", "new", large} {
		storagetest.PutString(t, s, "object", content)
		if got := storagetest.GetString(t, s, "object"); got != content {
			t.Errorf("got %d bytes, want the %d of the last put", len(got), len(content))
		}
	}
}

func TestF47S3LostAnswerIsNoFailure(t *testing.T) {
	t.Parallel()
	// The first write arrives, but its answer does not: the repeated request finds the
	// object changed, by itself, or its upload gone.
	servers(t, func(t *testing.T, url string) {
		for i, old := range []string{"", "old content", "", "old content"} {
			for _, content := range []string{"content", large} {
				name := fmt.Sprintf("object-%d-%c", i, content[0])
				if old != "" {
					storagetest.PutString(t, open(t, url), name, old)
				}
				var lost atomic.Bool
				lose := func(w http.ResponseWriter, r *http.Request) bool {
					if !shows(r) || lost.Swap(true) {
						return false
					}
					sendAlone(t, url, r)
					w.WriteHeader(http.StatusServiceUnavailable)
					return true
				}
				s := open(t, storagetest.InFront(t, url, lose))
				s.Unconditional = i > 1
				storagetest.PutString(t, s, name, content)
				if got := storagetest.GetString(t, s, name); got != content || !lost.Load() {
					t.Errorf("got %d bytes, want %d", len(got), len(content))
				}
			}
		}
	})
}

// sendAlone passes a request on to the server.
func sendAlone(t *testing.T, server string, r *http.Request) {
	t.Helper()
	again, err := http.NewRequestWithContext(r.Context(), r.Method, server+r.URL.RequestURI(), r.Body)
	if err != nil {
		t.Error(err)
		return
	}
	again.Header, again.Host, again.ContentLength = r.Header, r.Host, r.ContentLength
	resp, err := http.DefaultClient.Do(again)
	if err != nil {
		t.Error(err)
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}

func TestF47S3OvertakenPutKeepsTheNewerObject(t *testing.T) {
	t.Parallel()
	// Another writer comes between the reading of the tag and the end of the upload.
	servers(t, func(t *testing.T, url string) {
		direct := open(t, url)
		for _, old := range []string{"", "old content"} {
			for _, content := range []string{"content", large} {
				name := "object" + old + content[:1]
				if old != "" {
					storagetest.PutString(t, direct, name, old)
				}
				read, overtaken := false, false
				overtake := func(_ http.ResponseWriter, r *http.Request) bool {
					if shows(r) && read && !overtaken {
						overtaken = true
						storagetest.PutString(t, direct, name, "newer")
					}
					read = read || r.Method == http.MethodHead || old == ""
					return false
				}
				storagetest.PutString(t, open(t, storagetest.InFront(t, url, overtake)), name, content)
				// A small object that was new is sent again: it has never read what is there.
				if got := storagetest.GetString(t, direct, name); got != "newer" && overtaken {
					t.Errorf("%q over %q: the object is %d bytes long, want the newer one", content[:1], old, len(got))
				}
				wantNoUploads(t, url)
			}
		}
	})
}

// wantNoUploads checks that no parts are left in the bucket.
func wantNoUploads(t *testing.T, url string) {
	t.Helper()
	core := minio.Core{Client: s3test.Client(t, url)}
	found, err := core.ListMultipartUploads(t.Context(), "fleet", "", "", "", "", 100)
	if err != nil && minio.ToErrorResponse(err).Code != "NoSuchUpload" || len(found.Uploads) > 0 { // what the server in memory says of none
		t.Errorf("left are the parts of %+v, %v", found.Uploads, err)
	}
}

func TestF47S3AbandonedUploadLeavesNoParts(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, url string) {
		broken := errors.New("source broke")
		err := open(t, url).Put(t.Context(), "object", io.MultiReader(strings.NewReader(large), &failing{broken}))
		if !errors.Is(err, broken) {
			t.Errorf("Put = %v, want the reader's error", err)
		}
		wantNoUploads(t, url)
	})
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

func TestF47S3UnfinishedUploadOfAnotherCannotBeCompleted(t *testing.T) {
	t.Parallel()
	// A process is frozen before the last request of its upload; another one takes its job.
	servers(t, func(t *testing.T, url string) {
		direct := open(t, url)
		storagetest.PutString(t, direct, "results/a/done", "x")
		storagetest.PutString(t, direct, "results/ab/done", "x")
		takeOver := func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPost && r.URL.Query().Has("uploadId") {
				if err := direct.RemoveUnfinished(t.Context(), "results/a"); err != nil {
					t.Error(err)
				}
			}
			return false
		}
		s := open(t, storagetest.InFront(t, url, takeOver))
		if err := s.Put(t.Context(), "results/a/pages.jsonl", strings.NewReader(large)); !errors.Is(err, jobs.ErrUnavailable) {
			t.Errorf("Put = %v, want jobs.ErrUnavailable", err)
		}
		if _, err := direct.Stat(t.Context(), "results/a/pages.jsonl"); err == nil {
			t.Error("the object of the frozen process has appeared")
		}
		storagetest.PutString(t, s, "results/ab/pages.jsonl", large) // is of another job
		if got := storagetest.GetString(t, direct, "results/a/done"); got != "x" {
			t.Errorf("what was there is %q now", got)
		}
	})
}

func TestF47S3ConflictIsTriedAgain(t *testing.T) {
	var conflicts atomic.Int32
	conflict := func(w http.ResponseWriter, r *http.Request) bool {
		if !shows(r) || conflicts.Add(1) > 1 {
			return false
		}
		s3test.Refuse(w, http.StatusConflict, "ConditionalRequestConflict", "A conflicting operation occurred.")
		return true
	}
	url := storagetest.InFront(t, s3test.New(t, "fleet"), conflict)
	for _, content := range []string{"content", large} {
		conflicts.Store(0)
		s := open(t, url)
		storagetest.PutString(t, s, "object", content)
		if got := storagetest.GetString(t, s, "object"); got != content {
			t.Errorf("got %d bytes", len(got))
		}
	}
}

func TestF47S3TooManyPartsAreRefused(t *testing.T) {
	url := s3test.New(t, "fleet")
	s := open(t, url)
	s3.SetMaxParts(s, 2)
	if err := s.Put(t.Context(), "object", strings.NewReader(large)); !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), "16777216 bytes") {
		t.Errorf("Put = %v, want it to say what the most is", err)
	}
	wantNoUploads(t, url)
	storagetest.PutString(t, s, "object", large[1:])
}

// zeros yields so many bytes and does not say how many; between them it looks at the heap.
type zeros struct {
	left  int64
	reads int
	most  uint64
}

func (z *zeros) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	if z.reads++; z.reads%200 == 0 {
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		z.most = max(z.most, now.HeapInuse)
	}
	n := min(int64(len(p)), z.left)
	z.left -= n
	return int(n), nil
}

func TestF47S3LargeObjectTakesTheMemoryOfOnePart(t *testing.T) {
	testrun.Once(t, "it is about the memory of a process")
	testrun.Long(t, "it takes much CPU")
	var sent, largest atomic.Int64
	swallow := func(w http.ResponseWriter, r *http.Request) bool {
		switch q := r.URL.Query(); {
		case r.Method == http.MethodHead && strings.HasSuffix(r.URL.Path, "/object"):
			w.WriteHeader(http.StatusNotFound)
		case r.Method == http.MethodHead: // about the bucket
		case q.Has("uploads"):
			_, _ = io.WriteString(w, "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")
		case q.Has("partNumber"):
			n, _ := io.Copy(io.Discard, r.Body)
			sent.Add(n)
			largest.Store(max(largest.Load(), n))
			w.Header().Set("ETag", `"part"`)
		default:
			body, _ := io.ReadAll(r.Body)
			if bytes.Count(body, []byte("<Part>")) != 257 {
				t.Errorf("the object has %d parts, want 257", bytes.Count(body, []byte("<Part>")))
			}
			_, _ = io.WriteString(w, "<CompleteMultipartUploadResult><Bucket>fleet</Bucket></CompleteMultipartUploadResult>")
		}
		return true
	}
	s := open(t, storagetest.InFront(t, s3test.New(t, "fleet"), swallow))
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	z := &zeros{left: 2<<30 + 5}
	if err := s.Put(t.Context(), "object", z); err != nil {
		t.Fatal(err)
	}
	if sent.Load() != 2<<30+5 || largest.Load() != s3.PartSize {
		t.Errorf("%d bytes were sent, in parts of up to %d", sent.Load(), largest.Load())
	}
	if grown := int64(z.most) - int64(before.HeapInuse); grown > 32<<20 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
}
