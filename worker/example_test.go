package worker_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"strings"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
	"github.com/batchfleet/batchfleet/worker/memory"
)

// shout is what jobs of one kind do. A real one stores its result durably before Run
// returns, under a name that follows from the job's id.
type shout struct{ done func() }

func (s shout) Run(_ context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
	words := strings.Fields(job.Payload)
	for i, word := range words {
		fmt.Printf("%s: %s\n", job.ID, strings.ToUpper(word))
		report(jobs.Progress{Done: i + 1, Total: len(words), Step: "shout"})
	}
	s.done()
	return jobs.Result{Pages: len(words)}, nil
}

// Earlier finds the result of an attempt that ended before its outcome was recorded.
func (shout) Earlier(context.Context, jobs.Job) (jobs.Result, bool, error) {
	return jobs.Result{}, false, nil
}

// A worker in one process: its jobs, their states and what they do are all in memory.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	queue, status := new(memory.Queue), new(memory.Status)
	w := &worker.Worker{
		Source:   queue,
		Status:   status,
		Handlers: map[jobs.Kind]worker.Handler{"shout": shout{done: stop}},
		Log:      slog.New(slog.DiscardHandler),
	}
	job := jobs.Job{ID: "greeting", Kind: "shout", Payload: "good morning"}
	if _, err := status.Submit(ctx, job); err != nil { // first known, then queued
		log.Fatal(err)
	}
	queue.Add(memory.Message{Job: job})

	// Run ends after ctx has ended and the jobs in hand have: here with the only one.
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
	record, _ := status.Get("greeting")
	waiting, leased := queue.Len()
	fmt.Printf("%s after attempt %d; %d jobs wait, %d are leased\n", record.State, record.Attempt, waiting, leased)
	// Output:
	// greeting: GOOD
	// greeting: MORNING
	// succeeded after attempt 1; 0 jobs wait, 0 are leased
}
