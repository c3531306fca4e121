package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/flock"
	"github.com/batchfleet/batchfleet/safefile"
)

// outbox is the directory in which an agent keeps what it must not forget:
//
//	lock       held while a process uses the directory
//	leases/    an entry for each lease in hand, and each result or failure to deliver
//	late/      results that came after their lease was lost
//	rejected/  results that the gateway refused, with its reason
//	corrupt/   entries that could not be read
//
// Only the first two are read again. The others are for people, and are deleted
// when they are older than keepAside or too many.
type outbox struct {
	dir  string
	lock *os.File
	log  *slog.Logger

	checking sync.Mutex // one check at a time: they share a file
}

// The directories of an outbox.
const (
	leasesDir   = "leases"
	lateDir     = "late"
	rejectedDir = "rejected"
	corruptDir  = "corrupt"
)

// Bounds of what is kept aside, in each of the directories.
const (
	keepAside     = 7 * 24 * time.Hour // as long as a gateway keeps a job
	maxAside      = 1000               // files
	maxAsideBytes = 1 << 30
	maxEntries    = 10_000 // that are read at the start
)

// openOutbox locks the directory, which is made if it is missing, and reads the
// entries in it. Entries that cannot be read are set aside with a warning.
func openOutbox(ctx context.Context, dir string, log *slog.Logger) (o *outbox, entries []entry, err error) {
	if err := safefile.Dir(dir); err != nil {
		return nil, nil, fmt.Errorf("open state directory: %w", err)
	}
	lock, err := safefile.OpenOrMake(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, nil, fmt.Errorf("open state directory: %w", err)
	}
	o = &outbox{dir: dir, lock: lock, log: log}
	defer func() {
		if err != nil {
			_ = lock.Close() // nothing was written
		}
	}()
	if err := flock.Lock(lock); errors.Is(err, flock.ErrLocked) {
		return nil, nil, fmt.Errorf("open state directory %s: another worker of this machine uses it: give each worker a directory of its own", dir)
	} else if err != nil {
		return nil, nil, fmt.Errorf("lock state directory %s: %w", dir, err)
	}
	for _, sub := range []string{leasesDir, lateDir, rejectedDir, corruptDir} {
		if err := o.makeDir(sub); err != nil {
			return nil, nil, fmt.Errorf("open state directory: %w", err)
		}
	}
	if err := safefile.SyncDir(dir); err != nil {
		return nil, nil, fmt.Errorf("open state directory: %w", err)
	}
	entries, err = o.read(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("read state directory: %w", err)
	}
	return o, entries, nil
}

// makeDir makes a directory that others may not write to, and removes files that
// were never finished.
func (o *outbox) makeDir(sub string) error {
	path := filepath.Join(o.dir, sub)
	if err := safefile.Dir(path); err != nil {
		return err
	}
	files, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, f := range files {
		if strings.HasPrefix(f.Name(), safefile.TempPrefix) {
			if err := os.Remove(filepath.Join(path, f.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// read returns the entries, oldest lease first.
func (o *outbox) read(ctx context.Context) ([]entry, error) {
	dir := filepath.Join(o.dir, leasesDir)
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	if len(files) > maxEntries {
		return nil, fmt.Errorf("%s holds %d files, which is no worker's: at most %d are read", dir, len(files), maxEntries)
	}
	var entries []entry
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		text, err := safefile.Read(path, maxEntry)
		var e entry
		if err == nil {
			e, err = parseEntry(text)
		}
		if err == nil && e.file() != f.Name() {
			err = errors.New("it has another lease's name")
		}
		if err != nil {
			to := filepath.Join(o.dir, corruptDir, f.Name())
			o.log.WarnContext(ctx, "a lease of an earlier run cannot be read and is set aside", "file", path, "to", to, "err", err)
			if err := os.Rename(path, to); err != nil { // it may be a directory, and a file there
				o.log.WarnContext(ctx, "cannot set it aside, and leave it where it is", "file", path, "err", err)
			}
			continue
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Or(a.LeasedAt.Compare(b.LeasedAt), cmp.Compare(a.LeaseID, b.LeaseID)) })
	return entries, nil
}

// put writes an entry in place of what was there of its lease.
func (o *outbox) put(e entry) error {
	text, err := e.encode()
	if err != nil {
		return err
	}
	return safefile.Replace(filepath.Join(o.dir, leasesDir, e.file()), text)
}

// remove deletes an entry. One that comes back after a power cut is delivered
// again, which changes nothing.
func (o *outbox) remove(e entry) error {
	err := os.Remove(filepath.Join(o.dir, leasesDir, e.file()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// aside is the file of a result that could not be delivered.
type aside struct {
	JobID   string    `json:"job_id"`
	LeaseID string    `json:"lease_id"`
	Why     string    `json:"why"`
	At      time.Time `json:"at"`
	Report  ResultAsk `json:"report"` // as it was sent
}

// keep puts a result into late/ or rejected/ and returns where it is.
func (o *outbox) keep(dir string, e entry, ask ResultAsk, why string) (path string, err error) {
	ask.LeaseID = e.LeaseID
	text, err := encode(aside{JobID: string(e.JobID), LeaseID: e.LeaseID, Why: why, At: time.Now().UTC(), Report: ask})
	if err != nil {
		return "", err
	}
	name := string(e.JobID) + "-" + e.file()
	return filepath.Join(o.dir, dir, name), safefile.Replace(filepath.Join(o.dir, dir, name), text)
}

// sweep deletes what is kept aside for too long, and the oldest of too much.
func (o *outbox) sweep(ctx context.Context) {
	for _, sub := range []string{lateDir, rejectedDir, corruptDir} {
		dir := filepath.Join(o.dir, sub)
		files, err := newestFirst(dir)
		if err != nil {
			o.log.WarnContext(ctx, "cannot sweep state directory", "dir", dir, "err", err)
			continue
		}
		bytes := int64(0)
		for i, f := range files {
			bytes += f.Size()
			var why string
			switch {
			case time.Since(f.ModTime()) > keepAside:
				why = fmt.Sprintf("it is older than %s", keepAside)
			case i >= maxAside:
				why = fmt.Sprintf("there are more than %d", maxAside)
			case bytes > maxAsideBytes && i > 0:
				why = fmt.Sprintf("there are more than %d bytes", maxAsideBytes)
			default:
				continue
			}
			path := filepath.Join(dir, f.Name())
			if err := safefile.RemoveAll(path); err != nil {
				o.log.WarnContext(ctx, "cannot sweep state directory", "file", path, "err", err)
				continue
			}
			o.log.WarnContext(ctx, "deleted a file that was kept aside", "file", path, "why", why)
		}
	}
}

func newestFirst(dir string) ([]fs.FileInfo, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	return files, nil
}

// check reports whether the directory can be written. It is asked every few
// seconds, so it does not wait for the disk.
func (o *outbox) check() error {
	o.checking.Lock()
	defer o.checking.Unlock()
	path := filepath.Join(o.dir, leasesDir, safefile.TempPrefix+"check")
	f, err := safefile.OpenOrMake(path)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 4096)) // an empty file can be written to a full disk
	return errors.Join(err, f.Close(), os.Remove(path))
}

// close lets another process have the directory.
func (o *outbox) close() error { return o.lock.Close() }

// resultOf reads the result object of a handler.
func resultOf(text []byte) (ResultAsk, error) {
	var r struct {
		Result  json.RawMessage `json:"result"`
		Summary *string         `json:"summary_text"`
		Freqs   *string         `json:"freqs_csv"`
		Meta    json.RawMessage `json:"meta"`
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return ResultAsk{}, err
	}
	switch {
	case len(r.Result) == 0 || r.Result[0] != '{':
		return ResultAsk{}, errors.New(`"result" is no object`)
	case r.Summary == nil || r.Freqs == nil:
		return ResultAsk{}, errors.New(`"summary_text" or "freqs_csv" is missing`)
	case len(r.Meta) == 0:
		r.Meta = json.RawMessage(`{}`)
	case r.Meta[0] != '{':
		return ResultAsk{}, errors.New(`"meta" is no object`)
	}
	return ResultAsk{Result: r.Result, SummaryText: r.Summary, FreqsCSV: r.Freqs, Meta: r.Meta}, nil
}
