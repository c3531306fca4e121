package leader

import (
	"context"
	"strings"

	"github.com/batchfleet/batchfleet/grid/schedule"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobapi"
)

var whyCodes = [...]string{
	schedule.WhyQueued: jobapi.WhyQueued, schedule.WhyNoWorker: jobapi.WhyNoWorker, schedule.WhyNoSlot: jobapi.WhyNoSlot, schedule.WhyDraining: jobapi.WhyDraining,
	schedule.WhyPaused: jobapi.WhyPaused, schedule.WhyDelayed: jobapi.WhyDelayed, schedule.WhyLeased: jobapi.WhyLeased, schedule.WhySilent: jobapi.WhySilent,
	schedule.WhyEnded: jobapi.WhyEnded,
}

// Why implements [jobapi.Explainer].
func (j Jobs) Why(ctx context.Context, id string) (all []jobapi.Reason, err error) {
	guid, _ := wire.ParseGUID(id) // no job has the zero id
	var why []schedule.Why
	if err := j.do(ctx, func(c *schedule.Core) { why = c.Why(j.Leader.now(), guid) }); err != nil {
		return nil, err
	}
	if len(why) == 0 {
		return nil, jobapi.NoJob(id)
	}
	at := func(m schedule.Moment) jobapi.Time { return jobapi.At(j.Leader.started.Add(m)) }
	for _, w := range why {
		r := jobapi.Reason{Code: whyCodes[w.Code], Message: jobapi.ShownText(w.Text, 1<<10), Worker: jobapi.ShownText(w.Worker, 255), Since: at(w.Since)}
		if w.Code == schedule.WhyQueued && w.Ahead >= 0 {
			r.Ahead = &w.Ahead
		}
		if w.Until > 0 {
			r.Until = at(w.Until)
		}
		all = append(all, r)
	}
	return all, nil
}

// attempt shows an attempt that has not ended its job. Its start is not kept.
func (j Jobs) attempt(a schedule.Attempt) jobapi.Attempt {
	outcome := "failed"
	if strings.HasPrefix(a.Reason, schedule.LostPrefix) || a.Reason == schedule.ReasonTooLong {
		outcome = "crashed"
	}
	return jobapi.Attempt{
		Number: a.Number, Worker: jobapi.ShownText(a.Worker, 255), Finished: jobapi.At(j.Leader.started.Add(a.At)), Outcome: outcome, Message: jobapi.ShownText(a.Reason, 1<<10),
	}
}
