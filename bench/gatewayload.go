package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/batchfleet/batchfleet/gateway/wire"
)

// benchResult is what an agent reports, but for the lease.
const benchResult = `"result":{"zpe_ev":0.26643711,"freqs_cm":[4297.5],"s_vib_jmol_k":1.2e-7,"mobile_indices":[0,1],"fixed_indices":[],"kpoints":[1,1,1],"delta":0.01,"low_cut_cm":50,"elapsed_seconds":8.4,"ecutwfc":40,"ecutrho":200},` +
	`"summary_text":"ZPE 0.2664 eV, 1 mode, 13 runs of pw.x 6.7MaX\n","freqs_csv":"mode,frequency_cm1\n1,4297.5\n",` +
	`"meta":{"worker_hostname":"lab-pc","computation_time_seconds":8.4,"qe_version":"6.7MaX","timestamp":"2026-11-21T08:59:09Z"}`

// runAgents runs n jobs, a lease and a result each, with eight agents that have
// a connection each, and returns the rate.
func runAgents(ctx context.Context, url, token string, n int) (rate float64, err error) {
	var left atomic.Int64
	left.Store(int64(n))
	var agents errgroup.Group
	began := time.Now()
	for range 8 {
		agents.Go(func() error {
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
			defer client.CloseIdleConnections()
			for left.Add(-1) >= 0 {
				if err := runJob(ctx, client, url, token); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = agents.Wait()
	return float64(n) / time.Since(began).Seconds(), err
}

func runJob(ctx context.Context, client *http.Client, url, token string) error {
	var lease wire.LeaseResponse
	if err := postJSON(ctx, client, url+wire.PathLease, token, `{"features":["renew","cancel"]}`, &lease); err != nil {
		return err
	}
	if lease.JobID == "" {
		return errors.New("the queue is empty too early")
	}
	var ok wire.ReportResponse
	return postJSON(ctx, client, url+"/calc/zpe/compute/jobs/"+lease.JobID+"/result", token, `{"lease_id":"`+lease.LeaseID+`",`+benchResult+`}`, &ok)
}

func postJSON(ctx context.Context, client *http.Client, url, token, body string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusNoContent { // no job
		return nil
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("POST %s: %s: %s", url, resp.Status, answer)
	}
	return json.Unmarshal(answer, into)
}
