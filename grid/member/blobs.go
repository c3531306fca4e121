package member

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"time"

	"github.com/batchfleet/batchfleet/grid/blob"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/retry"
)

// notCarriedError means that the leader does not store or send a blob, now and later: a job that needs the blob fails. It wraps [errors.ErrUnsupported].
type notCarriedError struct{ error }

func (e notCarriedError) Unwrap() error { return e.error }

func (notCarriedError) Is(err error) bool { return err == errors.ErrUnsupported }

var errNoBlobs = notCarriedError{errors.New("it carries nothing that is too large for a frame")}

// jobKey is the context key of the job's id.
type jobKey struct{}

// withJob returns a context for the handler of a job: Fetch and Store find the job's leader by it.
func withJob(ctx context.Context, id jobs.ID) context.Context {
	return context.WithValue(ctx, jobKey{}, id)
}

// Fetch downloads a blob from the leader of a job. It is for the Fetch of an exec's runner: ctx must be from a handler of [Member.Handler]. When the
// connection is lost it waits for the next one, until ctx ends, and goes on. The error wraps [fs.ErrNotExist] if the leader does not have the blob,
// [errors.ErrUnsupported] if it stores no blobs or refuses this one, or the cause of ctx and the last error.
func (m *Member) Fetch(ctx context.Context, b wire.Blob, to io.Writer) error {
	d := blob.NewDownload(b, to)
	return m.transfer(ctx, func(c *blob.Client) error { return c.Get(ctx, d) })
}

// Store puts a file to the leader of a job, and returns it as a blob with a name, by which the job's client can get it. It is for the Store of an exec's
// runner. Contexts and errors are as with [Member.Fetch].
func (m *Member) Store(ctx context.Context, path, name string) (wire.Blob, error) {
	f, err := os.Open(path)
	if err != nil {
		return wire.Blob{}, err
	}
	defer f.Close()
	b, err := blob.Sum(f)
	if err != nil {
		return wire.Blob{}, fmt.Errorf("read %s: %w", name, err)
	}
	b.Name = name
	return b, m.transfer(ctx, func(c *blob.Client) error { return c.Put(ctx, b, f) })
}

// checkpointName is what a checkpoint is called that is given to a leader.
const checkpointName = "checkpoint.tar"

// StoreCheckpoint gives a file to the leader of a job, which gives it to the worker of the next attempt. It is for the StoreCheckpoint of an exec's
// runner. Otherwise it is like Store.
func (m *Member) StoreCheckpoint(ctx context.Context, path string) (wire.Blob, error) {
	b, err := m.Store(ctx, path, checkpointName)
	if err != nil {
		return b, err
	}
	id, _ := ctx.Value(jobKey{}).(jobs.ID)
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.find(id)
	if r == nil {
		return b, fmt.Errorf("%w: the job is no longer in hand", jobs.ErrLeaseLost)
	}
	r.tell(wire.ReportInfo{Checkpoint: &b}, math.MaxInt)
	return b, nil
}

// transfers is when a transfer is tried again after the leader was busy.
var transfers = retry.Policy{First: time.Second / 2, Max: 10 * time.Second, Jitter: 0.2}

// transfer calls once with the connection of the job's leader, and again over the next connection when one is lost.
func (m *Member) transfer(ctx context.Context, once func(*blob.Client) error) error {
	id, _ := ctx.Value(jobKey{}).(jobs.ID)
	delays := transfers.Delays()
	for {
		p, err := m.leaderOf(id)
		if err != nil {
			return err
		}
		s, err := p.await(ctx, nil)
		if err != nil {
			return fmt.Errorf("leader %s: %w", p.addr, err)
		}
		client := s.blobClient()
		if client == nil {
			return fmt.Errorf("leader %s: %w", p.addr, errNoBlobs)
		}
		err = once(client)
		theirs, refused := errors.AsType[*blob.Error](err)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("leader %s: %w: %w", p.addr, err, context.Cause(ctx))
		case errors.Is(err, blob.ErrClosed):
			if err := s.awaitEnd(ctx); err != nil {
				return fmt.Errorf("leader %s: %w", p.addr, err)
			}
		case errors.Is(err, blob.ErrStalled), refused && (theirs.Code == wire.CodeBusy || theirs.Code == wire.CodeDraining):
			m.Log.WarnContext(ctx, "cannot transfer a blob, trying again", "job", id, "leader", p.addr, "err", err)
			if sleep := jobs.Sleep(ctx, delays.Next()); sleep != nil {
				return fmt.Errorf("leader %s: %w: %w", p.addr, err, context.Cause(ctx))
			}
		case refused && theirs.Code == wire.CodeNotFound:
			return fmt.Errorf("leader %s: %w: %w", p.addr, fs.ErrNotExist, err)
		case refused:
			return fmt.Errorf("leader %s: %w", p.addr, notCarriedError{err})
		default:
			return fmt.Errorf("leader %s: %w", p.addr, err)
		}
	}
}

// leaderOf returns the leader that has assigned a job; if there are several, the first one that is connected, or else the first.
func (m *Member) leaderOf(id jobs.ID) (*peer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var first *peer
	if r := m.find(id); r != nil {
		for _, a := range r.attempts {
			switch {
			case a.lost:
			case a.peer.session != nil:
				return a.peer, nil
			case first == nil:
				first = a.peer
			}
		}
	}
	if first == nil {
		return nil, fmt.Errorf("%w: the job is no longer in hand", jobs.ErrLeaseLost)
	}
	return first, nil
}

// blobClient returns the client for blobs of the connection; nil if the leader stores none.
func (s *session) blobClient() *blob.Client {
	s.peer.mu.Lock()
	defer s.peer.mu.Unlock()
	if !s.has(wire.FeatureBlob) {
		return nil
	}
	return s.blobs
}

// awaitEnd waits until the leader no longer has this connection, which has ended.
func (s *session) awaitEnd(ctx context.Context) error {
	for {
		s.peer.mu.Lock()
		over, changed := s.peer.session != s, s.peer.changed
		s.peer.mu.Unlock()
		if over {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
