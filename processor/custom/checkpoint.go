package custom

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/safefile"
	"github.com/batchfleet/batchfleet/scratch"
)

// checkpoint is the directory in which a program keeps what its next attempt goes on from. It
// stays on this machine until the job has ended. If the kind says so it is also stored, as a tar
// archive, each time it has changed, so that an attempt on another machine finds it.
//
// The program writes while files are stored: of one that grows, what was there at the beginning is
// stored. A file whose name begins with "." is left out, so a program that writes a file under such
// a name and renames it never meets half of it.
type checkpoint struct {
	*Attempt
	path   string
	local  *scratch.Checkpoint
	ticker *time.Ticker // nil if it does not travel
	saved  string       // what was last stored, as the state of its files
}

func checkpointName(id jobs.ID) string { return "results/" + string(id) + "/checkpoint.tar" }

// restoreCheckpoint opens the checkpoint of a job whose checkpoints travel, and begins to store it.
func (a *Attempt) restoreCheckpoint(ctx context.Context) error {
	if _, err := a.Checkpoint(); err != nil {
		return err
	}
	c := a.places.checkpoint
	c.ticker = time.NewTicker(cmp.Or(a.handler.CheckpointEvery, 30*time.Second))
	return c.restore(ctx)
}

// close leaves the checkpoint for the next attempt, unless it was deleted.
func (c *checkpoint) close() {
	if c.ticker != nil {
		c.ticker.Stop()
	}
	c.local.Close()
}

// due is when the checkpoint is to be stored; never if there is none that travels.
func (c *checkpoint) due() <-chan time.Time {
	if c == nil {
		return nil
	}
	return c.ticker.C
}

// restore replaces what is in the directory by the checkpoint in the storage, if there is one: the
// newest attempt has stored it, which may have run elsewhere. An attempt stores its checkpoint
// before it ends, unless its worker was killed; then at most CheckpointEvery is lost.
func (c *checkpoint) restore(ctx context.Context) error {
	src, err := c.handler.Store.Open(ctx, checkpointName(c.Job.ID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open checkpoint: %w", err)
	}
	defer src.Close()
	if err := c.empty(); err != nil {
		return unavailable(err)
	}
	err = c.unpack(tar.NewReader(io.LimitReader(src, 2*c.Kind.Checkpoints+1<<20)))
	if errors.Is(err, jobs.ErrUnavailable) {
		return err
	}
	if err != nil {
		c.handler.Log.WarnContext(ctx, "checkpoint is unreadable and is left out", "job", c.Job.ID, "err", err)
		if err := c.empty(); err != nil {
			return unavailable(err)
		}
	}
	c.saved, _, _ = c.state()
	return nil
}

func (c *checkpoint) empty() error {
	entries, err := os.ReadDir(c.path)
	for _, entry := range entries {
		err = errors.Join(err, safefile.RemoveAll(filepath.Join(c.path, entry.Name())))
	}
	return err
}

func (c *checkpoint) unpack(from *tar.Reader) error {
	root, err := os.OpenRoot(c.path)
	if err != nil {
		return unavailable(err)
	}
	defer root.Close()
	for {
		head, err := from.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if head.Typeflag != tar.TypeReg || !filepath.IsLocal(head.Name) {
			return fmt.Errorf("it has %q, which is no file below its directory", head.Name)
		}
		if dir := filepath.Dir(head.Name); dir != "." {
			if err := root.MkdirAll(dir, 0o700); err != nil {
				return unavailable(err)
			}
		}
		f, err := root.OpenFile(head.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return unavailable(err)
		}
		_, err = io.Copy(scratch.Writer(f), from)
		if closed := f.Close(); err == nil && closed != nil {
			err = unavailable(closed)
		}
		if err != nil {
			return err
		}
	}
}

// saveLast stores the checkpoint of a program that has ended without a result. Little time is left
// when the worker stops.
func (c *checkpoint) saveLast(ctx context.Context) {
	if errors.Is(context.Cause(ctx), jobs.ErrLeaseLost) || errors.Is(context.Cause(ctx), jobs.ErrCanceled) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	c.save(ctx)
}

// saveTimeout bounds the last save of a checkpoint.
const saveTimeout = 10 * time.Second

// save stores the checkpoint if it has changed. Trouble does not stop the job: it only costs what
// the program has done since.
func (c *checkpoint) save(ctx context.Context) {
	if errors.Is(jobs.Held(ctx), jobs.ErrUnavailable) {
		return // later: the program goes on while nothing is known of the claim
	}
	state, size, err := c.state()
	if err == nil && (state == "" || state == c.saved) {
		return
	}
	if err == nil && size > c.Kind.Checkpoints {
		_ = c.handler.Store.Delete(ctx, checkpointName(c.Job.ID)) // it is older than the one on this machine
		err = fmt.Errorf("it has %d bytes, more than %d (checkpoint_max of kind %s)", size, c.Kind.Checkpoints, c.Kind.Name)
	}
	if err == nil {
		err = c.put(ctx)
	}
	if err != nil {
		c.handler.Log.WarnContext(ctx, "cannot store the checkpoint of a job, which goes on", "job", c.Job.ID, "err", err)
		return
	}
	c.saved = state
}

// put stores the files of the directory as an archive.
func (c *checkpoint) put(ctx context.Context) error {
	r, w := io.Pipe()
	packed := make(chan struct{})
	go func() {
		defer close(packed)
		w.CloseWithError(c.pack(tar.NewWriter(w)))
	}()
	err := c.handler.Store.Put(ctx, checkpointName(c.Job.ID), r)
	_ = r.Close()
	<-packed
	return err
}

func (c *checkpoint) pack(to *tar.Writer) error {
	err := c.files(func(name string, info fs.FileInfo) error {
		f, err := safefile.Open(filepath.Join(c.path, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the program has deleted it
		}
		if err != nil {
			return err
		}
		defer f.Close()
		if err := to.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: 0o600, Format: tar.FormatPAX}); err != nil {
			return err
		}
		_, err = io.CopyN(to, f, info.Size()) // a file that has become shorter ends this save
		return err
	})
	if err != nil {
		return err
	}
	return to.Close()
}

// state describes the files of the directory, so that a change shows, and returns their size.
func (c *checkpoint) state() (state string, size int64, err error) {
	var b strings.Builder
	err = c.files(func(name string, info fs.FileInfo) error {
		size += info.Size()
		fmt.Fprintf(&b, "%s %d %d\n", name, info.Size(), info.ModTime().UnixNano())
		return nil
	})
	return b.String(), size, err
}

// maxCheckpointFiles is how many files a checkpoint may have that travels.
const maxCheckpointFiles = 10_000

// files calls visit for each file that is to be stored, in order.
func (c *checkpoint) files(visit func(name string, info fs.FileInfo) error) error {
	n := 0
	return filepath.WalkDir(c.path, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !entry.Type().IsRegular() || strings.HasPrefix(entry.Name(), ".") {
			if errors.Is(err, fs.ErrNotExist) {
				err = nil // deleted meanwhile
			}
			return err
		}
		if n++; n > maxCheckpointFiles {
			return fmt.Errorf("it has more than %d files", maxCheckpointFiles)
		}
		info, err := entry.Info()
		if err != nil {
			return nil //nolint:nilerr // deleted meanwhile
		}
		name, err := filepath.Rel(c.path, file)
		if err != nil {
			return err
		}
		return visit(filepath.ToSlash(name), info)
	})
}
