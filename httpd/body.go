package httpd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"reflect"
	"strings"
)

// presize bounds what is allocated for a body before any of it has come.
const presize = 64 << 10

// BodyOptions loosen [ReadJSON].
type BodyOptions struct {
	AllowEmpty    bool // no body at all leaves dst as it is
	IgnoreUnknown bool // fields that dst does not have are skipped

	// Clean, when set, removes from a field's name what an error must not repeat. It
	// is called before the name is shortened.
	Clean func(name string) string
}

// ReadJSON reads the request's body, one JSON value of at most limit bytes,
// into dst, a pointer as for [json.Unmarshal]. It is stricter than that: UTF-8
// only, no key twice in an object, at most 64 levels and 100 000 keys and values,
// field names by case, no fields that dst does not have, and a struct field with the tag
// required:"true" must be there and not be null. An optional field that is null
// counts as left out. What a [json.RawMessage] holds is checked in the same
// way but for names, and kept as it came.
//
// The error is a [BodyError], an [http.MaxBytesError] when the body is too
// large, or a [StatusError] when it has too many keys and values (413), is not
// JSON by its header (415) or does not arrive in time (408). After an error dst may be filled in part.
func ReadJSON(w http.ResponseWriter, r *http.Request, limit int64, dst any, o BodyOptions) error {
	raw, err := readBody(w, r, limit)
	if err != nil {
		return err
	}
	if len(raw) > 0 {
		return parse(raw, dst, o)
	}
	if o.AllowEmpty {
		return nil
	}
	return &BodyError{Problem: "it is empty; send JSON"}
}

func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength == 0 {
		return nil, nil // an empty body is of no type
	}
	types := r.Header.Values("Content-Type")
	if (len(types) > 0 || r.ContentLength > 0) && !isJSON(types) {
		return nil, unsupported("Accept", "application/json", "Content-Type must be application/json")
	}
	for _, v := range r.Header.Values("Content-Encoding") {
		if !strings.EqualFold(v, "identity") {
			return nil, unsupported("Accept-Encoding", "identity", "Content-Encoding is not supported; send the body as it is")
		}
	}
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit} // before 100 Continue invites it
	}
	raw, err := readAll(&countedReader{r: http.MaxBytesReader(w, r.Body, limit)}, r.ContentLength)
	if err != nil {
		return nil, ReadError(err)
	}
	if len(raw) > 0 && len(types) == 0 {
		return nil, unsupported("Accept", "application/json", "Content-Type must be application/json")
	}
	return raw, nil
}

// readAll reads all of r. announced is its length, or -1 if unknown. Once presize
// bytes have come it allocates the announced length at once: growing in steps would
// take twice the memory.
func readAll(r io.Reader, announced int64) ([]byte, error) {
	raw := make([]byte, 0, min(max(announced, 0), presize)+bytes.MinRead)
	for {
		n, err := r.Read(raw[len(raw):cap(raw)])
		raw = raw[:len(raw)+n]
		if err == io.EOF {
			return raw, nil
		}
		if err != nil {
			return nil, err
		}
		if len(raw) == cap(raw) {
			room := max(2*cap(raw), int(announced)+bytes.MinRead)
			raw = append(make([]byte, 0, room), raw...)
		}
	}
}

func isJSON(types []string) bool {
	if len(types) != 1 {
		return false
	}
	if types[0] == "application/json" {
		return true
	}
	kind, params, err := mime.ParseMediaType(types[0])
	if err != nil || kind != "application/json" {
		return false
	}
	charset, has := params["charset"]
	return len(params) == 0 || len(params) == 1 && has && strings.EqualFold(charset, "utf-8")
}

func unsupported(header, value, text string) error {
	return &StatusError{http.StatusUnsupportedMediaType, http.Header{header: {value}}, errors.New(text)}
}

// ReadError returns the error for a body that could not be read to its end. The
// connection cannot be used for another request.
func ReadError(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok || errors.Is(err, errValues) {
		return err
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return closing(http.StatusRequestTimeout, errors.New("the body did not arrive in time"))
	}
	problem := "it is not framed as HTTP asks"
	if errors.Is(err, io.ErrUnexpectedEOF) {
		problem = "it ended before its announced length"
	}
	return closing(http.StatusBadRequest, &BodyError{Problem: problem})
}

// parse decodes raw into dst, changing raw.
func parse(raw []byte, dst any, o BodyOptions) error {
	s := scanner{data: raw, ignoreUnknown: o.IgnoreUnknown, clean: o.Clean}
	if err := s.document(shapeOf(reflect.TypeOf(dst))); err != nil {
		return err
	}
	s.blank()
	err := json.Unmarshal(raw, dst)
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return &BodyError{Field: promoted(reflect.TypeOf(dst), e.Field), Problem: fmt.Sprintf("want %s, got %s", wanted(e.Type), clip(e.Value))}
	}
	if _, ok := errors.AsType[*json.InvalidUnmarshalError](err); ok {
		return err // a bug here, not a mistake of the caller
	}
	return &BodyError{Problem: clip(err.Error())}
}
