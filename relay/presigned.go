package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/batchfleet/batchfleet/httpd/egress"
	"github.com/batchfleet/batchfleet/outbox"
)

// place is where the orchestrator wants an artifact to be put. Its URL is a secret: it is in no error, log or file.
type place struct {
	Name    string            `json:"name"`
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
}

// maxPlaces bounds the answer with the places of a task's artifacts, in bytes.
const maxPlaces = 4 << 20

// sendPresigned asks for a place for each artifact, puts them there, and says that all are there. What was put before
// a break is put once more, at the place that the orchestrator names then.
func (u *uploads) sendPresigned(ctx context.Context, t *Task) error {
	asked, err := u.tell(ctx, t, "begin", maxPlaces)
	if err != nil || asked.Status == http.StatusConflict { // it has them already
		return err
	}
	var answer struct {
		Uploads []place `json:"uploads"`
	}
	if err := json.Unmarshal(asked.Body, &answer); err != nil { // the text of err may show a URL
		return fmt.Errorf(`the orchestrator has answered with something else than {"uploads":[{"name","url"}, …]} of at most %d bytes`, maxPlaces)
	}
	places := map[string]place{}
	for _, p := range answer.Uploads {
		places[p.Name] = p
	}
	if len(answer.Uploads) != len(t.Artifacts) || len(places) != len(t.Artifacts) {
		return fmt.Errorf("the orchestrator has named %d places for %d artifacts: want one for each", len(answer.Uploads), len(t.Artifacts))
	}
	for _, a := range t.Artifacts {
		p, ok := places[a.Name]
		if !ok {
			return fmt.Errorf("the orchestrator has named no place for artifact %s", a.Name)
		}
		if err := u.put(ctx, t, a, p); err != nil {
			return err
		}
	}
	_, err = u.tell(ctx, t, "complete", 0)
	return err
}

// tell sends the manifest of a task.
func (u *uploads) tell(ctx context.Context, t *Task, phase string, limit int64) (egress.Response, error) {
	about, err := t.manifest(phase)
	if err != nil {
		return egress.Response{}, err
	}
	return u.post(ctx, t, egress.Bytes("application/json", about), limit)
}

// put sends one artifact to its place.
func (u *uploads) put(ctx context.Context, t *Task, a Artifact, p place) error {
	if p.Method == "" {
		p.Method = http.MethodPut
	}
	if p.Method != http.MethodPut && p.Method != http.MethodPost {
		return fmt.Errorf("the place of artifact %s has a method that is neither PUT nor POST", a.Name)
	}
	header := http.Header{"Content-Type": {a.ContentType}}
	for name, value := range p.Headers {
		header.Set(name, value)
	}
	askFirst(header, a.Size)
	resp, err := u.storage.Do(ctx, &egress.Request{
		Method: p.Method, URL: p.URL, Header: header, Body: u.content(t.ID, a).Open, Length: a.Size, Timeout: uploadTimeout, Stall: u.stall,
	})
	who := "the store of artifact " + a.Name
	switch resp.Status {
	// S3 says 403 and Cloud Storage 400 when a signature has expired, and 409 when others write there: the next
	// attempt gets another place.
	case http.StatusBadRequest, http.StatusForbidden, http.StatusConflict:
		return &outbox.RetryError{Err: errors.New(who + " has answered " + statusText(resp.Status)), After: resp.RetryAfter}
	}
	return decided(who, resp, err)
}
