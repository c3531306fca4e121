package control

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/batchfleet/batchfleet/gateway"
)

// write answers 200 with v, one of the wire types, as JSON.
func write(w http.ResponseWriter, v any) error {
	body, err := encode(v)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}

// encode returns v as JSON and a newline, for terminals. What HTML would take for
// its own is left as it is: people read <token> better than its escapes.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// writeJSON answers with body, which ends with a newline.
func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a caller that has gone needs no answer
}

// writeLease writes a [gateway.LeaseAnswer]. The payload goes out as it came
// in: json.Marshal would write its strings anew.
func writeLease(w http.ResponseWriter, a *gateway.LeaseAnswer) {
	// Ids are plain words, so quoting them needs no escapes.
	b := make([]byte, 0, len(a.Payload)+256)
	b = append(b, `{"job_id":"`...)
	b = append(b, a.JobID...)
	b = append(b, `","payload":`...)
	b = append(b, a.Payload...)
	b = append(b, `,"lease_id":"`...)
	b = append(b, a.LeaseID...)
	b = append(b, `","lease_ttl_seconds":`...)
	b = strconv.AppendFloat(b, a.LeaseTTLSeconds, 'f', -1, 64)
	b = append(b, `,"retry_count":`...)
	b = strconv.AppendInt(b, int64(a.RetryCount), 10)
	b = append(b, '}', '\n')
	writeJSON(w, http.StatusOK, b)
}

// timestamp is how moments are written on the wire.
func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
