package httpd

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// values counts the keys and values of something decoded.
func values(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			n += 1 + values(e)
		}
	case []any:
		for _, e := range v {
			n += values(e)
		}
	}
	return n
}

func FuzzCounter(f *testing.F) {
	for _, text := range []string{
		`{}`, `[]`, `[[],{}]`, `"a,b:[{\"}"`, ` { "a\\" : [ 1 , -2.5e+3 , true ] , "\"" : null } `, `[1,"1",1]`, `[[[1]],{"":{}}]`, `0`, `"\\"`,
	} {
		f.Add(text, 1)
	}
	f.Fuzz(func(t *testing.T, text string, split int) {
		if _, err := CanonicalJSON([]byte(text)); err != nil {
			return // of what is not JSON, or has a key twice, nothing is promised
		}
		var v any
		if json.Unmarshal([]byte(text), &v) != nil {
			return
		}
		split = min(max(split, 0), len(text))
		var c counter
		c.add([]byte(text[:split]))
		if c.add([]byte(text[split:])); c.n != values(v) {
			t.Errorf("counted %d keys and values in %s, want %d", c.n, text, values(v))
		}
	})
}

// endless is a body that goes on after what is in front of it, and counts what was
// read.
type endless struct {
	front string
	more  string
	read  int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.front == "" {
		e.front = e.more
	}
	n := copy(p, e.front)
	e.front = e.front[n:]
	e.read += n
	return n, nil
}

func TestTooManyValuesAreRefusedBeforeTheBodyIsRead(t *testing.T) {
	for name, body := range map[string]*endless{
		"keys":            {front: `{"result":{`, more: `"k":1,`},
		"numbers":         {front: `[`, more: `1,`},
		"nested":          {front: `[`, more: `[],`},
		"no JSON at all":  {front: `nonsense`, more: `nonsense 1 `},
		"in a long space": {front: `[`, more: `1, ,`},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", io.NopCloser(body))
			r.Header.Set("Content-Type", "application/json")
			var dst json.RawMessage
			err := ReadJSON(httptest.NewRecorder(), r, 32<<20, &dst, BodyOptions{})
			status, ok := errors.AsType[*StatusError](err)
			if !ok || status.Status != http.StatusRequestEntityTooLarge || status.Error() != "body with more than 100000 keys and values" {
				t.Errorf("error %v, want 413 that names the limit", err)
			}
			if body.read > 4<<20 {
				t.Errorf("%d bytes were read before it was refused", body.read)
			}
		})
	}
}

func TestAsManyValuesAsMayBeAreTaken(t *testing.T) {
	body := "[" + strings.Repeat("1,", maxValues-2) + "1]"
	for text, fits := range map[string]bool{body: true, "[" + body + "]": false} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(text))
		r.Header.Set("Content-Type", "application/json")
		var dst json.RawMessage
		if err := ReadJSON(httptest.NewRecorder(), r, 32<<20, &dst, BodyOptions{}); (err == nil) != fits {
			t.Errorf("read: %v, want it taken: %t", err, fits)
		}
		if _, err := CanonicalJSON([]byte(text)); (err == nil) != fits {
			t.Errorf("canonical form: %v, want it taken: %t", err, fits)
		}
	}
}
