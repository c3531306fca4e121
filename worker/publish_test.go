package worker

import (
	"errors"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/jobs"
)

// A client that cannot reach the queue must hear so within seconds, and why: the
// library alone tries for a minute and then says that the time was over.
func TestF63PublishToNobodySaysWhy(t *testing.T) {
	t.Parallel()
	opts, err := PubSubOptions("127.0.0.1:1") // nobody listens there
	if err != nil {
		t.Fatal(err)
	}
	p, err := OpenPublisher(t.Context(), topicName, Rules{}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	_, err = p.Publish(t.Context(), jobs.Job{ID: "a"})
	if !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), "127.0.0.1:1: connect: connection refused") {
		t.Errorf("publish: %v", err)
	}
}
