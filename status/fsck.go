package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
)

// maxFindings bounds what a report lists, harmless findings half of it; all are counted.
const maxFindings = 2000

// The kinds of findings.
const (
	forgotten    = "forgotten job"          // in the index, but its document has expired
	misplaced    = "in the wrong state"     // in the index of a state that it is not in
	missing      = "not in its state"       // not in the index of its state
	unlisted     = "not in the index"       // only in that of a state
	misdated     = "out of order"           // in two indexes at different times
	unreadableAt = "unreadable document"    // its writer must repair it
	orphaned     = "running without worker" // its claim is over for long
	// Waiting: no worker runs it, and whether a message of it exists cannot be asked.
	Waiting = "waits without a claim"
	// Unrepaired: its result cannot be read, or its message cannot be published.
	Unrepaired = "cannot be repaired"
)

// NewFinding returns a finding of a kind.
func NewFinding(kind string, job jobs.ID, detail, done string) redisdb.Finding {
	// Lists leave a forgotten job out, and the queue takes care of the others.
	harmless := kind == forgotten || kind == orphaned || kind == Waiting
	return redisdb.Finding{Kind: kind, Job: job, Detail: detail, Done: done, Harmless: harmless}
}

const (
	// orphanAge is how long a claim must be over before Fsck reports it: the lease ends
	// and the queue delivers again within some 11 minutes.
	orphanAge = 30 * time.Minute
	// Suspects are looked at again after a moment, so many at once, because a
	// document and its index change one after the other.
	maxSuspects = 10_000
	secondLook  = time.Second
)

// Fsck proves that each job is in the index, and in that of its state and no other,
// or says which is not, and moves it there if told to. It may run at any time
// beside workers: what looks wrong is looked at again a second later before it
// counts. It reads pages of 1000 and remembers 10 000 suspects at most.
func (s *Store) Fsck(ctx context.Context, repair bool) (redisdb.Audit, error) {
	f := &fsck{s: s, repair: repair, report: redisdb.NewAudit(maxFindings)}
	for _, key := range indexKeys() {
		if err := f.walk(ctx, key); err != nil {
			return f.report, fmt.Errorf("check jobs: %w", err)
		}
	}
	if err := f.settle(ctx); err != nil {
		return f.report, fmt.Errorf("check jobs: %w", err)
	}
	if err := f.kinds(ctx); err != nil {
		return f.report, fmt.Errorf("check jobs: %w", err)
	}
	return f.report, nil
}

type fsck struct {
	s        *Store
	repair   bool
	suspects []string
	report   redisdb.Audit
}

func (f *fsck) walk(ctx context.Context, key string) error {
	for members, err := range redisdb.Members(ctx, f.s.rdb, key) {
		if err != nil {
			return unavailable("read "+key, err)
		}
		looks, err := f.s.looks(ctx, members)
		if err != nil {
			return err
		}
		for i, l := range looks {
			if key != indexKey && l.listed {
				continue // seen in the walk of the index itself
			}
			if key == indexKey && l.found == readable {
				f.report.Jobs[l.State().String()]++
			}
			if l.kind != "" {
				f.suspects = append(f.suspects, members[i])
			}
		}
		if len(f.suspects) >= maxSuspects {
			if err := f.settle(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// settle looks at the suspects again, and repairs what is wrong still.
func (f *fsck) settle(ctx context.Context) error {
	if len(f.suspects) == 0 {
		return nil
	}
	if err := jobs.Sleep(ctx, secondLook); err != nil {
		return err
	}
	suspects, counted := f.suspects, map[string]bool{}
	f.suspects = nil
	for part := range slices.Chunk(suspects, redisdb.ScanCount) {
		looks, err := f.s.looks(ctx, part)
		if err != nil {
			return err
		}
		var wrong []string
		for i, l := range looks {
			if l.kind != "" && l.kind != unreadableAt && l.kind != orphaned {
				wrong = append(wrong, part[i])
			}
		}
		repaired := map[string]string{}
		if f.repair && len(wrong) > 0 {
			if err := f.s.repair(ctx, wrong); err != nil {
				return err
			}
			after, err := f.s.looks(ctx, wrong)
			if err != nil {
				return err
			}
			for i, l := range after {
				if l.gone {
					repaired[wrong[i]] = "dropped from the index"
				} else if l.kind == "" || l.kind == orphaned {
					repaired[wrong[i]] = "moved to " + l.State().String()
				}
			}
		}
		for i, l := range looks {
			if l.kind != "" && !counted[part[i]] {
				counted[part[i]] = true
				f.report.Add(NewFinding(l.kind, jobs.ID(jobs.Clip(part[i], jobs.MaxIDLength, " …")), l.detail, repaired[part[i]]))
			}
		}
	}
	return nil
}

// look is what was found of a job and its places.
type look struct {
	record
	listed bool   // it is in the index
	gone   bool   // it is in none
	kind   string // what is wrong first of all; empty if nothing is
	detail string
}

// looks looks at jobs and at their places in all indexes, in three round trips.
func (s *Store) looks(ctx context.Context, members []string) ([]look, error) {
	if len(members) == 0 {
		return nil, nil
	}
	// The places come first: a job that moves in between is found in the wrong place
	// then, and in the right one at the second look.
	scores, keys := make([][]*redis.FloatCmd, len(members)), indexKeys()
	pipe := s.rdb.Pipeline()
	for i, m := range members {
		for _, key := range keys {
			scores[i] = append(scores[i], pipe.ZScore(ctx, key, m))
		}
	}
	if err := redisdb.Exec(ctx, pipe); err != nil {
		return nil, unavailable("read index", err)
	}
	seen, err := s.read(ctx, members, heldFields...)
	if err != nil {
		return nil, err
	}
	found := make([]look, len(members))
	for i, r := range seen {
		l := look{record: r, gone: true}
		for k, score := range scores[i] {
			if err := score.Err(); err != nil && !errors.Is(err, redis.Nil) {
				return nil, unavailable("read index", err)
			}
			has := score.Err() == nil
			l.gone = l.gone && !has
			l.listed = l.listed || k == 0 && has
		}
		if at, err := time.Parse(time.RFC3339, r.UpdatedAt); l.left == 0 && err == nil {
			l.left = at.Sub(r.now) // it was given back
		}
		l.judge(scores[i])
		found[i] = l
	}
	unindexed, err := s.missingOfKind(ctx, found)
	if err != nil {
		return nil, err
	}
	for i := range found {
		if unindexed[i] {
			found[i].judgeKind()
		}
	}
	return found, nil
}

// judge says what is wrong with a job: scores are those of the index and of the
// states.
func (l *look) judge(scores []*redis.FloatCmd) {
	has := func(k int) bool { return scores[k].Err() == nil }
	switch l.found {
	case nothing, foreign:
		if !l.gone {
			l.kind, l.detail = forgotten, "nothing is known of it any more"
		}
		if l.found == foreign {
			l.kind, l.detail = unreadableAt, "the key of its status is no string"
		}
		return
	case unreadable:
		l.kind, l.detail = unreadableAt, "its status is not a document of this contract"
		return
	case readable:
	}
	if l.gone {
		return // it was dropped while we looked
	}
	own := int(l.State()-jobs.Queued) + 1
	for k, state := range states {
		if k+1 != own && has(k+1) {
			l.kind, l.detail = misplaced, fmt.Sprintf("it is %s and among those that are %s", l.State(), state)
			return
		}
	}
	switch {
	case !has(own):
		l.kind, l.detail = missing, fmt.Sprintf("it is %s and not among those", l.State())
	case !has(0):
		l.kind, l.detail = unlisted, fmt.Sprintf("it is only among those that are %s", l.State())
	case scores[0].Val() != scores[own].Val():
		l.kind, l.detail = misdated, fmt.Sprintf("it is in the index at %.0f and among those that are %s at %.0f", scores[0].Val(), l.State(), scores[own].Val())
	case l.State() == jobs.Running && -l.left > orphanAge:
		l.kind, l.detail = orphaned, fmt.Sprintf("its claim was over %s ago; the queue delivers it again", (-l.left).Round(time.Minute))
	}
}
