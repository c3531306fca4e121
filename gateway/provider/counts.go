package provider

import (
	"context"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

var (
	_ jobapi.Counter = (*ZPE)(nil)
	_ jobapi.Feed    = (*ZPE)(nil)
)

// zpeKind is the only kind of scope zpe; its type is zpe.calc.
var zpeKind = jobs.Kind("calc")

// Count implements [jobapi.Counter], in one round trip.
func (z *ZPE) Count(ctx context.Context) (jobapi.Counts, error) {
	q, err := z.Queue.Count(ctx, z.Others)
	if err != nil {
		return jobapi.Counts{}, notDone(err)
	}
	c := jobapi.Counts{States: map[jobs.State]int{}, DeadLetters: q.Dead, Total: flow(q.Total)}
	for word, state := range zpeStates {
		c.States[state] = q.States[word]
	}
	for _, k := range q.Kinds {
		if k.Queued+k.Running > 0 {
			c.Kinds = append(c.Kinds, jobapi.KindCount{Kind: string(z.outward(k.Kind)), Queued: k.Queued, Running: k.Running, Oldest: k.Oldest})
		}
	}
	for _, f := range q.Hours {
		c.Hours = append(c.Hours, flow(f))
	}
	return c, nil
}

func flow(f queue.Flow) jobapi.Flow {
	return jobapi.Flow{Start: f.Start, In: f.In, Succeeded: f.Succeeded, Failed: f.Failed, Canceled: f.Canceled}
}

// outward returns what the Job API calls a kind of the gateway.
func (z *ZPE) outward(kind jobs.Kind) jobs.Kind {
	if z.Others {
		return kind
	}
	return zpeKind
}

// Changes implements [jobapi.Feed].
func (z *ZPE) Changes(ctx context.Context, after string) ([]string, string, bool, error) {
	list, next, lost, err := z.Queue.Changes(ctx, z.Others, after, jobapi.MaxGet)
	ids := make([]string, len(list))
	for i, id := range list {
		ids[i] = string(id)
	}
	return ids, next, lost, notDone(err)
}
