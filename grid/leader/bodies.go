package leader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/batchfleet/batchfleet/grid/schedule"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/safefile"
)

// bodies stores requests and results that are too large to keep in memory, each in a file.
type bodies struct{ dir string }

func openBodies(dir string) (*bodies, error) {
	if err := safefile.Dir(dir); err != nil {
		return nil, err
	}
	for i := range 256 {
		if err := os.Mkdir(filepath.Join(dir, fmt.Sprintf("%02x", i)), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return &bodies{dir: dir}, nil
}

func (b *bodies) path(ref wire.GUID) string {
	name := ref.N()
	return filepath.Join(b.dir, name[:2], name)
}

// put stores a body. When it returns, the body survives a power cut.
func (b *bodies) put(text []byte) (wire.GUID, error) {
	ref := wire.NewGUID()
	return ref, safefile.Replace(b.path(ref), text)
}

func (b *bodies) get(ref wire.GUID) ([]byte, error) { return os.ReadFile(b.path(ref)) }

func (b *bodies) forget(ref wire.GUID) { _ = os.Remove(b.path(ref)) } // a file that is left is deleted at the next start

// sweep deletes files that are not used, and returns how many used ones are missing.
func (b *bodies) sweep(used map[wire.GUID]bool) (missing int, err error) {
	found := 0
	err = filepath.WalkDir(b.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		ref, err := wire.ParseGUID(d.Name())
		if err == nil && used[ref] {
			found++
			return nil
		}
		return os.Remove(path)
	})
	return len(used) - found, err
}

// body returns a request or a result for the state: in memory, or stored in a file if it is large.
func (l *Leader) body(payload []byte, inMemory bool) (schedule.Body, error) {
	if l.bodies != nil {
		l.disk.wrote(len(payload))
	}
	if l.bodies == nil || inMemory || len(payload) < l.LargeBody {
		return schedule.Body{Bytes: payload, Size: len(payload)}, nil
	}
	ref, err := l.bodies.put(payload)
	if err != nil {
		return schedule.Body{}, err
	}
	return schedule.Body{Size: len(payload), Ref: ref}, nil
}

// sendStored sends a request or a result that is in a file, and does not wait for the disk.
func (l *Leader) sendStored(p *peer, e schedule.Effect) {
	f := wire.Frame{}
	if e.Op == schedule.Assign {
		f = frameOf(p, e)
	} else {
		f = resultFrame(e)
	}
	l.readers.Go(func() {
		body, err := l.bodies.get(e.Body.Ref)
		if err != nil {
			// End the connection: the request or result is then sent again.
			l.Log.Error("cannot read the stored body of a job", "job", e.Job, "err", err)
			p.Abort(fmt.Errorf("read the stored body of job %s: %w", e.Job, err))
			return
		}
		f.Payload = body
		if e.Op == schedule.Assign {
			f.Payload = assigned(p, e, f.Subject, body)
		}
		if e.Op == schedule.Result && !p.Has(wire.FeatureResultAck) {
			_ = p.SendWith(f, e.Job)
			return
		}
		_ = p.Send(f)
	})
}
