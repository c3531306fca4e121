package jobapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

// Uploader is a Jobs whose inputs can be uploaded.
type Uploader interface {
	// StoreInput stores what r yields and returns the name by which a submission has it as its input. name is a file
	// name that the caller has chosen, for people. Nothing is kept when it fails.
	StoreInput(ctx context.Context, name string, r io.Reader) (object string, err error)
}

// Stored is an input that was uploaded, as POST /api/v1/{scope}/inputs answers.
type Stored struct {
	Input  string `json:"input"` // by which a submission has it
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // 64 hexadecimal digits
}

const (
	defaultMaxInput = 1 << 30 // bytes
	// An upload must come at uploadRate bytes a second over all, and never stand still for uploadSilence.
	uploadRate    = 32 << 10
	uploadSilence = 30 * time.Second
	// uploadAnswer is what is left then to store it and to answer.
	uploadAnswer = time.Minute
)

// fileForm is what a file name may look like: without a path, and without what a terminal would obey.
var fileForm = jobs.Form(`^[^/\\\x00-\x1f\x7f]{1,128}$`)

// upload stores the body of a request as an input.
func (c *scope) upload(u Uploader) httpd.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		p, err := parameters(r, "name")
		if err != nil {
			return err
		}
		name := p["name"]
		if !fileForm().MatchString(name) || name == "." || name == ".." {
			return &FieldError{"name", "want the name of a file: 1 to 128 characters, and no path"}
		}
		for _, v := range r.Header.Values("Content-Encoding") {
			if !strings.EqualFold(v, "identity") {
				return &Refusal{Status: http.StatusUnsupportedMediaType, Code: CodeUnsupportedMedia, Message: "Content-Encoding is not supported; send the file as it is"}
			}
		}
		limit := cmp.Or(c.server.MaxInput, defaultMaxInput)
		if r.ContentLength > limit {
			return &http.MaxBytesError{Limit: limit} // before 100 Continue invites it
		}
		sum := sha256.New()
		body := &uploadBody{r: io.TeeReader(http.MaxBytesReader(w, r.Body, limit), sum), conn: http.NewResponseController(w), begun: time.Now()}
		object, err := u.StoreInput(r.Context(), name, body)
		switch {
		case body.err != nil: // what has failed is the connection, not the store
			return httpd.ReadError(body.err)
		case err != nil:
			return err
		}
		return answer(w, http.StatusCreated, Stored{object, body.n, hex.EncodeToString(sum.Sum(nil))})
	}
}

// uploadBody is the body of an upload, which must come fast enough.
type uploadBody struct {
	r     io.Reader
	conn  *http.ResponseController
	begun time.Time
	n     int64 // bytes that have come
	err   error // that ended it, other than its end
}

func (b *uploadBody) Read(p []byte) (int, error) {
	now := time.Now()
	due := b.begun.Add(uploadSilence + time.Duration(b.n/uploadRate)*time.Second)
	until := now.Add(min(uploadSilence, due.Sub(now)))
	_ = b.conn.SetReadDeadline(until) // a server that cannot do this has its own deadlines
	_ = b.conn.SetWriteDeadline(until.Add(uploadAnswer))
	n, err := b.r.Read(p)
	b.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}
