package jobapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"net/http/httptest"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/access"
	"github.com/batchfleet/batchfleet/jobapi/client"
	"github.com/batchfleet/batchfleet/jobapi/engine"
)

// bake is the request of an operation: what its jobs are asked for and what they do.
type bake struct {
	jobapi.Options
	Loaves int `json:"loaves"`
}

// Check says what is wrong with a request, or fills in defaults.
func (b *bake) Check() error {
	if b.Loaves < 0 || b.Loaves > 100 {
		return &jobapi.FieldError{Field: "loaves", Problem: "must be 1 to 100"}
	}
	if b.Loaves == 0 {
		b.Loaves = 1
	}
	return nil
}

// Echo is what a job shows of its request.
func (b *bake) Echo() any { return map[string]int{"loaves": b.Loaves} }

func (b *bake) Steps() []engine.Step {
	return []engine.Step{
		{Name: "knead", Description: "kneads the dough", Run: func(context.Context, engine.Run) (string, error) {
			return "the dough is ready", nil
		}},
		{Name: "bake", Description: "bakes it", Run: func(_ context.Context, r engine.Run) (string, error) {
			r.Logf("%d in the oven", b.Loaves)
			r.Result(map[string]int{"baked": b.Loaves})
			return "done", nil
		}},
	}
}

// A server with one scope and one operation, and a client that runs it.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	kitchen := &engine.Engine{
		Scope:     "kitchen",
		Supported: []engine.Operation{{Name: "bake", New: func() engine.Request { return new(bake) }}},
	}
	server := &jobapi.Server{
		Scopes:  []jobapi.Scope{{Name: "kitchen", Jobs: kitchen, Cancel: access.Operate, Create: access.Operate}},
		Log:     slog.New(slog.DiscardHandler),
		Metrics: jobapi.NewMetrics(prometheus.NewRegistry()),
		Guard:   jobapi.Loopback, // callers on this machine need no token
	}
	var running sync.WaitGroup
	running.Go(func() { server.Run(ctx) }) // for those who follow jobs
	listener := httptest.NewServer(server.Handler())
	defer listener.Close()

	c, err := client.New(client.Config{URL: listener.URL})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	_, err = c.Create(ctx, "kitchen", "bake", json.RawMessage(`{"loaves": 1000}`))
	fmt.Println(err)
	plan, err := c.Plan(ctx, "kitchen", "bake", json.RawMessage(`{"loaves": 3}`))
	fmt.Println(plan, err)
	made, err := c.Create(ctx, "kitchen", "bake", json.RawMessage(`{"loaves": 3}`))
	if err != nil {
		log.Fatal(err)
	}
	var job jobapi.Job
	err = c.Follow(ctx, "kitchen", made.ID, false, func(e client.Event) error {
		if e.Job != nil {
			job = *e.Job
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	result, _ := json.Marshal(job.Result)
	fmt.Println(job.Status, string(result))
	for _, step := range job.Steps {
		fmt.Printf("%s: %s, %s\n", step.Name, step.Status, step.Message)
	}
	if err := kitchen.Close(ctx); err != nil {
		log.Fatal(err)
	}
	stop()
	running.Wait()
	// Output:
	// run kitchen.bake: INVALID_ARGUMENT: Invalid loaves: must be 1 to 100
	// [{knead run kneads the dough} {bake run bakes it}] <nil>
	// succeeded {"baked":3}
	// knead: succeeded, the dough is ready
	// bake: succeeded, done
}
