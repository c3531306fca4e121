package exec

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/batchfleet/batchfleet/grid/blob"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// depot is where the runners of a test have checkpoints.
type depot struct {
	mu      sync.Mutex
	content map[string][]byte
	stored  chan wire.Blob
}

func newDepot() *depot {
	return &depot{content: map[string][]byte{}, stored: make(chan wire.Blob, 100)}
}

func (d *depot) store(_ context.Context, path string) (wire.Blob, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return wire.Blob{}, err
	}
	b, err := blob.Sum(bytes.NewReader(text))
	if err != nil {
		return b, err
	}
	d.mu.Lock()
	d.content[b.SHA256] = text
	d.mu.Unlock()
	d.stored <- b
	return b, nil
}

func (d *depot) fetch(_ context.Context, b wire.Blob, to io.Writer) error {
	d.mu.Lock()
	text, ok := d.content[b.SHA256]
	d.mu.Unlock()
	if !ok {
		return fs.ErrNotExist
	}
	_, err := to.Write(text)
	return err
}

// last returns what was stored since the last call, nil for nothing.
func (d *depot) last() (b *wire.Blob) {
	for {
		select {
		case stored := <-d.stored:
			b = &stored
		default:
			return b
		}
	}
}

// counts adds a letter to a file of the checkpoint, beside one that does not travel, and fails.
const counts = `cd "$GRID_CHECKPOINT_DIR"; [ ! -e sub/n ] || cat sub/n; mkdir -p sub; printf x >>sub/n; echo half >.part; ls -a; exit 3`

// travelRig opens a runner whose checkpoints travel.
func travelRig(t *testing.T, d *depot, script string, limit int64) *rig {
	t.Helper()
	r := newRig(t, script, Limits{Checkpoint: limit})
	r.StoreCheckpoint, r.Fetch = d.store, d.fetch
	return r
}

func again(q wire.JobRequest) wire.JobRequest {
	q.RetryOn = []string{wire.ReasonExit}
	return q
}

func TestG77ACheckpointGoesOnElsewhere(t *testing.T) {
	t.Parallel()
	d := newDepot()
	here, there := travelRig(t, d, counts, 1<<20), travelRig(t, d, counts, 1<<20)
	q := again(request())
	run := func(r *rig, want string) {
		t.Helper()
		if got := r.fails(q, wire.ReasonExit, "exit status 3"); got.Stdout != want {
			t.Errorf("it wrote %q, want %q", got.Stdout, want)
		}
		if b := d.last(); b != nil {
			q.Checkpoint = b
		}
	}
	run(here, ".\n..\n.part\nsub\n")
	run(there, "x.\n..\n.part\nsub\n")
	run(here, "xx.\n..\n.part\nsub\n") // and not what it has left here itself
	// What has become of a checkpoint here is newer than what was stored of it.
	here.StoreCheckpoint = nil
	run(here, "xxx.\n..\n.part\nsub\n")
	here.StoreCheckpoint = d.store
	run(here, "xxxx.\n..\n.part\nsub\n")
	// One that a program has left as it was makes the same archive, which the leader has.
	here.program(`exit 3`)
	before := *q.Checkpoint
	run(here, "")
	if *q.Checkpoint != before {
		t.Errorf("a checkpoint that has not changed is stored as %v, and was %v", *q.Checkpoint, before)
	}
}

func TestG77ACheckpointIsStoredWhenAWorkerDrains(t *testing.T) {
	t.Parallel()
	d := newDepot()
	r := travelRig(t, d, `echo state >"$GRID_CHECKPOINT_DIR/s"; echo up; until [ -e "$1" ]; do sleep 0.02; done; echo more >>"$GRID_CHECKPOINT_DIR/s"; echo done`, 1<<20)
	q := request(filepath.Join(t.TempDir(), "go"))
	up := make(chan bool, 10)
	var ended sync.WaitGroup
	ended.Go(func() {
		got, err := r.Run(t.Context(), Attempt{Request: q, Number: 1, Line: func(string) { up <- true }})
		if err != nil || got.Stdout != "up\ndone\n" {
			t.Errorf("the job ended with %s %q, %v", got.Status, got.Stdout, err)
		}
	})
	<-up
	r.Drain()
	b := <-d.stored // while it runs
	write(t, q.Args[0], "", 0o600)
	ended.Wait()
	if b := d.last(); b != nil {
		t.Error("the checkpoint of a job that has ended is stored")
	}
	other := travelRig(t, d, `cat "$GRID_CHECKPOINT_DIR/s"`, 1<<20)
	q.Checkpoint = &b
	if got := other.ok(q); got.Stdout != "state\n" {
		t.Errorf("elsewhere it found %q", got.Stdout)
	}
}

func TestG77WhatEndsAnAttemptDecidesWhetherItsCheckpointIsStored(t *testing.T) {
	t.Parallel()
	const script = `trap 'echo last >"$GRID_CHECKPOINT_DIR/s"; exit 0' TERM; echo up; while :; do sleep 0.02; done`
	for cause, want := range map[error]bool{jobs.ErrDrained: true, jobs.ErrUnavailable: true, jobs.ErrLeaseLost: false, jobs.ErrCanceled: false} {
		t.Run(cause.Error(), func(t *testing.T) {
			t.Parallel()
			d := newDepot()
			r := travelRig(t, d, script, 1<<20)
			ctx, stop := context.WithCancelCause(t.Context())
			_, err := r.Run(ctx, Attempt{Request: request(), Number: 1, Line: func(string) { stop(cause) }})
			if stored := d.last() != nil; !errors.Is(err, cause) || stored != want {
				t.Errorf("after %v it is stored: %v, want %v", err, stored, want)
			}
		})
	}
}

func TestG77ACheckpointThatCannotTravelHarmsNoJob(t *testing.T) {
	t.Parallel()
	d := newDepot()
	small := travelRig(t, d, `head -c 2000 /dev/zero >"$GRID_CHECKPOINT_DIR/s"; exit 3`, 1000)
	small.fails(again(request()), wire.ReasonExit, "exit status 3")
	if d.last() != nil {
		t.Error("a checkpoint was stored that is too large")
	}
	none := travelRig(t, d, `echo x >"$GRID_CHECKPOINT_DIR/s"; exit 3`, 0)
	none.fails(again(request()), wire.ReasonExit, "exit status 3")
	if d.last() != nil {
		t.Error("a checkpoint was stored although none are to be")
	}
	broken, err := blob.Sum(strings.NewReader("no archive"))
	if err != nil {
		t.Fatal(err)
	}
	d.content[broken.SHA256] = []byte("no archive")
	large := broken
	large.Size = 1 << 40
	missing := broken
	missing.SHA256 = strings.Repeat("0a", 32)
	r := travelRig(t, d, `ls "$GRID_CHECKPOINT_DIR"; echo up`, 1<<20)
	for name, b := range map[string]wire.Blob{"no archive": broken, "too large": large, "not there": missing} {
		q := request()
		q.Checkpoint = &b
		if got := r.ok(q); got.Stdout != "up\n" {
			t.Errorf("%s: it wrote %q", name, got.Stdout)
		}
	}
	r.Fetch = func(context.Context, wire.Blob, io.Writer) error { return jobs.ErrLeaseLost }
	q := request()
	q.Checkpoint = &broken
	if _, err := r.Run(t.Context(), Attempt{Request: q, Number: 1}); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("without a connection the attempt ends with %v, want ErrUnavailable", err)
	}
}
