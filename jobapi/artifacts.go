package jobapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

// Artifact is a file that a job has made.
type Artifact struct {
	Name      string `json:"name"` // unique in its job; see ValidArtifact
	MediaType string `json:"mediaType"`
	Bytes     int64  `json:"bytes"`
	SHA256    string `json:"sha256,omitempty"` // of its content, in hex, if that is known
	// Tag differs between any two contents that the artifact ever has, and matches [A-Za-z0-9-]{1,64}. It may be
	// empty: then a download that was cut off begins again.
	Tag string `json:"-"`
}

// Keeper is a Jobs whose jobs leave artifacts. Its methods may be called concurrently;
// errors are those of [Jobs], and a [Refusal] if this server cannot read artifacts.
type Keeper interface {
	Jobs
	// Artifacts returns what a job has made, by name: nothing unless it has succeeded,
	// or its scope keeps what failed jobs leave. The error wraps [fs.ErrNotExist] when there is no such job.
	Artifacts(ctx context.Context, id string) ([]Artifact, error)
	// OpenArtifact returns the content of an artifact, which the caller closes. The error
	// wraps [fs.ErrNotExist] when there is no such job or it has no such artifact. Parts of the content can be asked
	// for if it is an [io.Seeker], which is only used before it is read, with an offset within the content.
	OpenArtifact(ctx context.Context, id, name string) (io.ReadCloser, Artifact, error)
}

// ValidArtifact reports whether an artifact may have this name: a plain file name, so that
// it can be saved as it is.
var ValidArtifact = jobs.Form(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)

// artifactTypes are the media types of artifacts by the ends of their names.
var artifactTypes = map[string]string{
	".json": "application/json", ".jsonl": "application/x-ndjson", ".txt": "text/plain; charset=utf-8", ".csv": "text/csv; charset=utf-8",
}

// ArtifactOf returns what is told of an artifact with this name and size.
func ArtifactOf(name string, bytes int64) Artifact {
	a := Artifact{Name: name, MediaType: "application/octet-stream", Bytes: bytes}
	for end, media := range artifactTypes {
		if len(name) > len(end) && name[len(name)-len(end):] == end {
			a.MediaType = media
		}
	}
	return a
}

// artifacts answers with a list of what a job has made.
func (c *scope) artifacts(keeper Keeper) httpd.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, _, err := target(r)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
		defer cancel()
		list, err := keeper.Artifacts(ctx, id)
		if err != nil {
			return ofJob(err)
		}
		if list == nil {
			list = []Artifact{}
		}
		return answer(w, http.StatusOK, struct {
			Items []Artifact `json:"items"`
		}{list})
	}
}

var errNoArtifact = &Refusal{Status: http.StatusNotFound, Code: CodeNotFound, Message: "No such artifact; jobs/{jobId}/artifacts lists those there are"}

// artifactPace is how long the next part of an artifact may take to be sent.
const artifactPace = time.Minute

// artifact answers with the content of an artifact.
func (c *scope) artifact(keeper Keeper) httpd.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, _, err := target(r)
		if err != nil {
			return err
		}
		name := r.PathValue("name")
		if !ValidArtifact().MatchString(name) {
			return errNoArtifact
		}
		content, a, err := keeper.OpenArtifact(r.Context(), id, name)
		if err != nil {
			if !errors.Is(ofJob(err), errNoJob) {
				return err
			}
			return errNoArtifact
		}
		defer content.Close()
		h := w.Header()
		left, status, err := part(r, h, content, a)
		if err != nil {
			return err
		}
		h.Set("Content-Type", a.MediaType)
		h.Set("Content-Disposition", `attachment; filename="`+a.Name+`"`)
		h.Set("Content-Length", strconv.FormatInt(left, 10))
		w.WriteHeader(status)
		if r.Method == http.MethodHead {
			return nil
		}
		return c.send(w, r, id, a, content, left, status == http.StatusPartialContent)
	}
}

// send writes the content of an artifact: as many bytes as the header says. What comes after a part is left out.
func (c *scope) send(w http.ResponseWriter, r *http.Request, id string, a Artifact, content io.Reader, left int64, partial bool) error {
	control := http.NewResponseController(w)
	for buf := make([]byte, 256<<10); ; {
		n, err := content.Read(buf)
		if partial && int64(n) >= left {
			n, err = int(left), io.EOF
		}
		left -= int64(n)
		if control.SetWriteDeadline(time.Now().Add(artifactPace)) != nil {
			return fmt.Errorf("send artifact %s of job %s: the connection has no deadline", a.Name, id)
		}
		if n > 0 {
			_, err := w.Write(buf[:n])
			if errors.Is(err, http.ErrContentLength) {
				panic(http.ErrAbortHandler) // it has grown since it was looked at: the caller must not take a part for the whole
			}
			if err != nil {
				return nil //nolint:nilerr // the caller has gone and needs no answer
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			// The status is sent. A body that is shorter than it should be is what tells.
			c.server.Log.WarnContext(r.Context(), "cannot send an artifact to its end", "job", id, "artifact", a.Name, "err", err)
			panic(http.ErrAbortHandler)
		}
	}
}
