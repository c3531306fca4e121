package status_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

// What is known of a job that waits for a worker of its kind is renewed as often as it is left, and
// so is when it was first heard of, also of one that another program has recorded.
func TestK13JobThatIsLeftIsRememberedForAsLongAsItComes(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		const message = `no worker for kind "thumbnail" has taken it yet`
		leave := func() time.Duration {
			t.Helper()
			for _, key := range []string{"job:a", "{job:a}:detail", "{job:a}:params"} {
				rdb.Expire(t.Context(), key, time.Hour)
			}
			age, state, err := s.Leave(t.Context(), jobs.Job{ID: "a", Kind: "thumbnail", Payload: `{"dpi": 60}`}, message)
			if err != nil || state != jobs.Queued {
				t.Fatalf("leave: %s, %v", state, err)
			}
			for _, key := range []string{"job:a", "{job:a}:detail", "{job:a}:params"} {
				if ttl := rdb.TTL(t.Context(), key).Val(); ttl > 24*time.Hour || ttl < 24*time.Hour-time.Minute {
					t.Errorf("TTL of %s is %s, want 24 h", key, ttl)
				}
			}
			return age
		}
		rdb.Set(t.Context(), "job:a", `{"status":"queued","progress":0,"message":"Waiting for a worker...","result_url":"","error_msg":"","updated_at":""}`, 0)
		leave()
		wantDocument(t, rdb, "a", "queued", 0, message, "", "")
		rdb.HSet(t.Context(), "{job:a}:detail", "created_at", time.Now().Add(-20*time.Hour).UnixMilli())
		if age := leave(); age < 20*time.Hour || age > 21*time.Hour {
			t.Errorf("it is %s old, want 20 h", age)
		}
	})
}

func TestK13WorkersThatLiveHaveTheirKinds(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		if err := s.Member(status.Worker{Kinds: []jobs.Kind{"pdf", "thumbnail"}}).Pulse(t.Context(), 0, true, "not now"); err != nil {
			t.Fatal(err)
		}
		for kind, want := range map[jobs.Kind]bool{"thumbnail": true, "pdf": true, "other": false, "": false} {
			if runs, err := s.Runs(t.Context(), kind); err != nil || runs != want {
				t.Errorf("kind %q: %t, %v; want %t", kind, runs, err, want)
			}
		}
		all := rdb.HGetAll(t.Context(), "{fleet}:workers").Val()
		for id, text := range all { // it falls silent
			_, said, _ := strings.Cut(text, " ")
			rdb.HSet(t.Context(), "{fleet}:workers", id, fmt.Sprintf("%d %s", time.Now().Add(-time.Minute).UnixMilli(), said))
		}
		if runs, err := s.Runs(t.Context(), "pdf"); err != nil || runs {
			t.Errorf("of a silent worker: %t, %v; want false", runs, err)
		}
	})
}
