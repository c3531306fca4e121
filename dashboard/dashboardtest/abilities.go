package dashboardtest

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// Why implements [jobapi.Explainer].
func (f *Fleet) Why(_ context.Context, id string) ([]jobapi.Reason, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.find(id) == nil {
		return nil, jobapi.NoJob(id)
	}
	return f.reasons[id], nil
}

// Count implements [jobapi.Counter].
func (f *Fleet) Count(context.Context) (c jobapi.Counts, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c.States = map[jobs.State]int{}
	kinds := map[string]*jobapi.KindCount{}
	for i := range f.all {
		j := &f.all[i]
		c.States[j.Status]++
		f.flow(&c, j)
		if j.Status.Terminal() {
			continue
		}
		name := strings.TrimPrefix(j.Type, f.Scope+".")
		k := kinds[name]
		if k == nil {
			k = &jobapi.KindCount{Kind: name}
			kinds[name] = k
		}
		if j.Status == jobs.Running {
			k.Running++
			continue
		}
		if k.Queued++; k.Oldest.IsZero() {
			k.Oldest = j.CreatedAt.Time
		}
	}
	for _, k := range kinds {
		c.Kinds = append(c.Kinds, *k)
	}
	slices.SortFunc(c.Kinds, func(a, b jobapi.KindCount) int { return strings.Compare(a.Kind, b.Kind) })
	slices.SortFunc(c.Hours, func(a, b jobapi.Flow) int { return a.Start.Compare(b.Start) })
	c.DeadLetters = c.States[jobs.Failed] / 2
	return c, nil
}

// flow counts a job that came and, maybe, ended.
func (f *Fleet) flow(c *jobapi.Counts, j *jobapi.Job) {
	hour := func(t jobapi.Time) *jobapi.Flow {
		start := t.Truncate(time.Hour)
		i := slices.IndexFunc(c.Hours, func(h jobapi.Flow) bool { return h.Start.Equal(start) })
		if i < 0 {
			i = len(c.Hours)
			c.Hours = append(c.Hours, jobapi.Flow{Start: start})
		}
		return &c.Hours[i]
	}
	hour(j.CreatedAt).In++
	c.Total.In++
	if j.FinishedAt.IsZero() {
		return
	}
	for _, flow := range []*jobapi.Flow{hour(j.FinishedAt), &c.Total} {
		switch j.Status {
		case jobs.Succeeded:
			flow.Succeeded++
		case jobs.Failed:
			flow.Failed++
		default:
			flow.Canceled++
		}
	}
}

// Changes implements [jobapi.Feed]: all jobs at each change.
func (f *Fleet) Changes(ctx context.Context, after string) (ids []string, next string, lost bool, err error) {
	if after == "" {
		return nil, "1", false, nil
	}
	select {
	case <-f.Changed():
	case <-ctx.Done():
		return nil, after, false, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range slices.Backward(f.all) {
		if ids = append(ids, f.all[i].ID); len(ids) == jobapi.MaxGet {
			break
		}
	}
	return ids, after + "1", false, nil
}

// Kinds implements [jobapi.Catalog].
func (f *Fleet) Kinds(context.Context) ([]jobapi.Kind, error) { return f.Catalog, nil }

// Pause implements [jobapi.Pauser].
func (f *Fleet) Pause(_ context.Context, kind string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.ContainsFunc(f.Catalog, func(k jobapi.Kind) bool { return k.Name == kind }) {
		return jobapi.ErrNoKind
	}
	f.paused[kind] = jobapi.At(time.Now())
	f.done = append(f.done, "pause "+kind)
	return nil
}

// Resume implements [jobapi.Pauser].
func (f *Fleet) Resume(_ context.Context, kind string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.paused, kind)
	f.done = append(f.done, "resume "+kind)
	return nil
}

// Paused implements [jobapi.Pauser].
func (f *Fleet) Paused(context.Context) (all []jobapi.Paused, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for kind, since := range f.paused {
		all = append(all, jobapi.Paused{Kind: kind, Since: since})
	}
	slices.SortFunc(all, func(a, b jobapi.Paused) int { return strings.Compare(a.Kind, b.Kind) })
	return all, nil
}

// Workers implements [jobapi.Workforce].
func (f *Fleet) Workers(context.Context) ([]jobapi.Worker, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.Force), nil
}

func (f *Fleet) worker(id, what, state string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.Force, func(w jobapi.Worker) bool { return w.ID == id })
	if i < 0 {
		return jobapi.ErrNoWorker
	}
	f.Force[i].State = state
	f.done = append(f.done, what+" "+id)
	return nil
}

// DrainWorker implements [jobapi.Drainer].
func (f *Fleet) DrainWorker(_ context.Context, id string) error {
	return f.worker(id, "drain", "draining")
}

// ResumeWorker implements [jobapi.Drainer].
func (f *Fleet) ResumeWorker(_ context.Context, id string) error {
	return f.worker(id, "resume", "idle")
}

// RevokeWorker implements [jobapi.Revoker].
func (f *Fleet) RevokeWorker(_ context.Context, id string) error {
	return f.worker(id, "revoke", "silent")
}

// StoreInput implements [jobapi.Uploader].
func (f *Fleet) StoreInput(_ context.Context, name string, r io.Reader) (string, error) {
	content, err := io.ReadAll(r)
	if err != nil {
		return "", err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	object := "uploads/" + name
	f.inputs[object] = content
	return object, nil
}

// Report implements [jobapi.Reporter].
func (f *Fleet) Report(context.Context) ([]jobapi.Section, error) { return f.Tables, nil }
