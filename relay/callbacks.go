package relay

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/httpd/egress"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/outbox"
	"github.com/batchfleet/batchfleet/retry"
)

const (
	callbackTimeout = 15 * time.Second
	maxAttempts     = 12             // at an event, in about a day
	minTrying       = 10 * time.Hour // a relay that is started often makes its attempts sooner, and then more of them
	// parallelCallbacks is how many events are being told at once. More would use up the connections of the process when
	// many callbacks do not answer.
	parallelCallbacks = 64
)

// callbacks tell events of tasks to those who have registered for them. The events in task.json are the entries: they are
// written together with what they tell, and those of a task are delivered one after the other. An event is removed when
// it was taken; a relay that dies in between sends it again, with the same id.
type callbacks struct {
	outbox.Sender
	tasks   *Tasks
	metrics *Metrics
	secret  []byte // signs events; nil for no signatures
	others  called // the addresses that requests name
	// The orchestrator is also sent the token, at the address that the relay was started with. Nil for none.
	own   called
	base  *url.URL
	token func() string
}

// called is who may be called, and by what.
type called struct {
	policy *egress.Policy
	client caller
}

func newCallbacks(r *Relay, orchestrator called) *callbacks {
	return &callbacks{
		tasks: r.tasks, metrics: r.Metrics, secret: r.Secret, others: called{&r.Callbacks, r.client(r.Callbacks)},
		own: orchestrator, base: r.Orchestrator, token: r.token,
		Sender: outbox.Sender{
			Uploads: parallelCallbacks, Retry: retry.Policy{First: 5 * time.Second, Factor: 2.5, Max: 24 * time.Hour}, FinalTimeout: time.Second, Log: r.Log,
		},
	}
}

// check returns what is wrong with the URL of a callback.
func (c *callbacks) check(raw string) error {
	who := c.others
	if c.isOrchestrator(raw) {
		who = c.own
	}
	_, err := who.policy.Check(raw)
	return err
}

// isOrchestrator reports whether a URL is at the orchestrator that the relay was started with: the same scheme, host and port.
func (c *callbacks) isOrchestrator(raw string) bool {
	if c.base == nil {
		return false
	}
	u, err := url.Parse(raw)
	return err == nil && u.User == nil && u.Scheme == c.base.Scheme && strings.EqualFold(u.Host, c.base.Host)
}

// register replaces the callback of a task: events that wait are for the new one, at once. A task that has ended tells of
// its end. The error wraps [fs.ErrNotExist] if there is no such task.
func (c *callbacks) register(id jobs.ID, to Callback) error {
	e, err := c.tasks.lock(id)
	if err != nil {
		return err
	}
	defer e.mu.Unlock()
	t, err := c.tasks.change(e, func(t *Task) error {
		waiting := t.Events
		t.Callback, t.Events = to, nil
		for _, ev := range waiting {
			if ev.Attempts = 0; to.wants(ev.Name) {
				t.Events = append(t.Events, ev)
			}
		}
		name := t.State.String()
		if t.State.Terminal() && to.wants(name) && !slices.ContainsFunc(t.Events, func(ev Event) bool { return ev.Name == name }) {
			t.Events = append(t.Events, t.event(name, t.FinishedAt))
		}
		return nil
	})
	if err != nil {
		return err
	}
	e.turn, e.busy = e.turn+1, false
	c.deliver(e, t)
	return nil
}

// deliver has the first event of a task delivered, unless one of them is on its way. e.mu is held.
func (c *callbacks) deliver(e *entry, t *Task) {
	if len(t.Events) == 0 || e.busy {
		return
	}
	e.busy = true
	turn := e.turn
	c.Deliver(outbox.Item{
		Try:   func(ctx context.Context) error { return c.Upload(ctx, func() error { return c.try(ctx, e, turn) }) },
		Attrs: []slog.Attr{slog.String("task", string(e.id)), slog.String("what", "event")},
	})
}

// try makes one attempt at the first event of a task, unless another callback was registered meanwhile.
func (c *callbacks) try(ctx context.Context, e *entry, turn int) error {
	e.mu.Lock()
	t := e.task.Load()
	over := e.turn != turn || c.tasks.find(e.id) != e // another callback, or the task was deleted
	e.mu.Unlock()
	if over {
		return nil
	}
	ev := t.Events[0]
	resp, err := c.send(ctx, t, ev)
	if err != nil && ctx.Err() != nil {
		return &outbox.RetryError{Err: context.Cause(ctx)} // the relay stops; the next one goes on
	}
	if err == nil && !isSuccess(resp.Status) {
		err = fmt.Errorf("the callback has answered %s", statusText(resp.Status))
	}
	c.metrics.calledBack(err)
	if err := c.settle(e, turn, ev, resp.Status, err); err != nil {
		return &outbox.RetryError{Err: err, After: resp.RetryAfter}
	}
	return nil
}

// settle records the end of an attempt at an event. It returns an error if there is to be another one, and begins with
// the next event otherwise.
func (c *callbacks) settle(e *entry, turn int, ev Event, status int, failed error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.turn != turn {
		return nil // it goes to another callback now
	}
	again := false
	t, err := c.tasks.change(e, func(t *Task) error {
		// Only the end of an attempt removes events, so that ev is still the first one.
		first := t.Events[0]
		first.Attempts++
		rest := slices.Clone(t.Events[1:])
		switch {
		case failed == nil, ev.Name == eventProgress && status != http.StatusGone:
			t.Events = rest
		case status == http.StatusGone:
			t.Callback.Off, t.Events = true, nil
		case first.Attempts >= maxAttempts && time.Since(first.At) >= minTrying:
			c.Log.Warn("an event is given up", "task", t.ID, "job_id", t.JobID, "event", ev.Name, "attempts", first.Attempts, "err", failed)
			t.Callback.Dead++
			t.Events = rest
		default:
			again = true
			t.Events = append([]Event{first}, rest...)
		}
		return nil
	})
	if err != nil {
		return err // the disk takes nothing
	}
	if again {
		return failed
	}
	e.busy = false
	c.deliver(e, t)
	return nil
}

// send posts an event.
func (c *callbacks) send(ctx context.Context, t *Task, ev Event) (egress.Response, error) {
	body, err := t.body(ev)
	if err != nil {
		return egress.Response{}, err
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if c.secret != nil {
		id, at := t.eventID(ev), strconv.FormatInt(time.Now().Unix(), 10)
		header["webhook-id"] = []string{id} // as the standard writes them
		header["webhook-timestamp"] = []string{at}
		header["webhook-signature"] = []string{signature(c.secret, id, at, body)}
	}
	to := c.others
	if c.isOrchestrator(t.Callback.URL) {
		to = c.own
		header.Set(TokenHeader, c.token())
	}
	return to.client.Do(ctx, &egress.Request{
		Method: http.MethodPost, URL: t.Callback.URL, Header: header, Body: egress.Bytes("", body).Open, Length: int64(len(body)), Timeout: callbackTimeout,
	})
}

// signature is that of Standard Webhooks, version 1.
func signature(secret []byte, id, at string, body []byte) string {
	h := hmac.New(sha256.New, secret)
	fmt.Fprintf(h, "%s.%s.", id, at)
	h.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// ParseSecret reads a secret for signatures: whsec_ and base64, of 24 to 64 bytes.
func ParseSecret(text string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(text, "whsec_")
	secret, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(secret) < 24 || len(secret) > 64 {
		return nil, errors.New(`want "whsec_" and 24 to 64 bytes in base64, as from: echo "whsec_$(openssl rand -base64 32)"`)
	}
	return secret, nil
}
