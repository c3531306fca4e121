package provider

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/artifact"
	"github.com/batchfleet/batchfleet/storage"
)

var _ jobapi.Keeper = (*Fleet)(nil)

// maxArtifacts bounds a list of artifacts: as many as a kind of the kinds file may leave, and a few of ours.
const maxArtifacts = 10_000 + 10

// Artifacts implements [jobapi.Keeper]: the files of the job's results, see SPEC.md of
// package processor and package processor/artifact, without the checkpoints of a job that ran.
func (f *Fleet) Artifacts(ctx context.Context, id string) ([]jobapi.Artifact, error) {
	j, err := f.one(ctx, id)
	if err != nil || j.Status != jobs.Succeeded {
		return nil, err
	}
	store, err := f.store(ctx)
	if err != nil {
		return nil, err
	}
	list := map[string]jobapi.Artifact{}
	dir, own := resultsOf(id), false // own: of people's own kinds
	err = store.Walk(ctx, dir, func(name string, info storage.Info, err error) error {
		name, inside := strings.CutPrefix(strings.TrimPrefix(name, dir), artifactsDir)
		if _, there := list[name]; err == nil && jobapi.ValidArtifact().MatchString(name) && (inside || !there) && len(list) < maxArtifacts {
			list[name] = artifactOf(name, info)
			own = own || inside
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if own {
		if err := addSums(ctx, store, jobs.ID(j.ID), list); err != nil {
			return nil, err
		}
	}
	return slices.SortedFunc(maps.Values(list), func(a, b jobapi.Artifact) int { return strings.Compare(a.Name, b.Name) }), nil
}

// addSums fills in the checksums that the job's result has. A result that cannot be understood has none.
func addSums(ctx context.Context, store storage.Store, id jobs.ID, list map[string]jobapi.Artifact) error {
	result, err := artifact.Stored(ctx, store, id)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return nil
	}
	for _, a := range result.Artifacts {
		if has, ok := list[a.Name]; ok && has.Bytes == a.Size && validSum().MatchString(a.SHA256) {
			has.SHA256 = a.SHA256
			list[a.Name] = has
		}
	}
	return err
}

var validSum = jobs.Form(`^[0-9a-f]{64}$`)

// OpenArtifact implements [jobapi.Keeper]. The content is an [io.Seeker] if the storage can open objects
// at an offset.
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
	object, info, err := findArtifact(ctx, store, j.ID, name)
	if err != nil {
		return nil, jobapi.Artifact{}, err
	}
	content, err := storage.OpenSeeker(ctx, store, object)
	return content, artifactOf(name, info), err
}

// findArtifact returns the object of an artifact: in the directory of people's own kinds, or beside the result.
func findArtifact(ctx context.Context, store storage.Store, id, name string) (object string, info storage.Info, err error) {
	if name != resultFile {
		object = resultsOf(id) + artifactsDir + name
		if info, err = store.Stat(ctx, object); !errors.Is(err, fs.ErrNotExist) {
			return object, info, err
		}
	}
	object = resultsOf(id) + name
	info, err = store.Stat(ctx, object)
	return object, info, err
}

// artifactOf returns what is told of an object. Its tag is made from when it was stored: to read the result
// of a job for each of its files would cost more than most of them.
func artifactOf(name string, info storage.Info) jobapi.Artifact {
	a := jobapi.ArtifactOf(name, info.Size)
	a.MediaType = artifact.MediaType(name)
	a.Tag = strconv.FormatInt(info.Size, 36) + "-" + strconv.FormatInt(info.Modified.UnixNano(), 36)
	return a
}

// What the storage has of a job, below resultsOf.
const (
	artifactsDir = "artifacts/" // of people's own kinds: see package processor/artifact
	resultFile   = "result.json"
)

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
