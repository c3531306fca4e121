package relay

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

// artifact answers with a file that a task has made, or with a part of it.
func (s *server) artifact(w http.ResponseWriter, r *http.Request, id jobs.ID) error {
	t, err := s.relay.tasks.Get(id)
	if err != nil {
		return err
	}
	a, ok := t.artifact(r.PathValue("name"))
	if !ok { // as before it is uploading, when the index is empty
		return fmt.Errorf("artifact: %w", fs.ErrNotExist)
	}
	f, err := s.relay.tasks.openArtifact(id, a)
	if err != nil {
		return err
	}
	defer f.Close()
	h := w.Header()
	h.Set("Content-Type", a.ContentType)
	h.Set("ETag", `"`+a.SHA256+`"`)
	h.Set("Content-Disposition", `attachment; filename="`+a.Name+`"; filename*=UTF-8''`+a.Name) // names have only letters, digits and ._-
	if sum, err := hex.DecodeString(a.SHA256); err == nil {
		h.Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum)+":")
	}
	return httpd.ServeContent(w, r, f, a.Size)
}
