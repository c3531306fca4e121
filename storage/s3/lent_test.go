package s3

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// early is a transport that answers before it has read the body, and reads on.
type early struct {
	status int
	body   io.ReadCloser
}

func (e *early) RoundTrip(r *http.Request) (*http.Response, error) {
	e.body = r.Body
	var first [3]byte
	if _, err := io.ReadFull(r.Body, first[:]); err != nil {
		return nil, err
	}
	if e.status == 0 {
		return nil, errors.New("the connection broke")
	}
	return &http.Response{StatusCode: e.status, Body: io.NopCloser(strings.NewReader("not now"))}, nil
}

func TestF47S3NothingOfABodyIsReadAfterTheAnswer(t *testing.T) {
	for _, status := range []int{0, http.StatusOK, http.StatusServiceUnavailable} {
		content := strings.NewReader("content")
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://127.0.0.1/", io.NopCloser(content))
		if err != nil {
			t.Fatal(err)
		}
		transport := &early{status: status}
		resp, err := lending{transport}.RoundTrip(r)
		if (err != nil) != (status == 0) {
			t.Fatal(err)
		}
		if err == nil {
			text, _ := io.ReadAll(resp.Body)
			if err := resp.Body.Close(); err != nil || string(text) != "not now" {
				t.Errorf("the answer is %q, %v", text, err)
			}
		}
		if text, err := io.ReadAll(transport.body); len(text) > 0 || err == nil {
			t.Errorf("after %d the transport reads %q, %v", status, text, err)
		}
		if content.Len() != 4 {
			t.Errorf("after %d there are %d bytes left, want 4", status, content.Len())
		}
	}
}
