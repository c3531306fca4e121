package control

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/httpd"
)

// write answers 200 with v, one of the wire types, as JSON.
func write(w http.ResponseWriter, v any) error {
	body, err := httpd.EncodeJSON(v)
	if err != nil {
		return err
	}
	httpd.WriteJSON(w, http.StatusOK, body)
	return nil
}

// writeResponse answers a worker's request.
func writeResponse(w http.ResponseWriter, answer any) error {
	switch a := answer.(type) {
	case noJob:
		if a.turnedAway {
			w.Header().Set("Retry-After", "5")
		}
		w.WriteHeader(http.StatusNoContent)
	case *wire.LeaseResponse:
		writeLease(w, a)
	case *wire.LeasesResponse:
		writeLeases(w, a)
	case json.RawMessage:
		httpd.WriteJSON(w, http.StatusOK, a)
	default:
		return write(w, a)
	}
	return nil
}

// appendLease appends a [wire.LeaseResponse]. The payload goes out as it came
// in: json.Marshal would encode its strings again.
func appendLease(b []byte, a *wire.LeaseResponse) []byte {
	// Ids are plain words, so quoting them needs no escapes.
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
	if a.Kind != "" {
		b = append(b, `,"kind":"`...)
		b = append(b, a.Kind...)
		b = append(b, `","failures":`...)
		b = strconv.AppendInt(b, int64(a.Failures), 10)
	}
	return append(b, '}')
}

// leaseBytes is what a lease takes on the wire beside its payload.
const leaseBytes = 256

func writeLease(w http.ResponseWriter, a *wire.LeaseResponse) {
	httpd.WriteJSON(w, http.StatusOK, append(appendLease(make([]byte, 0, len(a.Payload)+leaseBytes), a), '\n'))
}

// writeLeases writes a [wire.LeasesResponse].
func writeLeases(w http.ResponseWriter, a *wire.LeasesResponse) {
	size := leaseBytes
	for i := range a.Jobs {
		size += len(a.Jobs[i].Payload) + leaseBytes
	}
	b := append(make([]byte, 0, size), `{"jobs":[`...)
	for i := range a.Jobs {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendLease(b, &a.Jobs[i])
	}
	httpd.WriteJSON(w, http.StatusOK, append(b, "]}\n"...))
}

// timestamp is how moments are written on the wire.
func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
