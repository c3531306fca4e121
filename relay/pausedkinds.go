package relay

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/safefile"
)

// pausedKinds are the kinds that a person has paused, on disk and in memory; [pauses] are those that wait by themselves. Its methods
// may be called concurrently.
type pausedKinds struct {
	path string

	mu    sync.Mutex
	kinds map[jobs.Kind]time.Time // since when
}

const (
	pausedFile    = "paused.json"
	pausedVersion = 1       // counts the incompatible changes of pausedRecord
	maxPausedFile = 1 << 20 // bytes; 1000 kinds have some 200 KiB
)

// pausedRecord is what paused.json holds.
type pausedRecord struct {
	SchemaVersion int                     `json:"schema_version"`
	Kinds         map[jobs.Kind]time.Time `json:"kinds"`
}

// openPaused reads which kinds are paused. A file that cannot be read is put aside, and nothing is paused.
func openPaused(dir string, log *slog.Logger) *pausedKinds {
	p := &pausedKinds{path: filepath.Join(dir, pausedFile), kinds: map[jobs.Kind]time.Time{}}
	text, err := safefile.Read(p.path, maxPausedFile)
	if errors.Is(err, fs.ErrNotExist) {
		return p
	}
	r := pausedRecord{}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err == nil && r.SchemaVersion != pausedVersion {
		err = fmt.Errorf("schema_version is %d, want %d", r.SchemaVersion, pausedVersion)
	}
	if err != nil {
		log.Error("which kinds are paused cannot be read: none is", "file", p.path, "err", errors.Join(err, os.Rename(p.path, p.path+".damaged")), "do", "pause them again")
		return p
	}
	for kind, since := range r.Kinds {
		if _, err := jobs.ParseID(string(kind)); err == nil && len(p.kinds) < jobapi.MaxPaused {
			p.kinds[kind] = since
		}
	}
	return p
}

func (p *pausedKinds) has(kind jobs.Kind) bool {
	_, ok := p.since(kind)
	return ok
}

// since returns since when a kind is paused, and false if it is not.
func (p *pausedKinds) since(kind jobs.Kind) (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.kinds[kind]
	return at, ok
}

// pause pauses a kind. It is on disk when it returns.
func (p *pausedKinds) pause(kind jobs.Kind) error {
	return p.change(func(kinds map[jobs.Kind]time.Time) error {
		if _, ok := kinds[kind]; ok {
			return errUnchanged
		}
		if len(kinds) >= jobapi.MaxPaused {
			return fmt.Errorf("pause kind %s: %w: at most %d; resume another one first", kind, jobapi.ErrManyPaused, jobapi.MaxPaused)
		}
		kinds[kind] = time.Now().UTC().Truncate(time.Millisecond)
		return nil
	})
}

// resume ends a pause. It is on disk when it returns.
func (p *pausedKinds) resume(kind jobs.Kind) error {
	return p.change(func(kinds map[jobs.Kind]time.Time) error {
		if _, ok := kinds[kind]; !ok {
			return errUnchanged
		}
		delete(kinds, kind)
		return nil
	})
}

func (p *pausedKinds) change(change func(map[jobs.Kind]time.Time) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	kinds := maps.Clone(p.kinds)
	if err := change(kinds); errors.Is(err, errUnchanged) {
		return nil
	} else if err != nil {
		return err
	}
	text, err := json.Marshal(pausedRecord{SchemaVersion: pausedVersion, Kinds: kinds})
	if err == nil {
		err = safefile.Replace(p.path, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("%w: write %s: %w", jobs.ErrUnavailable, pausedFile, err)
	}
	p.kinds = kinds
	return nil
}

// all returns the kinds that are paused, by name.
func (p *pausedKinds) all() (paused []jobapi.Paused) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, kind := range slices.Sorted(maps.Keys(p.kinds)) {
		paused = append(paused, jobapi.Paused{Kind: string(kind), Since: jobapi.At(p.kinds[kind])})
	}
	return paused
}
