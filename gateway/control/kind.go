package control

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
)

// Kind is a kind of jobs beside zpe: what a gateway must know of it.
type Kind struct {
	// CheckParams returns the parameters of a job as it runs with them, or what is wrong with
	// them, in words for their author. Nil takes any JSON object.
	CheckParams func(params json.RawMessage) (json.RawMessage, error)
	// Waits are the times before a job runs again after its 1st, 2nd, … failure: so many further
	// attempts it has. What is not the job's failure, such as a lost lease, is not among them.
	Waits []time.Duration
	// MaxInput bounds the inputs of a job together, in bytes, below what the gateway takes for any; 0 for no bound of its own.
	MaxInput   int64
	OneInput   bool // a job cannot have several inputs
	NeedsInput bool // a job without an input cannot run
	// MaxCheckpoint bounds what the checkpoint of a job has, in bytes; 0 for a kind without checkpoints here.
	MaxCheckpoint int64
}

// KindsOf returns the kinds of a kinds file.
func KindsOf(set *kinds.Set) map[jobs.Kind]Kind {
	all := map[jobs.Kind]Kind{}
	for _, k := range set.Kinds {
		all[k.Name] = Kind{CheckParams: k.CheckParams, Waits: waits(k), MaxInput: k.MaxInput, OneInput: k.OneInput(), NeedsInput: k.NeedsInput(), MaxCheckpoint: k.Checkpoints}
	}
	return all
}

// kindSet are the kinds beside zpe at one time.
type kindSet struct {
	now  map[jobs.Kind]Kind
	gone map[jobs.Kind]Kind // known before: their jobs that run go on
}

// ReplaceKinds gives the gateway these kinds in place of Kinds, also while it serves. It must not be called concurrently
// with itself. No jobs of a kind that is gone are taken or handed out; those that run go on, and the others stay in the queue.
func (c *Control) ReplaceKinds(kinds map[jobs.Kind]Kind) {
	before := c.kinds()
	next := kindSet{kinds, map[jobs.Kind]Kind{}}
	maps.Copy(next.gone, before.gone)
	maps.Copy(next.gone, before.now)
	c.replaced.Store(&next)
}

func (c *Control) kinds() kindSet {
	if s := c.replaced.Load(); s != nil {
		return *s
	}
	return kindSet{now: c.Kinds}
}

// of returns a kind, also one that is gone.
func (s kindSet) of(kind jobs.Kind) (Kind, bool) {
	k, ok := s.now[kind]
	if !ok {
		k, ok = s.gone[kind]
	}
	return k, ok
}

// waits returns the times before the further attempts of a kind: its backoff, doubled each time.
func waits(k *kinds.Kind) []time.Duration {
	var all []time.Duration
	for d := k.Backoff; len(all) < k.Retries; d = min(2*d, max(k.BackoffMax, k.Backoff)) {
		all = append(all, d)
	}
	return all
}

var kindForm = jobs.Form(`^[a-z][a-z0-9-]{0,31}$`)

// ValidKind reports whether a kind may have this name, which is a part of paths and of keys in
// Redis.
func ValidKind(kind jobs.Kind) bool { return kindForm().MatchString(string(kind)) }

// errNoKind is for a path, or a worker, of a kind that the gateway does not have. A gateway from
// before there were kinds has no such route.
var errNoKind = &gateway.Error{Status: 404, Code: wire.NotFound, Message: "This gateway has no such kind of jobs (KINDS_FILE)"}

// plainKind returns the empty kind for zpe, as package queue has it.
func plainKind(kind jobs.Kind) jobs.Kind {
	if kind == queue.KindZPE {
		return ""
	}
	return kind
}

// kindOf returns the kind in a request's path.
func kindOf(r *http.Request) jobs.Kind {
	if kind := r.PathValue("kind"); kind != "" {
		return jobs.Kind(kind)
	}
	return queue.KindZPE
}

// knows reports whether this gateway has a kind.
func (c *Control) knows(kind jobs.Kind) bool {
	_, ok := c.kinds().now[kind]
	return ok || plainKind(kind) == ""
}

// hasKind returns an error if the path is of a kind that this gateway does not have and did not have.
func (c *Control) hasKind(r *http.Request) error {
	kind := kindOf(r)
	if _, ok := c.kinds().of(kind); !ok && plainKind(kind) != "" {
		return errNoKind
	}
	return nil
}

// isOfKind returns [queue.ErrNoJob] if a job is of another kind than the path.
func (c *Control) isOfKind(ctx context.Context, r *http.Request, id jobs.ID) error {
	if c.kinds().now == nil {
		return nil
	}
	return c.Queue.IsOfKind(ctx, id, plainKind(kindOf(r)))
}

// onlyZPE are routes that other kinds do not have.
var onlyZPE = map[string]bool{wire.PathJobFiles: true, wire.PathMetrics: true}

// kindRoutes returns the routes of all kinds beside zpe: those that zpe has, and more.
func (c *Control) kindRoutes(zpe []route) []route {
	var list []route
	for _, rt := range zpe {
		if onlyZPE[rt.path] {
			continue
		}
		handle := rt.handle
		list = append(list, route{rt.method, wire.PathOf("{kind}", rt.path), func(w http.ResponseWriter, r *http.Request) error {
			if err := c.hasKind(r); err != nil {
				return err
			}
			return handle(w, r)
		}})
	}
	for _, rt := range []route{
		{http.MethodPost, wire.PathInputs, c.client(c.addInput)},
		{http.MethodGet, wire.PathArtifacts, c.client(c.ofJob(c.artifacts))},
		{http.MethodGet, wire.PathArtifact, c.client(c.artifact)},
		{http.MethodGet, wire.PathInput, c.leased(c.input)},
		{http.MethodGet, wire.PathCheckpoint, c.leased(c.checkpoint)},
		{http.MethodPut, wire.PathCheckpoint, c.leased(c.putCheckpoint)},
		{http.MethodGet, wire.PathUpload, c.leased(c.uploaded)},
		{http.MethodPut, wire.PathUpload, c.leased(c.putArtifact)},
	} {
		handle := rt.handle
		list = append(list, route{rt.method, wire.PathOf("{kind}", rt.path), func(w http.ResponseWriter, r *http.Request) error {
			if kindOf(r) == queue.KindZPE {
				return errNoKind
			}
			if err := c.hasKind(r); err != nil {
				return err
			}
			return handle(w, r)
		}})
	}
	return list
}

// notTheJobs are the codes of failures that say nothing of a job, but of its worker. A job of any
// kind runs again after them, as often as after a lost lease.
var notTheJobs = map[string]bool{wire.FailWorkerUnavailable: true, wire.FailWorkerRestart: true, wire.FailResultMissing: true}

// retryByKind has a job run again as its kind says, after a failure of its own. A worker that
// asks for another attempt gets it, also if the kind has none.
func (s kindSet) retryByKind(q *queue.Queue, kind jobs.Kind, f *queue.Failure) {
	k, ok := s.of(kind)
	switch {
	case !ok:
		return
	case f.RetryPolicy == queue.RetryByKind:
		for len(f.Waits) < len(k.Waits) {
			f.Waits = append(f.Waits, f.Waits[0])
		}
	case f.RetryPolicy == queue.Retry && !notTheJobs[f.Code] && f.Code != wire.FailCanceled:
		f.RetryPolicy, f.Waits = queue.RetryByKind, slices.Clone(k.Waits)
	}
	for i, wait := range f.Waits {
		f.Waits[i] = min(wait, q.ResultTTL) // or the job would be forgotten meanwhile
	}
}
