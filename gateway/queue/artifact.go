package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
)

// Artifact is a file that a job has made. The queue knows which there are; what is in them is
// elsewhere.
type Artifact struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // in hex
	Type   string `json:"type,omitempty"`
}

func (a Artifact) sum() string { return fmt.Sprintf("%d:%s", a.Size, a.SHA256) }

// listed returns artifacts as they are on record, in order of their names, and what of each
// must have arrived.
func listed(artifacts []Artifact) (list string, sums []any, err error) {
	if len(artifacts) == 0 {
		return "", nil, nil
	}
	sorted := slices.SortedFunc(slices.Values(artifacts), func(a, b Artifact) int { return cmp.Compare(a.Name, b.Name) })
	for _, a := range sorted {
		sums = append(sums, a.Name, a.sum())
	}
	text, err := json.Marshal(sorted)
	return string(text), sums, err
}

// MaxArtifacts is how many a job may have.
const MaxArtifacts = 10_000

// Holds returns nil if the caller holds a lease on a job of its kind; errors are those of
// [Queue.Extend].
func (q *Queue) Holds(ctx context.Context, c Caller, id jobs.ID, lease string) error {
	return q.record(ctx, c, id, lease, uploadsKey(id, lease), Artifact{})
}

// AddArtifact records, under the lease of an attempt, an artifact that has arrived whole. A
// result of this attempt may name it then; if there is none it is forgotten. Errors are those of
// Holds, and [ErrManyArtifacts].
func (q *Queue) AddArtifact(ctx context.Context, c Caller, id jobs.ID, lease string, artifact Artifact) error {
	return q.record(ctx, c, id, lease, uploadsKey(id, lease), artifact)
}

// record records, in a key, what has arrived whole under a lease.
func (q *Queue) record(ctx context.Context, c Caller, id jobs.ID, lease, key string, artifact Artifact) error {
	a, err := q.runAs(ctx, c, "look at lease", artifactScript, []string{leaseKey(id), statusKey(id), key},
		lease, string(c.Kind), artifact.Name, artifact.sum(), q.ResultTTL.Milliseconds(), MaxArtifacts)
	switch {
	case err != nil:
		return err
	case a.Text(0) == "many":
		return ErrManyArtifacts
	case a.Text(0) != "ok":
		return unexpected("look at lease", a)
	}
	return nil
}

// HasArtifact reports whether an artifact was recorded under a lease.
func (q *Queue) HasArtifact(ctx context.Context, id jobs.ID, lease string, artifact Artifact) (bool, error) {
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	sum, err := q.rdb.HGet(ctx, uploadsKey(id, lease), artifact.Name).Result()
	return sum == artifact.sum(), unavailable("look for an artifact", err)
}

// Artifacts returns those of a job that has finished, and the lease of the attempt that has
// made them. Errors are those of [Queue.Result].
func (q *Queue) Artifacts(ctx context.Context, id jobs.ID) (list []Artifact, lease string, err error) {
	var text, by *redis.StringCmd
	err = q.finished(ctx, id, func(pipe redis.Pipeliner) {
		text, by = pipe.Get(ctx, artifactsKey(id)), pipe.HGet(ctx, statusKey(id), "lease_id")
	})
	if err != nil || text.Val() == "" {
		return nil, "", err
	}
	if err := json.Unmarshal([]byte(text.Val()), &list); err != nil {
		return nil, "", fmt.Errorf("read artifacts of job %s: %w", id, err)
	}
	return list, by.Val(), nil
}

// ArtifactLeases returns of each job the leases whose artifacts must be kept: that under which
// it runs, that which has finished it and that of its late result.
func (q *Queue) ArtifactLeases(ctx context.Context, ids []jobs.ID) (map[jobs.ID][]string, error) {
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	type look struct {
		status     *redis.SliceCmd
		held, late *redis.StringCmd
	}
	pipe := q.rdb.Pipeline()
	looks := map[jobs.ID]look{}
	for _, id := range ids {
		looks[id] = look{pipe.HMGet(ctx, statusKey(id), "status", "lease_id"), pipe.HGet(ctx, leaseKey(id), "lease_id"), pipe.HGet(ctx, lateKey(id), "lease_id")}
	}
	if err := redisdb.Exec(ctx, pipe); err != nil {
		return nil, unavailable("look for leases", err)
	}
	leases := map[jobs.ID][]string{}
	for id, l := range looks {
		for _, c := range []*redis.StringCmd{l.held, l.late} {
			if err := c.Err(); err != nil && !errors.Is(err, redis.Nil) {
				return nil, unavailable("look for leases of job "+string(id), err)
			}
			leases[id] = append(leases[id], c.Val())
		}
		if l.status.Err() != nil {
			return nil, unavailable("look for leases of job "+string(id), l.status.Err())
		}
		if a := redisdb.Reply(l.status.Val()); a.Text(0) == Finished {
			leases[id] = append(leases[id], a.Text(1))
		}
	}
	return leases, nil
}

// Upload is an input that was uploaded for jobs.
type Upload struct {
	Name   string
	Size   int64
	SHA256 string // in hex
}

// AddUpload records an upload, which is kept for ResultTTL, or as long as a job of it.
func (q *Queue) AddUpload(ctx context.Context, u Upload) error {
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	pipe := q.rdb.TxPipeline()
	pipe.HSet(ctx, uploadKey(u.Name), "size", u.Size, "sha256", u.SHA256, "created_at", text(q.Now()))
	pipe.PExpire(ctx, uploadKey(u.Name), q.ResultTTL)
	_, err := pipe.Exec(ctx)
	return unavailable("record upload", err)
}

// Uploads returns uploads in the order of their names. One that is not there, or not any more, has no name.
func (q *Queue) Uploads(ctx context.Context, names ...string) ([]Upload, error) {
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	pipe := q.rdb.Pipeline()
	found := make([]*redis.SliceCmd, len(names))
	for i, name := range names {
		found[i] = pipe.HMGet(ctx, uploadKey(name), "size", "sha256")
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, unavailable("read uploads", err)
	}
	all := make([]Upload, len(names))
	for i, name := range names {
		a := redisdb.Reply(found[i].Val())
		if size, err := strconv.ParseInt(a.Text(0), 10, 64); err == nil && a.Text(1) != "" {
			all[i] = Upload{Name: name, Size: size, SHA256: a.Text(1)}
		}
	}
	return all, nil
}

// KeepUpload reports whether an upload must be kept: it was made not long ago, or there is a
// job of it. Such a one is kept for another while.
func (q *Queue) KeepUpload(ctx context.Context, name string) (bool, error) {
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	fields, err := q.rdb.HKeys(ctx, uploadKey(name)).Result()
	if err != nil {
		return false, unavailable("read upload", err)
	}
	var statuses []string
	for _, f := range fields {
		if len(f) > 4 && f[:4] == "job:" {
			statuses = append(statuses, statusKey(jobs.ID(f[4:])))
		}
	}
	if len(statuses) == 0 {
		return len(fields) > 0, nil
	}
	n, err := q.rdb.Exists(ctx, statuses...).Result()
	if err == nil && n > 0 {
		err = q.rdb.PExpire(ctx, uploadKey(name), 2*q.ResultTTL).Err()
	}
	return n > 0 || err != nil, unavailable("look for jobs of an upload", err)
}
