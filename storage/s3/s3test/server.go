// Package s3test runs S3 servers for tests.
package s3test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/minio/minio-go/v7"

	"github.com/batchfleet/batchfleet/storage/s3"
)

// What every server of this package lets in.
const (
	AccessKey = "access"
	SecretKey = "secret-of-tests"
	Region    = "eu-central-1"
)

// New starts a server in memory, with some buckets, and returns its address. It believes
// every signature.
func New(tb testing.TB, buckets ...string) string {
	tb.Helper()
	return start(tb, s3mem.New(), buckets)
}

// NewAt is New for a server that takes all objects to be put at one time.
func NewAt(tb testing.TB, when time.Time, buckets ...string) string {
	tb.Helper()
	return start(tb, s3mem.New(s3mem.WithTimeSource(gofakes3.FixedTimeSource(when))), buckets)
}

func start(tb testing.TB, backend gofakes3.Backend, buckets []string) string {
	tb.Helper()
	for _, b := range buckets {
		if err := backend.CreateBucket(b); err != nil {
			tb.Fatal(err)
		}
	}
	fake := gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog()))
	server := httptest.NewServer(&conditional{next: fake.Server()})
	tb.Cleanup(server.Close)
	return server.URL
}

// Server returns how to reach a server of this package.
func Server(url string) *s3.Server {
	return &s3.Server{Endpoint: url, Region: Region, AccessKey: AccessKey, SecretKey: SecretKey}
}

// Client returns a client of a server of this package.
func Client(tb testing.TB, url string) *minio.Client {
	tb.Helper()
	client, err := Server(url).Client(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return client
}

// conditional adds to the server in memory what it lacks: the conditions of the request that
// completes an upload of parts.
type conditional struct {
	mu   sync.Mutex
	next http.Handler
}

func (c *conditional) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	if r.Method == http.MethodPost && r.URL.Query().Has("uploadId") && match+none != "" {
		c.mu.Lock()
		defer c.mu.Unlock()
		head := httptest.NewRecorder()
		ask := r.Clone(r.Context())
		ask.Method, ask.URL.RawQuery, ask.Body, ask.Header = http.MethodHead, "", http.NoBody, nil
		c.next.ServeHTTP(head, ask)
		there := head.Code == http.StatusOK
		switch tag := head.Header().Get("ETag"); {
		case match != "" && !there:
			refuse(w, http.StatusNotFound, "NoSuchKey")
			return
		case match != "" && match != tag, none == "*" && there:
			refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
			return
		}
	}
	c.next.ServeHTTP(w, r)
}

func refuse(w http.ResponseWriter, status int, code string) { Refuse(w, status, code, code) }

// Refuse answers as S3 does when it does not do what it is asked for.
func Refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>%s</Code><Message>%s</Message></Error>", code, strings.ReplaceAll(message, "<", "&lt;"))
}
