package httpd

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// EncodeJSON returns v as JSON and a newline, for terminals. Characters special to
// HTML are not escaped: people read <token> better.
func EncodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// WriteJSON answers with body, which is JSON.
func WriteJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a caller that left needs no response
}

// Sentence returns an error's text, beginning with a capital letter.
func Sentence(err error) string {
	s := err.Error()
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
