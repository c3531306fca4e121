package pubsub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/status/redistest"
	"github.com/batchfleet/batchfleet/worker"
)

const recordRetry = 10 * time.Second

// mute is a Redis that does what it is told, and whose answers do not arrive until
// a moment in time.
type mute struct{ until time.Time }

func (mute) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m mute) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return m.answer(next(ctx, cmd), cmd) }
}

func (m mute) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return m.answer(next(ctx, cmds), cmds...) }
}

func (m mute) answer(err error, cmds ...redis.Cmder) error {
	// What a connection begins with is answered, and that a script is to be sent.
	if !time.Now().Before(m.until) || !strings.HasPrefix(cmds[0].Name(), "eval") || err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		return err
	}
	for _, cmd := range cmds {
		cmd.SetErr(os.ErrDeadlineExceeded)
	}
	return os.ErrDeadlineExceeded
}

func TestSubmitLeavesNoJobWithoutAMessage(t *testing.T) {
	server := redistest.New(t)
	sees := status.New(server.Client())
	for i, tt := range []struct {
		name      string
		mute      time.Duration
		published int
		state     jobs.State
		err       string // part of it
	}{
		{"answers at once", 0, 1, jobs.Queued, ""},
		{"answers arrive in time", recordRetry - time.Second, 1, jobs.Queued, ""},
		{"answers arrive too late", recordRetry + 3*time.Second, 0, jobs.Canceled, "submit job"},
		{"answers do not arrive", time.Hour, 0, jobs.Canceled, "it may stay queued without a message: cancel job"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rdb := redisdb.Connect(redisdb.Options{Host: server.Host, Port: server.Port})
				defer rdb.Close()
				rdb.AddHook(mute{time.Now().Add(tt.mute)})
				published, begun := 0, time.Now()
				job := jobs.Job{ID: jobs.ID(fmt.Sprint("j", i))}
				publish := func(context.Context, jobs.Job) (string, error) { published++; return "m", nil }
				err := Submit(t.Context(), status.New(rdb), publish, job, recordRetry)
				if (err == nil) != (tt.err == "") || err != nil && (!errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), tt.err)) {
					t.Errorf("%v, want %q", err, tt.err)
				}
				if took := time.Since(begun); took > recordRetry+cancelTimeout+2*time.Second {
					t.Errorf("took %s", took)
				}
				e, err := sees.Get(t.Context(), job.ID)
				if err != nil || e.State() != tt.state || published != tt.published {
					t.Errorf("job %s, %v, published %d times; want %s, %d times", e.State(), err, published, tt.state, tt.published)
				}
			})
		})
	}
}

func TestSubmitWithoutPatienceSaysAtOnceThatRedisIsNotThere(t *testing.T) {
	server := redistest.New(t)
	server.Kill()
	rdb := redisdb.Connect(redisdb.Options{Host: server.Host, Port: server.Port})
	defer rdb.Close()
	calls := 0
	rdb.AddHook(counted{&calls})
	err := Submit(t.Context(), status.New(rdb), nil, jobs.Job{ID: "j"}, 0)
	if !errors.Is(err, jobs.ErrUnavailable) || strings.Contains(err.Error(), "may stay queued") || calls > 2 {
		t.Errorf("%v, after %d calls", err, calls)
	}
}

func TestK14JobThatNoMessageCanCarryIsNeitherRecordedNorPublished(t *testing.T) {
	rdb := redistest.New(t).Client()
	st := status.New(rdb)
	for name, job := range map[string]jobs.Job{
		"params that are no object":   {Payload: `[1]`},
		"params that are no JSON":     {Payload: `{"a":`},
		"params that are too long":    {Payload: `{"a":"` + strings.Repeat("x", MaxParams) + `"}`},
		"one input and several":       {Input: "x", Inputs: []string{"y"}},
		"too many inputs":             {Inputs: make([]string, MaxInputs+1)},
		"inputs whose names are long": {Inputs: slices.Repeat([]string{strings.Repeat("x", 1000)}, 300)},
	} {
		job.ID, job.Kind = "j", "thumbnail"
		published := func(context.Context, jobs.Job) (string, error) {
			t.Errorf("%s: published", name)
			return "", nil
		}
		if err := Submit(t.Context(), st, published, job, 0); err == nil || errors.Is(err, jobs.ErrUnavailable) {
			t.Errorf("%s: submitted, %v", name, err)
		}
		if _, err := st.Get(t.Context(), "j"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: recorded, %v", name, err)
		}
		if _, err := new(Publisher).Publish(t.Context(), job); !errors.Is(err, worker.ErrRefused) {
			t.Errorf("%s: publish: %v, want ErrRefused", name, err)
		}
	}
}

// counted counts the calls of a client.
type counted struct{ calls *int }

func (counted) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c counted) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { *c.calls++; return next(ctx, cmd) }
}

func (counted) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
