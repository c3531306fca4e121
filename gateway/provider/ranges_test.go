package provider_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/gateway/control"
	"github.com/batchfleet/batchfleet/gateway/provider"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/access"
	apiclient "github.com/batchfleet/batchfleet/jobapi/client"
	"github.com/batchfleet/batchfleet/storage"
)

// serveArtifact answers the Job API over a job "t1" of kind thumbnail with one artifact, big.bin, and a job "z1" of kind zpe. around may
// do something else to a request.
func (r *zpeRig) serveArtifact(content []byte, around func(http.Handler) http.Handler) (url string, c *apiclient.Client) {
	r.Helper()
	store, err := storage.NewLocal(r.TempDir())
	if err != nil {
		r.Fatal(err)
	}
	r.submit("z1")
	r.finish(r.lease("z1"))
	r.submitKind("thumbnail", "t1")
	caller, g := r.leaseKind("thumbnail")
	attempt := sha256.Sum256([]byte(g.LeaseID))
	if err := store.Put(r.Context(), "gateway/artifacts/t1/"+hex.EncodeToString(attempt[:16])+"/big.bin", bytes.NewReader(content)); err != nil {
		r.Fatal(err)
	}
	sum := sha256.Sum256(content)
	a := queue.Artifact{Name: "big.bin", Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}
	if err := r.q.AddArtifact(r.Context(), caller, g.Job, g.LeaseID, a); err != nil {
		r.Fatal(err)
	}
	if _, _, err := r.q.Finish(r.Context(), caller, g.Job, g.LeaseID, queue.Result{JSON: `{"a":1}`, Artifacts: []queue.Artifact{a}}); err != nil {
		r.Fatal(err)
	}
	others := &provider.ZPE{Queue: r.q, Others: true, Stop: r.q.Cancel, OpenFile: (&control.Files{Store: store}).OpenArtifact}
	api := &jobapi.Server{
		Scopes: []jobapi.Scope{
			{Name: "gateway", Jobs: others, Cancel: access.Operate, Create: access.Operate},
			{Name: "zpe", Jobs: r.zpe, Cancel: access.Operate, Create: access.Operate},
		},
		Log: slog.New(slog.DiscardHandler), Metrics: jobapi.NewMetrics(prometheus.NewRegistry()), Guard: jobapi.Loopback,
	}
	server := httptest.NewServer(around(api.Handler()))
	r.Cleanup(server.Close)
	if c, err = apiclient.New(apiclient.Config{URL: server.URL}); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(c.Close)
	return server.URL, c
}

func TestK19PartsOfAGatewaysArtifactsCanBeAskedFor(t *testing.T) {
	r := newZPERig(t)
	url, _ := r.serveArtifact([]byte("0123456789"), func(h http.Handler) http.Handler { return h })
	for _, tt := range []struct {
		name, path, content string
	}{
		{"a file", "gateway/jobs/t1/artifacts/big.bin", "0123456789"},
		{"the result", "gateway/jobs/t1/artifacts/result.json", `{"a":1}`},
		{"the result of a job of kind zpe", "zpe/jobs/z1/artifacts/result.json", "{}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ask := func(headers ...string) (status int, body string, h http.Header) {
				t.Helper()
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/api/v1/"+tt.path, nil)
				if err != nil {
					t.Fatal(err)
				}
				for i := 0; i < len(headers); i += 2 {
					req.Header.Set(headers[i], headers[i+1])
				}
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				text, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				return resp.StatusCode, string(text), resp.Header
			}
			sum := sha256.Sum256([]byte(tt.content))
			tag := `"` + hex.EncodeToString(sum[:]) + `"`
			if status, body, h := ask(); status != 200 || body != tt.content || h.Get("ETag") != tag || h.Get("Accept-Ranges") != "bytes" {
				t.Errorf("the whole: %d %q %v", status, body, h)
			}
			for headers, want := range map[[2]string]string{
				{"bytes=1-", tag}:       tt.content[1:],
				{"bytes=0-0", tag}:      tt.content[:1],
				{"bytes=-1", tag}:       tt.content[len(tt.content)-1:],
				{"bytes=1-", `"other"`}: tt.content,
			} {
				status, body, _ := ask("Range", headers[0], "If-Range", headers[1])
				if body != want || (status == 206) != (headers[1] == tag) {
					t.Errorf("%s: %d %q, want %q", headers, status, body, want)
				}
			}
			if status, body, _ := ask("Range", "bytes=10-"); status != 416 || !strings.Contains(body, jobapi.CodeRange) {
				t.Errorf("beyond the end: %d %s", status, body)
			}
		})
	}
}

// TestK19ADownloadFromAGatewayGoesOnWhereItBrokeOff behind a proxy that cuts each connection after a megabyte.
func TestK19ADownloadFromAGatewayGoesOnWhereItBrokeOff(t *testing.T) {
	content := make([]byte, 3<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content) // never fails
	r := newZPERig(t)
	var asked atomic.Int64
	_, c := r.serveArtifact(content, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			asked.Add(1)
			h.ServeHTTP(&cut{ResponseWriter: w, left: 1_000_000}, req)
		})
	})
	var got bytes.Buffer
	err := c.Artifact(t.Context(), "gateway", "t1", "big.bin", &got)
	if err != nil || !bytes.Equal(got.Bytes(), content) {
		t.Errorf("%d bytes of %d, %v", got.Len(), len(content), err)
	}
	if n := asked.Load(); n != 4 {
		t.Errorf("%d requests, want 4: each brings 1 of 3 MiB", n)
	}
}

// cut ends a connection after some bytes.
type cut struct {
	http.ResponseWriter
	left int
}

func (c *cut) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *cut) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p[:min(len(p), c.left)])
	if c.left -= n; err == nil && n < len(p) {
		if err := errors.Join(err, http.NewResponseController(c.ResponseWriter).Flush()); err != nil {
			return n, err
		}
		panic(http.ErrAbortHandler)
	}
	return n, err
}
