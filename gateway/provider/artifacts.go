package provider

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

var (
	_ jobapi.Keeper  = (*ZPE)(nil)
	_ jobapi.Retrier = (*ZPE)(nil)
)

// artifacts read what a finished job has, as its worker sent it.
var artifacts = map[string]func(*queue.Queue, context.Context, jobs.ID) (string, error){
	"freqs.csv":   (*queue.Queue).Freqs,
	"result.json": (*queue.Queue).Result,
	"summary.txt": (*queue.Queue).Summary,
}

// Artifacts implements [jobapi.Keeper].
func (z *ZPE) Artifacts(ctx context.Context, id string) ([]jobapi.Artifact, error) {
	job, err := queue.ParseID(id)
	if err != nil {
		return nil, jobapi.NoJob(id)
	}
	if z.Others {
		return z.artifactsOfKind(ctx, job)
	}
	if err := z.has(ctx, job); err != nil {
		return nil, err
	}
	result, summary, freqs, err := z.Queue.Sizes(ctx, job)
	switch {
	case errors.Is(err, queue.ErrNotEnded):
		return nil, nil
	case isNoJob(err):
		return nil, jobapi.NoJob(id)
	case err != nil:
		return nil, notDone(err)
	}
	return []jobapi.Artifact{jobapi.ArtifactOf("freqs.csv", freqs), jobapi.ArtifactOf("result.json", result), jobapi.ArtifactOf("summary.txt", summary)}, nil
}

// OpenArtifact implements [jobapi.Keeper].
func (z *ZPE) OpenArtifact(ctx context.Context, id, name string) (io.ReadCloser, jobapi.Artifact, error) {
	read := artifacts[name]
	job, err := queue.ParseID(id)
	if err != nil || read == nil && !z.Others {
		return nil, jobapi.Artifact{}, jobapi.NoJob(id)
	}
	if err := z.has(ctx, job); err != nil {
		return nil, jobapi.Artifact{}, err
	}
	if z.Others && name != resultName {
		return z.openArtifactOfKind(ctx, job, name)
	}
	text, err := read(z.Queue, ctx, job)
	switch {
	case errors.Is(err, queue.ErrNotEnded), isNoJob(err):
		return nil, jobapi.Artifact{}, jobapi.NoJob(id)
	case err != nil:
		return nil, jobapi.Artifact{}, notDone(err)
	}
	a := jobapi.ArtifactOf(name, int64(len(text)))
	sum := sha256.New()
	_, _ = io.Copy(sum, io.LimitReader(strings.NewReader(text), a.Bytes)) // in pieces; a hash takes everything
	a.Tag = hex.EncodeToString(sum.Sum(nil))
	return opened{strings.NewReader(text)}, a, nil
}

// opened is a text as an open file.
type opened struct{ *strings.Reader }

func (opened) Close() error { return nil }

const resultName = "result.json"

// artifactsOfKind returns what a job of another kind than zpe has: its result, and its artifacts.
func (z *ZPE) artifactsOfKind(ctx context.Context, id jobs.ID) ([]jobapi.Artifact, error) {
	if err := z.has(ctx, id); err != nil {
		return nil, err
	}
	size, _, _, err := z.Queue.Sizes(ctx, id)
	if err == nil {
		var list []queue.Artifact
		if list, _, err = z.Queue.Artifacts(ctx, id); err == nil {
			all := []jobapi.Artifact{jobapi.ArtifactOf(resultName, size)}
			for _, a := range list {
				all = append(all, artifactOf(a))
			}
			slices.SortFunc(all, func(a, b jobapi.Artifact) int { return cmp.Compare(a.Name, b.Name) })
			return all, nil
		}
	}
	switch {
	case errors.Is(err, queue.ErrNotEnded):
		return nil, nil
	case isNoJob(err):
		return nil, jobapi.NoJob(string(id))
	}
	return nil, notDone(err)
}

func artifactOf(a queue.Artifact) jobapi.Artifact {
	shown := jobapi.ArtifactOf(a.Name, a.Size)
	shown.SHA256 = a.SHA256
	if a.Type != "" {
		shown.MediaType = a.Type
	}
	return shown
}

func (z *ZPE) openArtifactOfKind(ctx context.Context, id jobs.ID, name string) (io.ReadCloser, jobapi.Artifact, error) {
	list, lease, err := z.Queue.Artifacts(ctx, id)
	switch {
	case errors.Is(err, queue.ErrNotEnded), isNoJob(err):
		return nil, jobapi.Artifact{}, jobapi.NoJob(string(id))
	case err != nil:
		return nil, jobapi.Artifact{}, notDone(err)
	}
	i := slices.IndexFunc(list, func(a queue.Artifact) bool { return a.Name == name })
	switch {
	case i < 0:
		return nil, jobapi.Artifact{}, jobapi.NoJob(string(id))
	case z.OpenFile == nil:
		return nil, jobapi.Artifact{}, &jobapi.Refusal{
			Status: http.StatusServiceUnavailable, Code: jobapi.CodeUnavailable, Message: "This server cannot read the gateway's storage: ask the gateway",
		}
	}
	content, err := z.OpenFile(ctx, id, lease, name)
	if err != nil { // one that is gone is none
		return nil, jobapi.Artifact{}, err
	}
	a := artifactOf(list[i])
	a.Tag = a.SHA256
	return content, a, nil
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
	now, err := z.one(ctx, id)
	if err == nil && z.QueuedKind != nil {
		z.QueuedKind(jobs.Kind(strings.TrimPrefix(now.Type, othersType)))
	}
	return now, err
}
