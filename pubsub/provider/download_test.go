package provider_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/access"
	apiclient "github.com/batchfleet/batchfleet/jobapi/client"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/artifact"
	"github.com/batchfleet/batchfleet/storage"
)

// serve answers the Job API over the rig's fleet. around may do something else to a request.
func (r *fleetRig) serve(around func(http.Handler) http.Handler) (url string, c *apiclient.Client) {
	r.Helper()
	log := slog.New(slog.DiscardHandler)
	api := &jobapi.Server{
		Scopes: []jobapi.Scope{{Name: "fleet", Jobs: r.fleet, Cancel: access.Operate, Create: access.Operate}},
		Log:    log, Metrics: jobapi.NewMetrics(prometheus.NewRegistry()), Guard: jobapi.Loopback,
	}
	server := httptest.NewServer(around(api.Handler()))
	r.Cleanup(server.Close)
	c, err := apiclient.New(apiclient.Config{URL: server.URL})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(c.Close)
	return server.URL, c
}

func asItIs(h http.Handler) http.Handler { return h }

// made stores what the job "own", of somebody's own kind, has made, and records it.
func (r *fleetRig) made(files map[string][]byte) storage.Store {
	r.Helper()
	const id = jobs.ID("own")
	store, err := storage.NewLocal(r.TempDir())
	if err != nil {
		r.Fatal(err)
	}
	r.fleet.Storage = func(context.Context) (storage.Store, error) { return store, nil }
	c := r.claim(r.submit(id))
	result := artifact.Result{JobID: id, Kind: "thumbnail", Attempt: 1}
	for name, content := range files {
		a, err := artifact.Put(r.Context(), store, id, name, bytes.NewReader(content), func() {})
		if err != nil {
			r.Fatal(err)
		}
		result.Artifacts = append(result.Artifacts, a)
	}
	done, err := artifact.Finish(r.Context(), store, result, 0)
	if err != nil {
		r.Fatal(err)
	}
	r.finish(c, jobs.Outcome{State: jobs.Succeeded, Result: done})
	return store
}

func TestK19ArtifactsOfPeoplesOwnKindsAreListedAndOpened(t *testing.T) {
	r := newFleetRig(t)
	text := []byte("three words\nhere\n")
	r.made(map[string][]byte{"page-1.png": []byte("\x89PNG"), "words.txt": text})
	got, err := r.fleet.Artifacts(t.Context(), "own")
	if err != nil || len(got) != 3 {
		t.Fatalf("listed %v, %v", got, err)
	}
	sum := sha256.Sum256(text)
	for i, want := range []jobapi.Artifact{
		{Name: "page-1.png", MediaType: "image/png", Bytes: 4},
		{Name: "result.json", MediaType: "application/json", Bytes: got[1].Bytes},
		{Name: "words.txt", MediaType: "text/plain; charset=utf-8", Bytes: int64(len(text)), SHA256: hex.EncodeToString(sum[:])},
	} {
		if i == 0 {
			png := sha256.Sum256([]byte("\x89PNG"))
			want.SHA256 = hex.EncodeToString(png[:])
		}
		got[i].Tag = ""
		if d := cmp.Diff(want, got[i]); d != "" {
			t.Errorf("want (-) and got (+):\n%s", d)
		}
	}
	content, a, err := r.fleet.OpenArtifact(t.Context(), "own", "words.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	if all, err := io.ReadAll(content); err != nil || !bytes.Equal(all, text) || a.Bytes != int64(len(text)) {
		t.Errorf("opened %+v with %q, %v", a, all, err)
	}
}

func TestK19PartsOfAnArtifactCanBeAskedFor(t *testing.T) {
	r := newFleetRig(t)
	r.made(map[string][]byte{"ten.bin": []byte("0123456789"), "empty.bin": {}})
	url, _ := r.serve(asItIs)
	ask := func(name string, headers ...string) (status int, body string, h http.Header) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/api/v1/fleet/jobs/own/artifacts/"+name, nil)
		if err != nil {
			t.Fatal(err)
		}
		for pair := range slices.Chunk(headers, 2) {
			req.Header.Add(pair[0], pair[1])
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
	_, _, h := ask("ten.bin")
	tag := h.Get("ETag")
	if tag == "" || h.Get("Accept-Ranges") != "bytes" || h.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("header %v", h)
	}
	for _, tt := range []struct {
		name    string
		file    string
		headers []string
		status  int
		body    string // empty for an error
		of      string // Content-Range
	}{
		{"the whole", "ten.bin", nil, 200, "0123456789", ""},
		{"from the start", "ten.bin", []string{"Range", "bytes=0-"}, 206, "0123456789", "bytes 0-9/10"},
		{"the rest", "ten.bin", []string{"Range", "bytes=7-"}, 206, "789", "bytes 7-9/10"},
		{"the middle", "ten.bin", []string{"Range", "bytes=2-4"}, 206, "234", "bytes 2-4/10"},
		{"one byte", "ten.bin", []string{"Range", "bytes=0-0"}, 206, "0", "bytes 0-0/10"},
		{"beyond the end", "ten.bin", []string{"Range", "bytes=8-99"}, 206, "89", "bytes 8-9/10"},
		{"the last", "ten.bin", []string{"Range", "bytes=-3"}, 206, "789", "bytes 7-9/10"},
		{"more than there is, of the last", "ten.bin", []string{"Range", "bytes=-30"}, 206, "0123456789", "bytes 0-9/10"},
		{"the same content", "ten.bin", []string{"Range", "bytes=7-", "If-Range", tag}, 206, "789", "bytes 7-9/10"},
		{"another content", "ten.bin", []string{"Range", "bytes=7-", "If-Range", `"other"`}, 200, "0123456789", ""},
		{"nothing left", "ten.bin", []string{"Range", "bytes=10-"}, 416, "", ""},
		{"the last none", "ten.bin", []string{"Range", "bytes=-0"}, 416, "", ""},
		{"of an empty one", "empty.bin", []string{"Range", "bytes=0-"}, 416, "", ""},
		{"two parts", "ten.bin", []string{"Range", "bytes=0-1,3-4"}, 200, "0123456789", ""},
		{"backwards", "ten.bin", []string{"Range", "bytes=4-2"}, 200, "0123456789", ""},
		{"another unit", "ten.bin", []string{"Range", "lines=1-2"}, 200, "0123456789", ""},
		{"no numbers", "ten.bin", []string{"Range", "bytes=+1-2"}, 200, "0123456789", ""},
		{"a number beyond all", "ten.bin", []string{"Range", "bytes=99999999999999999999-"}, 200, "0123456789", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, body, h := ask(tt.file, tt.headers...)
			if status != tt.status || h.Get("Content-Range") != tt.of || tt.body != "" && body != tt.body {
				t.Errorf("%d %q %q, want %d %q %q", status, body, h.Get("Content-Range"), tt.status, tt.body, tt.of)
			}
			if tt.status == 416 && !strings.Contains(body, jobapi.CodeRange+`","message":"The artifact has `) {
				t.Errorf("body %s", body)
			}
		})
	}
}

// TestK19ADownloadGoesOnWhereItBrokeOff behind a proxy that cuts each connection after some bytes.
func TestK19ADownloadGoesOnWhereItBrokeOff(t *testing.T) {
	content := make([]byte, 3<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content) // never fails
	for _, tt := range []struct {
		name   string
		change bool   // the file, after the first part
		err    string // part of it
	}{
		{"the same file", false, ""},
		{"another file by then", true, "it has changed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newFleetRig(t)
			store := r.made(map[string][]byte{"big.bin": content})
			var asked atomic.Int64
			_, c := r.serve(func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					if n := asked.Add(1); n == 2 && tt.change {
						if err := store.Put(req.Context(), artifact.ObjectName("own", "big.bin"), bytes.NewReader(content[1:])); err != nil {
							t.Error(err)
						}
					}
					h.ServeHTTP(&cut{ResponseWriter: w, left: 1_000_000}, req)
				})
			})
			var got bytes.Buffer
			err := c.Artifact(t.Context(), "fleet", "own", "big.bin", &got)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want one with %q", err, tt.err)
				}
				return
			}
			if err != nil || !bytes.Equal(got.Bytes(), content) {
				t.Errorf("%d bytes of %d, %v", got.Len(), len(content), err)
			}
			if n := asked.Load(); n != 4 {
				t.Errorf("%d requests, want 4: each brings 1 of 3 MiB", n)
			}
		})
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
		if err := http.NewResponseController(c.ResponseWriter).Flush(); err != nil {
			return n, errors.Join(fmt.Errorf("flush"), err)
		}
		panic(http.ErrAbortHandler)
	}
	return n, err
}
