package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/batchfleet/batchfleet/jobs"
)

// Queue is where the jobs of a fleet come from: full names of Pub/Sub, such as
// projects/P/topics/T. The last two are empty in a fleet without dead letters.
type Queue struct {
	Topic            string `json:"topic"`
	Subscription     string `json:"subscription"`
	DeadTopic        string `json:"dead_topic,omitempty"`
	DeadSubscription string `json:"dead_subscription,omitempty"`
}

const (
	maxQueues    = 100
	maxQueueName = 600 // bytes; a full name of Pub/Sub has at most 30+255 and its words
)

var queueName = jobs.Form(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// ErrQueue says that a queue cannot be recorded as it is.
var ErrQueue = errors.New("queue refused")

// RegisterQueue records a queue under a name, for people and programs to find, and
// reports whether it was not on record so already. The error wraps [ErrQueue] when
// the name or the queue cannot be used.
func (s *Store) RegisterQueue(ctx context.Context, name string, q Queue) (changed bool, err error) {
	what := fmt.Sprintf("register queue %.63q", name)
	if !queueName().MatchString(name) {
		return false, fmt.Errorf("%s: %w: its name must match %s", what, ErrQueue, queueName())
	}
	if q.Topic == "" || q.Subscription == "" {
		return false, fmt.Errorf("%s: %w: it needs a topic and a subscription", what, ErrQueue)
	}
	for _, full := range []string{q.Topic, q.Subscription, q.DeadTopic, q.DeadSubscription} {
		if len(full) > maxQueueName {
			return false, fmt.Errorf("%s: %w: %.40q… is longer than %d bytes", what, ErrQueue, full, maxQueueName)
		}
	}
	text, err := json.Marshal(q)
	if err != nil {
		return false, fmt.Errorf("%s: %w", what, err)
	}
	got, err := s.run(ctx, what, recordScript, []string{queuesKey}, name, text, maxQueues)
	if got.Number(0) == -1 {
		return false, fmt.Errorf("%s: %w: there are %d already", what, ErrQueue, maxQueues)
	}
	return got.Number(0) == 1, err
}

// Queues returns the queues on record by their names.
func (s *Store) Queues(ctx context.Context) (map[string]Queue, error) {
	fields, err := s.rdb.HGetAll(ctx, queuesKey).Result()
	if err != nil {
		return nil, unavailable("read queues", err)
	}
	queues := map[string]Queue{}
	for name, text := range fields {
		var q Queue
		if err := json.Unmarshal([]byte(text), &q); err != nil {
			return nil, fmt.Errorf("read queue %.63q: %w: %w", name, jobs.ErrUnavailable, err)
		}
		queues[name] = q
	}
	return queues, nil
}
