package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// orchestrator is one that records what a relay sends it.
type orchestrator struct {
	*httptest.Server
	unruly atomic.Bool // it is slow, fails, and cuts connections before and after it has recorded

	mu      sync.Mutex
	uploads map[string][]uploaded     // by task
	events  map[string][]toldEvent    // by task
	wrong   []error                   // what no relay should send
	keys    map[string]map[string]int // Idempotency-Keys of uploads, by task
}

// uploaded are the SHA-256 of the files of an upload, by name.
type uploaded map[string]string

// toldEvent is an event that a callback was told.
type toldEvent struct {
	Event    string `json:"event"`
	ID       string `json:"event_id"`
	Sequence int    `json:"sequence"`
	TaskID   string `json:"task_id"`
	Status   string `json:"status"`
}

func newOrchestrator(t *testing.T) *orchestrator {
	t.Helper()
	o := &orchestrator{uploads: map[string][]uploaded{}, events: map[string][]toldEvent{}, keys: map[string]map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/jobs/{job}/relay-upload", o.handler(o.upload))
	mux.HandleFunc("POST /events", o.handler(o.event))
	o.Server = httptest.NewServer(mux)
	t.Cleanup(o.Close)
	return o
}

// handler records a request, with the misfortunes of an unruly orchestrator.
func (o *orchestrator) handler(record func(*http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		roll := 100
		if o.unruly.Load() {
			roll = rand.IntN(20)
		}
		switch roll {
		case 1, 2:
			w.WriteHeader(http.StatusInternalServerError)
			return
		case 3:
			panic(http.ErrAbortHandler)
		}
		if err := record(r); err != nil {
			if r.Context().Err() == nil && !errors.Is(err, io.ErrUnexpectedEOF) { // or the relay has died
				o.mu.Lock()
				o.wrong = append(o.wrong, err)
				o.mu.Unlock()
			}
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		switch roll {
		case 0:
			<-time.After(100 * time.Millisecond)
		case 4:
			panic(http.ErrAbortHandler) // it has taken it, and the relay does not hear of it
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

func (o *orchestrator) upload(r *http.Request) error {
	parts, err := r.MultipartReader()
	if err != nil {
		return err
	}
	var about struct {
		TaskID    string `json:"task_id"`
		JobID     string `json:"job_id"`
		Artifacts []struct{ Name, SHA256 string }
	}
	first, err := parts.NextPart()
	if err == nil {
		err = json.NewDecoder(first).Decode(&about)
	}
	if err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	files := uploaded{}
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = files.add(part)
		}
		if err != nil {
			return fmt.Errorf("file: %w", err)
		}
	}
	for _, a := range about.Artifacts {
		if files[a.Name] != a.SHA256 {
			return fmt.Errorf("task %s: file %s has SHA-256 %q, and the metadata say %q", about.TaskID, a.Name, files[a.Name], a.SHA256)
		}
	}
	if about.JobID != r.PathValue("job") || len(files) != len(about.Artifacts) {
		return fmt.Errorf("task %s: job %s at the address of %s, %d files of %d", about.TaskID, about.JobID, r.PathValue("job"), len(files), len(about.Artifacts))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.uploads[about.TaskID] = append(o.uploads[about.TaskID], files)
	if o.keys[about.TaskID] == nil {
		o.keys[about.TaskID] = map[string]int{}
	}
	o.keys[about.TaskID][r.Header.Get("Idempotency-Key")]++
	return nil
}

func (u uploaded) add(part *multipart.Part) error {
	h := sha256.New()
	if _, err := io.Copy(h, part); err != nil {
		return err
	}
	u[part.FileName()] = hex.EncodeToString(h.Sum(nil))
	return nil
}

func (o *orchestrator) event(r *http.Request) error {
	var e toldEvent
	if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
		return fmt.Errorf("event: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events[e.TaskID] = append(o.events[e.TaskID], e)
	return nil
}

// checkEvents returns what is wrong with the events of a task that has ended with that status.
func (o *orchestrator) checkEvents(id, status string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var wrong []error
	last, seen := toldEvent{}, map[int]toldEvent{}
	for _, e := range o.events[id] {
		if e.ID != fmt.Sprintf("%s.%d", id, e.Sequence) || e.Event != e.Status {
			wrong = append(wrong, fmt.Errorf("%+v has another id or status", e))
		}
		// Told again, an event may come late: from a relay that is dead by now.
		if again, ok := seen[e.Sequence]; ok {
			if again != e {
				wrong = append(wrong, fmt.Errorf("%+v was %+v before", e, again))
			}
			continue
		}
		if seen[e.Sequence] = e; e.Sequence < last.Sequence {
			wrong = append(wrong, fmt.Errorf("%+v came after %+v", e, last))
		}
		last = e
	}
	if last.Event != status {
		wrong = append(wrong, fmt.Errorf("the last event is %q, want %q", last.Event, status))
	}
	return errors.Join(wrong...)
}

// told reports whether a task's end was told.
func (o *orchestrator) told(id, status string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.events[id], func(e toldEvent) bool { return e.Event == status })
}

// sum is the SHA-256 of a text, in hex.
func sum(text string) string {
	h := sha256.Sum256([]byte(text))
	return strings.ToLower(hex.EncodeToString(h[:]))
}
