package control_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// benchResult is a report of about 2 KB.
func benchResult(lease string) string {
	return fmt.Sprintf(`{"lease_id":%q,"result":{"zpe_ev":0.2664,"freqs_cm":[%s]},"summary_text":"ZPE 0.2664 eV","freqs_csv":"mode,cm-1\n1,4296\n",`+
		`"meta":{"worker_hostname":"lab-1","computation_time_seconds":12.3,"qe_version":"7.2","timestamp":"2026-02-18T09:30:00Z"}}`,
		lease, strings.Repeat("4296.012345678901,", 100)+"1")
}

// leaseAndReport takes n jobs by HTTP and reports their results.
func leaseAndReport(b *testing.B, client *http.Client, url, token string, n int) {
	b.Helper()
	post := func(path, body string) []byte {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url+path, strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			b.Fatalf("%s: %d %s, %v", path, resp.StatusCode, answer, err)
		}
		return answer
	}
	for range n {
		var g wire.LeaseResponse
		if err := json.Unmarshal(post(wire.PathLease, `{"features":["renew"]}`), &g); err != nil {
			b.Fatal(err)
		}
		post("/calc/zpe/compute/jobs/"+g.JobID+"/result", benchResult(g.LeaseID))
	}
}

func submitAll(b *testing.B, q *queue.Queue) {
	b.Helper()
	for i := range b.N {
		if _, err := q.Submit(b.Context(), jobs.ID(fmt.Sprintf("%s-%d-%d", "b", b.N, i)), []byte(`{"x":1}`), ""); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
}

func BenchmarkLeaseAndResult(b *testing.B) {
	r := newRig(b, nil)
	w := r.worker()
	submitAll(b, r.queue)
	leaseAndReport(b, r.client, r.url, w.token, b.N)
}

// BenchmarkBareHandler is what HTTP and the two scripts cost without the
// gateway: no routes, no checks, no metrics.
func BenchmarkBareHandler(b *testing.B) {
	r := newRig(b, nil)
	w := r.worker()
	caller := queue.Caller{TokenHash: queue.HashToken(w.token)}
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			b.Error(err)
		}
		if req.URL.Path == wire.PathLease {
			g, err := r.queue.Lease(req.Context(), caller, queue.LeaseRequest{Renews: true})
			if err != nil {
				b.Error(err)
			}
			_ = json.NewEncoder(rw).Encode(wire.LeaseResponse{JobID: string(g.Job), Payload: json.RawMessage(g.Payload), LeaseID: g.LeaseID})
			return
		}
		var ask wire.ResultRequest
		if err := json.Unmarshal(body, &ask); err != nil {
			b.Error(err)
		}
		id := strings.Split(req.URL.Path, "/")[5]
		if _, _, err := r.queue.Finish(req.Context(), caller, jobs.ID(id), ask.LeaseID, queue.Result{
			JSON: string(ask.Result), Summary: *ask.SummaryText, Freqs: *ask.FreqsCSV, Meta: string(ask.Meta),
		}); err != nil {
			b.Error(err)
		}
		_, _ = rw.Write([]byte(`{"ok":true}`))
	}))
	b.Cleanup(srv.Close)
	submitAll(b, r.queue)
	leaseAndReport(b, r.client, srv.URL, w.token, b.N)
}

// BenchmarkBatches is BenchmarkLeaseAndResult in batches of 32.
func BenchmarkBatches(b *testing.B) {
	r := newRig(b, nil)
	w := r.worker()
	submitAll(b, r.queue)
	const most = 32
	for left := b.N; left > 0; {
		var all wire.LeasesResponse
		if err := json.Unmarshal([]byte(w.post(wire.PathLease, fmt.Sprintf(`{"features":["renew"],"max":%d}`, most)).body), &all); err != nil {
			b.Fatal(err)
		}
		var results []string
		for _, g := range all.Jobs {
			results = append(results, `{"job_id":"`+g.JobID+`",`+benchResult(g.LeaseID)[1:])
		}
		if a := w.post(wire.PathResults, `{"results":[`+strings.Join(results, ",")+`]}`); a.status != http.StatusOK {
			b.Fatal(a.body)
		}
		left -= len(all.Jobs)
	}
}
