package status_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

func TestK14WhatAJobIsAskedToDoStaysOnRecord(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		ctx := t.Context()
		whole := jobs.Job{
			ID: "a", Kind: "thumbnail", Inputs: []string{"uploads/a/1\u2028.pdf", "gs://friend/2.pdf"},
			Payload: `{"b": 1.50, "a":"<` + strings.Repeat("x", 200_000) + `>\n"}`, Submitted: time.UnixMilli(time.Now().UnixMilli()).UTC(), Trace: "00-x",
		}
		want := func(when string) {
			t.Helper()
			e, err := s.Get(ctx, "a")
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Job(ctx, e)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(whole, got); d != "" {
				t.Errorf("%s the job on record is another one (-want +got):\n%.2000s", when, d)
			}
			if ttl := rdb.TTL(ctx, "{job:a}:params").Val(); ttl < 24*time.Hour-time.Minute || ttl > 24*time.Hour {
				t.Errorf("%s the parameters are kept for %s, want 24 h", when, ttl)
			}
			rdb.Expire(ctx, "{job:a}:params", time.Hour) // each write renews it
		}
		if _, err := s.Submit(ctx, whole); err != nil {
			t.Fatal(err)
		}
		want("after it was submitted")
		c, err := s.Claim(ctx, whole, time.Minute, jobs.Claim{})
		if err != nil {
			t.Fatal(err)
		}
		want("once claimed")
		report(t, s, c, time.Minute, nil, jobs.Lines{})
		want("while it runs")
		retryLater(t, s, c, "exit 3", 0)
		want("while it waits")
		end(t, s, jobs.Outcome{State: jobs.Failed, Reason: "exit 3"}) // by a claim that knows of no parameters
		whole.Inputs, whole.Payload = nil, `{"c":1}`
		if _, err := s.Requeue(ctx, whole); err != nil {
			t.Fatal(err)
		}
		want("queued again with others")
		if _, err := s.Cancel(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		want("after it was canceled")
		rdb.Del(ctx, "{job:a}:params")
		e, err := s.Get(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Job(ctx, e); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("of lost parameters: %v, want ErrNotExist", err)
		}
	})
}

func TestK14JobWithoutParametersHasNoKeyForThem(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		finish(t, s, claim(t, s, "a", time.Minute, jobs.Granted), jobs.Outcome{State: jobs.Succeeded})
		if n := rdb.Exists(t.Context(), "{job:a}:params").Val(); n != 0 {
			t.Error("there is one")
		}
		if e, err := s.Get(t.Context(), "a"); err != nil || e.Detail.Params != 0 {
			t.Errorf("detail %+v, %v", e.Detail, err)
		}
	})
}
