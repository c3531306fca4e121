package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"path/filepath"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/relay"
	"github.com/batchfleet/batchfleet/storage"
)

// uploadTime is how long an upload to the orchestrator of dev may take.
const uploadTime = time.Hour

// devOrchestrator takes what a relay sends, keeps it, and tells people of it.
type devOrchestrator struct {
	token string
	dir   string // for files
	out   io.Writer
}

func (o *devOrchestrator) handler(log *slog.Logger) http.Handler {
	api := &httpd.API{Log: log, WriteError: func(w http.ResponseWriter, _ *http.Request, status int, err error) {
		http.Error(w, err.Error(), status)
	}, Admit: func(r *http.Request) error {
		if !httpd.SameToken(r.Header.Get(relay.TokenHeader), o.token) {
			return &httpd.StatusError{Status: http.StatusUnauthorized, Err: errors.New("want the relay's token")}
		}
		return nil
	}}
	api.Handle("POST /api/jobs/{id}/relay-upload", o.upload)
	api.Handle("POST /api/relay/events", o.event)
	return api
}

// upload keeps the files of a task.
func (o *devOrchestrator) upload(w http.ResponseWriter, r *http.Request) error {
	id, err := jobs.ParseID(r.PathValue("id"))
	if err != nil {
		return &httpd.StatusError{Status: http.StatusBadRequest, Err: err}
	}
	task, err := jobs.ParseID(r.Header.Get("Idempotency-Key"))
	if err != nil {
		return &httpd.StatusError{Status: http.StatusBadRequest, Err: err}
	}
	parts, err := r.MultipartReader()
	if err != nil {
		return &httpd.StatusError{Status: http.StatusUnsupportedMediaType, Err: err}
	}
	store, err := storage.NewLocal(o.dir)
	if err != nil {
		return err
	}
	defer store.Close()
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
		if err != nil {
			return &httpd.StatusError{Status: http.StatusBadRequest, Err: err}
		}
		name := part.FileName()
		if part.FormName() != "file" || !jobapi.ValidArtifact().MatchString(name) {
			continue // the metadata
		}
		object := path.Join(string(id), string(task), name)
		if err := store.Put(r.Context(), object, part); err != nil {
			return err
		}
		fmt.Fprintf(o.out, "%s  %s: received %s\n", time.Now().Format(time.TimeOnly), id, filepath.Join(o.dir, filepath.FromSlash(object)))
	}
}

// event tells of an event.
func (o *devOrchestrator) event(w http.ResponseWriter, r *http.Request) error {
	var e struct {
		Event    string  `json:"event"`
		JobID    string  `json:"job_id"`
		TaskID   string  `json:"task_id"`
		Progress float64 `json:"progress"`
		Error    *struct {
			Code, Message string
		} `json:"error"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&e); err != nil {
		return &httpd.StatusError{Status: http.StatusBadRequest, Err: err}
	}
	text := fmt.Sprintf("%s  %s: %s", time.Now().Format(time.TimeOnly), oneLine(e.JobID), oneLine(e.Event))
	if e.Error != nil {
		text += fmt.Sprintf(": %s: %s", oneLine(e.Error.Code), oneLine(e.Error.Message))
	}
	fmt.Fprintf(o.out, "%s (%s, %.0f %%)\n", text, oneLine(e.TaskID), 100*e.Progress)
	w.WriteHeader(http.StatusNoContent)
	return nil
}
