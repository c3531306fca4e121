package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// serveBareGateway answers a lease and a result with the same two scripts as the
// gateway, as the shortest handler would: nothing is checked, counted or logged.
func serveBareGateway(ctx context.Context) error {
	rdb := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_HOST") + ":" + os.Getenv("REDIS_PORT"), DisableIdentity: true})
	defer rdb.Close()
	q := queue.New(rdb, queue.DefaultRules)
	caller := func(r *http.Request) queue.Caller {
		return queue.Caller{TokenHash: queue.HashToken(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+wire.PathLease, func(w http.ResponseWriter, r *http.Request) {
		grant, err := q.Lease(r.Context(), caller(r), queue.LeaseRequest{Renews: true})
		if err != nil || grant.Job == "" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		answer, err := json.Marshal(wire.LeaseResponse{JobID: string(grant.Job), Payload: json.RawMessage(grant.Payload), LeaseID: grant.LeaseID, LeaseTTLSeconds: grant.TTL.Seconds()})
		if err != nil {
			panic(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	})
	mux.HandleFunc("POST "+wire.PathResult, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var ask wire.ResultRequest
		if err := json.Unmarshal(body, &ask); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_, _, err = q.Finish(r.Context(), caller(r), jobs.ID(r.PathValue("id")), ask.LeaseID, queue.Result{
			JSON: string(ask.Result), Summary: *ask.SummaryText, Freqs: *ask.FreqsCSV, Meta: string(ask.Meta),
		})
		if err != nil {
			w.WriteHeader(http.StatusConflict)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"ok":true,"idempotent":false}`)
	})
	l, err := listen(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", l.Addr())
	srv := &http.Server{Handler: mux} //nolint:gosec // a bench of a minute
	context.AfterFunc(ctx, func() { _ = srv.Close() })
	if err := srv.Serve(l); ctx.Err() == nil {
		return err
	}
	return nil
}
