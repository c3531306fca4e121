package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

var (
	_ jobapi.Keeper  = (*ZPE)(nil)
	_ jobapi.Retrier = (*ZPE)(nil)
)

// artifacts are what a finished job has, in order: as its worker sent it.
var artifacts = []struct {
	name string
	read func(*queue.Queue, context.Context, jobs.ID) (string, error)
}{
	{"freqs.csv", (*queue.Queue).Freqs},
	{"result.json", (*queue.Queue).Result},
	{"summary.txt", (*queue.Queue).Summary},
}

// Artifacts implements [jobapi.Keeper].
func (z *ZPE) Artifacts(ctx context.Context, id string) (list []jobapi.Artifact, err error) {
	for _, a := range artifacts {
		text, err := z.artifact(ctx, id, a.read)
		if errors.Is(err, queue.ErrNotEnded) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		list = append(list, jobapi.ArtifactOf(a.name, int64(len(text))))
	}
	return list, nil
}

// OpenArtifact implements [jobapi.Keeper].
func (z *ZPE) OpenArtifact(ctx context.Context, id, name string) (io.ReadCloser, jobapi.Artifact, error) {
	for _, a := range artifacts {
		if a.name != name {
			continue
		}
		text, err := z.artifact(ctx, id, a.read)
		if errors.Is(err, queue.ErrNotEnded) {
			err = jobapi.NoJob(id)
		}
		return io.NopCloser(strings.NewReader(text)), jobapi.ArtifactOf(name, int64(len(text))), err
	}
	return nil, jobapi.Artifact{}, jobapi.NoJob(id)
}

func (z *ZPE) artifact(ctx context.Context, id string, read func(*queue.Queue, context.Context, jobs.ID) (string, error)) (string, error) {
	job, err := queue.ParseID(id)
	if err != nil {
		return "", jobapi.NoJob(id)
	}
	text, err := read(z.Queue, ctx, job)
	switch {
	case isNoJob(err):
		return "", jobapi.NoJob(id)
	case err != nil && !errors.Is(err, queue.ErrNotEnded):
		return "", notDone(err)
	}
	return text, err
}

// Retry implements [jobapi.Retrier]: the job of a dead letter is queued again, with all its
// re-runs before it.
func (z *ZPE) Retry(ctx context.Context, id string) (jobapi.Job, error) {
	job, err := queue.ParseID(id)
	if err != nil {
		return jobapi.Job{}, jobapi.NoJob(id)
	}
	if _, err := z.one(ctx, id); err != nil {
		return jobapi.Job{}, err
	}
	err = z.Queue.Requeue(ctx, job)
	dropped := false // from the dead letters, with its payload
	if errors.Is(err, queue.ErrNotDead) {
		now, err := z.one(ctx, id) // after it: somebody else may have been faster
		if err != nil {
			return jobapi.Job{}, err
		}
		if dropped = now.Status == jobs.Failed; !dropped {
			return jobapi.Job{}, fmt.Errorf("retry job %s: %w: it is %s", id, jobapi.ErrNotFailed, now.Status)
		}
	}
	switch {
	case errors.Is(err, queue.ErrPayloadMissing), dropped:
		return jobapi.Job{}, &jobapi.Refusal{Status: http.StatusConflict, Code: jobapi.CodeConflict, Message: "What the job was submitted with is no longer kept: submit it again"}
	case isNoJob(err):
		return jobapi.Job{}, jobapi.NoJob(id)
	case err != nil:
		return jobapi.Job{}, notDone(err)
	}
	if z.Queued != nil {
		z.Queued()
	}
	return z.one(ctx, id)
}
