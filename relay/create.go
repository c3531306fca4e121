package relay

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/internal/disk"
	"github.com/batchfleet/batchfleet/jobs"
)

// created answers POST /v1/tasks.
type created struct {
	ID        jobs.ID   `json:"task_id"`
	State     State     `json:"status"`
	CreatedAt time.Time `json:"created_at"`
}

var keyForm = jobs.Form(`^[!-~]{1,128}$`)

// create makes a task of a request. It is on disk when it returns.
func (s *server) create(w http.ResponseWriter, r *http.Request) error {
	var body request
	if err := httpd.ReadJSON(w, r, maxBody, &body, httpd.BodyOptions{}); err != nil {
		return err
	}
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	t, made, err := s.relay.create(&body, key)
	if err != nil {
		return err
	}
	if !made {
		w.Header().Set("Idempotency-Replayed", "true")
	}
	w.Header().Set("Location", "/v1/tasks/"+string(t.ID))
	return answer(w, http.StatusAccepted, created{t.ID, Queued, t.CreatedAt})
}

func idempotencyKey(r *http.Request) (string, error) {
	values := r.Header.Values("Idempotency-Key")
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1 || !keyForm().MatchString(values[0]):
		return "", invalid("Idempotency-Key", "want one header of 1 to 128 visible ASCII characters")
	}
	return values[0], nil
}

// create makes a task, or returns the one that the same request has made before; made is false then.
func (r *Relay) create(body *request, key string) (t *Task, made bool, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, false, err
	}
	keyHash, bodyHash := "", ""
	if key != "" { // looked at first: what was taken once is taken again, whatever has changed since
		keyHash, bodyHash = hashOf(key), hashOf(string(text))
		earlier, done, err := r.tasks.reserve(keyHash)
		switch {
		case err != nil:
			return nil, false, err
		case earlier != nil && earlier.BodyHash != bodyHash:
			return nil, false, &refusal{http.StatusUnprocessableEntity, "IDEMPOTENCY_MISMATCH", "This Idempotency-Key was used for another task"}
		case earlier != nil:
			return earlier, false, nil
		}
		defer done()
	}
	priority, assets, err := r.check(body)
	if err != nil {
		return nil, false, err
	}
	t = newTask(body, priority, assets)
	t.KeyHash, t.BodyHash = keyHash, bodyHash
	others := r.making.Add(1) - 1
	defer r.making.Add(-1)
	if err := r.hasRoom(int(others)); err != nil {
		return nil, false, err
	}
	err = r.tasks.dir.create(t, text, func(dir string) error { return r.copyAssets(dir, assets) })
	if _, ok := errors.AsType[*httpd.BodyError](err); ok {
		return nil, false, err
	}
	if err != nil {
		return nil, false, fmt.Errorf("%w: create a task: %w", jobs.ErrUnavailable, err)
	}
	e := r.tasks.put(t)
	e.mu.Lock()
	r.callbacks.deliver(e, t)
	e.mu.Unlock()
	r.queue.add(t)
	r.Log.Info("task created", "task", t.ID, "job_id", t.JobID, "kind", t.Kind, "priority", t.Priority, "prompt_bytes", t.Prompt.Bytes, "prompt_sha256", t.Prompt.SHA256)
	return t, true, nil
}

// check returns what is wrong with a request, or what its task is to have.
func (r *Relay) check(body *request) (priority int, assets []asset, err error) {
	set := r.Kinds()
	if priority, err = body.check(set); err != nil {
		return 0, nil, err
	}
	if !r.runs(set.Get(jobs.Kind(body.Kind))) {
		return 0, nil, invalid("kind", "it needs a GPU, and this relay has none")
	}
	if body.CallbackURL != nil {
		if err := r.callbacks.check(*body.CallbackURL); err != nil {
			return 0, nil, invalid("callback_url", err.Error())
		}
	}
	assets, err = r.Assets.check(body.Input.Assets)
	return priority, assets, err
}

// newTask returns the task of a request.
func newTask(body *request, priority int, assets []asset) *Task {
	now := time.Now().UTC()
	t := &Task{
		SchemaVersion: schemaVersion, ID: newID(now), JobID: body.JobID, Kind: jobs.Kind(body.Kind), State: Queued, Priority: priority,
		CreatedAt: now.Truncate(time.Millisecond), Prompt: promptOf(body.Input.prompt()),
	}
	for _, a := range assets {
		t.Assets = append(t.Assets, a.name)
	}
	if body.CallbackURL != nil {
		t.Callback = Callback{URL: *body.CallbackURL, Events: allEvents}
	}
	t.note(Queued.String(), now)
	return t
}

// hasRoom refuses a task for which there is no room. Others are the tasks that are being made and may not be queued yet.
func (r *Relay) hasRoom(others int) error {
	if n := r.tasks.count(Queued) + others; n >= r.MaxQueued {
		return &refusal{http.StatusTooManyRequests, "QUEUE_FULL", fmt.Sprintf("%d tasks are queued, and no more are taken; try again later", n)}
	}
	return r.roomFor(0)
}

// roomFor refuses to write so many bytes if too few would be free then.
func (r *Relay) roomFor(bytes int64) error {
	if free, err := disk.Free(r.Dir); err == nil && free-bytes < r.MinFree {
		return &refusal{http.StatusInsufficientStorage, "DISK_FULL", fmt.Sprintf("%d bytes are free on the disk of the relay, and %d are wanted; try again later", free, r.MinFree+bytes)}
	}
	return nil
}

// copyAssets copies the assets of a task while there is room for them, and for those that others are copying.
func (r *Relay) copyAssets(dir string, assets []asset) error {
	mine := int64(0)
	defer func() { r.copying.Add(-mine) }()
	return r.Assets.copyTo(dir, assets, func(bytes int64) error {
		mine += bytes
		return r.roomFor(r.copying.Add(bytes))
	})
}

// reserve returns the task that a key has made. If there is none, the key is the caller's until it calls done, by when
// the task is there or was not made.
func (ts *Tasks) reserve(hash string) (earlier *Task, done func(), err error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if e := ts.byKey[hash]; e != nil {
		return e.task.Load(), nil, nil
	}
	if ts.making[hash] {
		return nil, nil, &refusal{http.StatusConflict, "CONFLICT", "A request with this Idempotency-Key is under way; make it again"}
	}
	ts.making[hash] = true
	return nil, func() {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		delete(ts.making, hash)
	}, nil
}
