// Package operator is what people ask of a gateway beside the Job API: to take a job, to list
// and revoke its workers, to let one register, to drop a dead letter. It speaks the routes of
// package gateway's SPEC.md for clients and operators.
package operator

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobapi/client"
	"github.com/batchfleet/batchfleet/jobs"
)

// Gateway is a gateway, reached by a client with the token that it asks of operators, or of
// those who submit jobs. Its methods may be called concurrently; errors are those of
// [client.Client].
type Gateway struct{ *client.Client }

// Submit queues a job with this payload, an object in JSON, and returns its id. It is retried
// under one key, so that a lost answer makes no second job.
func (g Gateway) Submit(ctx context.Context, payload []byte) (id string, err error) {
	return g.submit(ctx, wire.PathJobs, payload, rand.Text())
}

// SubmitKind is Submit of a job of a kind beside zpe. The same request with the same key, not empty, is the same job.
func (g Gateway) SubmitKind(ctx context.Context, kind string, req wire.SubmitRequest, key string) (id string, err error) {
	body, err := json.Marshal(req)
	if err != nil {
		return "", err
	}
	return g.submit(ctx, wire.PathOf(kind, wire.PathJobs), body, cmp.Or(key, rand.Text()))
}

func (g Gateway) submit(ctx context.Context, path string, payload []byte, key string) (id string, err error) {
	var a wire.SubmitResponse
	if err := g.CallOnce(ctx, http.MethodPost, path, payload, http.Header{wire.HeaderIdempotencyKey: {key}}, &a); err != nil {
		return "", fmt.Errorf("submit job: %w", err)
	}
	if _, err := jobs.ParseID(a.JobID); err != nil {
		return "", fmt.Errorf("submit job: %w: the gateway's answer names no job", jobs.ErrUnavailable)
	}
	return a.JobID, nil
}

// AddInput uploads an input for jobs of a kind beside zpe, and returns its name for SubmitKind. size is -1 if it is not
// known.
func (g Gateway) AddInput(ctx context.Context, kind string, content io.Reader, size int64) (input string, err error) {
	var a wire.InputResponse
	if err := g.Upload(ctx, wire.PathOf(kind, wire.PathInputs), content, size, &a); err != nil {
		return "", fmt.Errorf("upload input: %w", err)
	}
	if a.Input == "" {
		return "", fmt.Errorf("upload input: %w: the gateway's answer names no input", jobs.ErrUnavailable)
	}
	return a.Input, nil
}

// maxWorkers is how many workers are listed: as many as a gateway's page may have.
const maxWorkers = 1000

// Workers returns the workers that have registered, those first whose token is the newest, and
// how many there are.
func (g Gateway) Workers(ctx context.Context) (list []wire.ServerInfo, total int, err error) {
	var a wire.ServersResponse
	if err := g.Call(ctx, http.MethodGet, fmt.Sprintf("%s?limit=%d", wire.PathServers, maxWorkers), nil, &a); err != nil {
		return nil, 0, fmt.Errorf("list the gateway's workers: %w", err)
	}
	return a.Servers, a.Total, nil
}

// Leasing reports whether the gateway hands out jobs: not while it is drained.
func (g Gateway) Leasing(ctx context.Context) (bool, error) {
	var a wire.OpsResponse
	if err := g.Call(ctx, http.MethodGet, wire.PathOps, nil, &a); err != nil {
		return false, fmt.Errorf("ask whether the gateway is drained: %w", err)
	}
	return a.DequeueEnabled == nil || *a.DequeueEnabled, nil
}

// Revoke ends all tokens of a worker and returns how many those were.
func (g Gateway) Revoke(ctx context.Context, worker string) (int, error) {
	var a wire.RevokeResponse
	if err := g.Call(ctx, http.MethodDelete, strings.Replace(wire.PathServer, "{worker}", url.PathEscape(worker), 1), nil, &a); err != nil {
		return 0, fmt.Errorf("revoke worker %s: %w", worker, err)
	}
	return a.RevokedCount, nil
}

// Enroll makes a token that lets one worker register, within ttl.
func (g Gateway) Enroll(ctx context.Context, label string, ttl time.Duration) (token string, err error) {
	seconds := int64(ttl.Seconds())
	body, err := json.Marshal(wire.EnrollRequest{Label: label, TTLSeconds: &seconds})
	if err != nil {
		return "", err
	}
	var a wire.EnrollResponse
	if err := g.Call(ctx, http.MethodPost, wire.PathEnrollTokens, body, &a); err != nil {
		return "", fmt.Errorf("make enroll token: %w", err)
	}
	return a.Token, nil
}

// Drop deletes a dead letter for good.
func (g Gateway) Drop(ctx context.Context, kind, id string) error {
	if err := g.Call(ctx, http.MethodDelete, deadLetterPath(kind, id), nil, nil); err != nil {
		return fmt.Errorf("drop dead letter %s: %w", id, err)
	}
	return nil
}

// DeadLetter returns all that there is of a dead letter, its traceback and its payload too. Of a
// job that has not failed the error is a refusal with status 404.
func (g Gateway) DeadLetter(ctx context.Context, kind, id string) (j wire.JobResponse, err error) {
	if err := g.Call(ctx, http.MethodGet, deadLetterPath(kind, id), nil, &j); err != nil {
		return wire.JobResponse{}, fmt.Errorf("show dead letter %s: %w", id, err)
	}
	return j, nil
}

func deadLetterPath(kind, id string) string {
	return strings.Replace(wire.PathOf(kind, wire.PathDLQJob), "{id}", url.PathEscape(id), 1)
}

// DeadLetters returns the newest dead letters of a kind, at most limit, which is at most 1000, from
// number offset on, and how many there are.
func (g Gateway) DeadLetters(ctx context.Context, kind string, offset, limit int) (list []wire.JobResponse, total int, err error) {
	var a wire.DLQResponse
	if err := g.Call(ctx, http.MethodGet, fmt.Sprintf("%s?offset=%d&limit=%d", wire.PathOf(kind, wire.PathDLQ), offset, limit), nil, &a); err != nil {
		return nil, 0, fmt.Errorf("list the gateway's dead letters: %w", err)
	}
	return a.Jobs, a.Total, nil
}
