package operations

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/engine"
	"github.com/batchfleet/batchfleet/jobs"
)

// made are n jobs that are made as they are asked for, the one with the highest number the newest. Those of kind a have even
// numbers, the others are of kind b. All have the same state until something is done to them.
type made struct {
	n     int
	state jobs.State
	born  time.Time                   // of number 0; each is a second younger than the one before
	fail  func(number int) error      // what a cancel or a retry answers first; may be nil
	after func(number int)            // is told what was canceled or retried; may be nil
	ends  func(number int) jobs.State // how a job is that was retried; nil leaves it queued

	mu      sync.Mutex
	changed map[int]jobs.State
	largest int // page or Get
	lists   int
	away    int // so many calls say that the store is away
}

func (m *made) id(number int) string { return fmt.Sprintf("job-%07d", number) }

func (m *made) number(id string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(id, "job-"))
	if err != nil || n >= m.n {
		return -1
	}
	return n
}

func (m *made) job(number int) jobapi.Job {
	j := jobapi.Job{
		ID: m.id(number), Scope: "fleet", Type: "fleet." + string("ab"[number%2]), Status: m.state, Worker: fmt.Sprintf("w%d", number%3),
		CreatedAt: jobapi.At(m.born.Add(time.Duration(number) * time.Second)), Request: json.RawMessage(fmt.Sprintf(`{"input":"in/%d.pdf"}`, number)),
	}
	if s, ok := m.changed[number]; ok {
		j.Status = s
	}
	if j.Status == jobs.Failed {
		j.Error = &jobapi.Error{Code: "FAILED", Message: fmt.Sprintf("no space for page %d", number)}
	}
	return j
}

func (m *made) busy() error {
	if m.away > 0 {
		m.away--
		return fmt.Errorf("ask: %w", jobs.ErrUnavailable)
	}
	return nil
}

func (m *made) List(_ context.Context, q jobapi.Query) (page jobapi.Page, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lists++
	if err := m.busy(); err != nil {
		return page, err
	}
	from := m.n
	if q.Cursor != "" {
		from = m.number(q.Cursor)
	}
	for number := from - 1; number >= 0; number-- {
		j := m.job(number)
		if q.Status != 0 && j.Status != q.Status || q.Type != "" && j.Type != q.Type || !q.Until.IsZero() && !j.CreatedAt.Before(q.Until) {
			continue
		}
		if len(page.Items) == q.Limit {
			page.Next = page.Items[len(page.Items)-1].ID
			break
		}
		page.Items = append(page.Items, j.Item())
	}
	m.largest = max(m.largest, len(page.Items))
	return page, nil
}

func (m *made) Get(_ context.Context, ids []string) (found []jobapi.Job, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.largest = max(m.largest, len(ids))
	for _, id := range ids {
		found = append(found, m.job(m.number(id)))
	}
	return found, m.busy()
}

func (m *made) Log(context.Context, string, jobapi.LogQuery) (jobapi.Log, error) {
	return jobapi.Log{}, nil
}

func (m *made) Cancel(ctx context.Context, id string) (jobapi.Job, error) {
	return m.change(id, jobapi.ErrEnded, jobs.Canceled, jobs.Queued, jobs.Running)
}

func (m *made) change(id string, otherwise error, to jobs.State, from ...jobs.State) (jobapi.Job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	number := m.number(id)
	if err := m.busy(); err != nil {
		return jobapi.Job{}, err
	}
	if m.fail != nil {
		if err := m.fail(number); err != nil {
			return jobapi.Job{}, err
		}
	}
	if s := m.job(number).Status; s != from[0] && s != from[len(from)-1] {
		return jobapi.Job{}, fmt.Errorf("it is %s: %w", s, otherwise)
	}
	if m.changed == nil {
		m.changed = map[int]jobs.State{}
	}
	m.changed[number] = to
	j := m.job(number)
	if m.ends != nil {
		m.changed[number] = m.ends(number)
	}
	if m.after != nil {
		m.after(number)
	}
	return j, nil
}

// again is made whose jobs can run again.
type again struct{ *made }

func (m again) Retry(_ context.Context, id string) (jobapi.Job, error) {
	return m.change(id, jobapi.ErrNotFailed, jobs.Queued, jobs.Failed)
}

// bulkOf reads the request of an operation on these jobs of scope fleet, as the server does, and checks it.
func bulkOf(t *testing.T, in jobapi.Jobs, name, body string) (*bulk, error) {
	t.Helper()
	for _, op := range Bulk(map[string]jobapi.Jobs{"fleet": in}) {
		if op.Name != name {
			continue
		}
		req := op.New().(*bulk)
		dec := json.NewDecoder(bytes.NewReader([]byte(body)))
		dec.DisallowUnknownFields()
		if err := dec.Decode(req); err != nil {
			t.Fatal(err)
		}
		return req, req.Check()
	}
	t.Fatalf("there is no operation %s", name)
	return nil, nil
}

// bulked runs an operation to its end.
func bulked(t *testing.T, in jobapi.Jobs, name, body string) *ran {
	t.Helper()
	req, err := bulkOf(t, in, name, body)
	if err != nil {
		t.Fatalf("%s %s: %v", name, body, err)
	}
	j := &ran{changed: make(chan struct{}, 1)}
	j.run(t.Context(), req)
	return j
}

var _ engine.Run = (*ran)(nil)
