package provider

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
)

var _ jobapi.Keeper = (*Fleet)(nil)

// maxArtifacts bounds a list of artifacts: a kind leaves a handful.
const maxArtifacts = 1000

// Artifacts implements [jobapi.Keeper]: the files of the job's results, see SPEC.md of
// package processor, without the checkpoints of a job that ran.
func (f *Fleet) Artifacts(ctx context.Context, id string) ([]jobapi.Artifact, error) {
	j, err := f.one(ctx, id)
	if err != nil || j.Status != jobs.Succeeded {
		return nil, err
	}
	store, err := f.store(ctx)
	if err != nil {
		return nil, err
	}
	var list []jobapi.Artifact
	dir := resultsOf(id)
	err = store.Walk(ctx, dir, func(name string, info storage.Info, err error) error {
		if name = strings.TrimPrefix(name, dir); err == nil && jobapi.ValidArtifact().MatchString(name) && len(list) < maxArtifacts {
			list = append(list, jobapi.ArtifactOf(name, info.Size))
		}
		return err
	})
	slices.SortFunc(list, func(a, b jobapi.Artifact) int { return strings.Compare(a.Name, b.Name) })
	return list, err
}

// OpenArtifact implements [jobapi.Keeper].
func (f *Fleet) OpenArtifact(ctx context.Context, id, name string) (io.ReadCloser, jobapi.Artifact, error) {
	j, err := f.one(ctx, id)
	if err == nil && (j.Status != jobs.Succeeded || !jobapi.ValidArtifact().MatchString(name)) {
		err = jobapi.NoJob(id)
	}
	if err != nil {
		return nil, jobapi.Artifact{}, err
	}
	store, err := f.store(ctx)
	if err != nil {
		return nil, jobapi.Artifact{}, err
	}
	info, err := store.Stat(ctx, resultsOf(id)+name)
	if err != nil {
		return nil, jobapi.Artifact{}, err
	}
	content, err := store.Open(ctx, resultsOf(id)+name)
	return content, jobapi.ArtifactOf(name, info.Size), err
}

// resultsOf is where the storage has what a job has made, as SPEC.md of package processor
// says.
func resultsOf(id string) string { return "results/" + id + "/" }

func (f *Fleet) store(ctx context.Context) (storage.Store, error) {
	if f.Storage == nil {
		return nil, notSetUp("This server has no storage: set GCP_PROJECT_ID, STORAGE_TYPE, and LOCAL_STORAGE_PATH, GCS_BUCKET_NAME or S3_BUCKET_NAME")
	}
	return f.Storage(ctx)
}

// notSetUp refuses what this server lacks a setting for.
func notSetUp(message string) error {
	return &jobapi.Refusal{Status: http.StatusConflict, Code: jobapi.CodePrecondition, Message: message}
}

// one returns a job.
func (f *Fleet) one(ctx context.Context, id string) (jobapi.Job, error) {
	found, err := f.Get(ctx, []string{id})
	if err == nil && len(found) == 0 {
		err = jobapi.NoJob(id)
	}
	if err != nil {
		return jobapi.Job{}, err
	}
	return found[0], nil
}
