package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/httpd/client"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redact"
)

// readResponse decodes a response into what the call wants. none is whether it was 204.
func readResponse(resp *http.Response, text []byte, what call) (none bool, err error) {
	switch status := resp.StatusCode; {
	case status == http.StatusNoContent && what.empty:
		return true, nil
	case status == http.StatusOK:
		if err := isJSON(resp, text); err != nil {
			return false, err
		}
		return false, decode(text, what.response)
	case status >= 300 && status < 400:
		return false, &Error{Status: status, Message: client.Redirected(resp) + ": correct the gateway's address"}
	case status >= 400:
		return false, readError(resp, text)
	default:
		return false, errBadResponse(fmt.Sprintf("status %d", status))
	}
}

// errBadResponse returns the error for a response that is not in the protocol: a proxy may
// have sent it, or it may have been cut off. The call can be repeated.
func errBadResponse(problem string) error {
	return fmt.Errorf("%w: the response is not a gateway's: %s", jobs.ErrUnavailable, problem)
}

func isJSON(resp *http.Response, text []byte) error {
	if !client.HasMedia(resp, "application/json") {
		return errBadResponse(fmt.Sprintf("status %d, content type %.100q, beginning %s", resp.StatusCode, resp.Header.Get("Content-Type"), client.Quote(text)))
	}
	return nil
}

// decode reads one JSON value. Unknown fields are those of a newer gateway.
func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(into); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			return errBadResponse(fmt.Sprintf("the JSON is cut off after %d bytes, beginning %s", len(text), client.Quote(text)))
		}
		return errBadResponse(fmt.Sprintf("%v, beginning %s", err, client.Quote(text)))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errBadResponse("more than one JSON value, beginning " + client.Quote(text))
	}
	return nil
}

// readError decodes a response with a status of 400 or more.
func readError(resp *http.Response, text []byte) error {
	e := &Error{Status: resp.StatusCode, RetryAfter: client.RetryAfter(resp)}
	var body wire.ErrorBody
	if isJSON(resp, text) == nil && decode(text, &body) == nil && jobs.ValidCode(string(body.Error.Code)) {
		e.Code, e.Message = body.Error.Code, messageOf(body.Error)
		return e
	}
	if client.WantsTLS(resp, text) {
		e.Message = "the gateway speaks TLS: write https:// instead of http://"
		return e
	}
	e.Message = fmt.Sprintf("the response is not a gateway's: content type %.100q, beginning %s", resp.Header.Get("Content-Type"), client.Quote(text))
	return e
}

func messageOf(e wire.ErrorInfo) string {
	return jobs.Clip(redact.Reason(e.Message), wire.MaxErrorMessage, "")
}

// Bounds of what a response may hold.
const (
	maxLeaseID   = 200
	maxLeaseTTL  = 30 * 24 * 3600 // seconds
	minLeaseTTL  = 1
	maxTokenSize = 4096
)

var leasePattern = regexp.MustCompile(`^[!-~]+$`) // no spaces, nothing beyond ASCII

func checkLease(a *wire.LeaseResponse) error {
	if err := validLease(a.JobID, a.LeaseID); err != nil {
		return errBadResponse(err.Error())
	}
	switch {
	case !(a.LeaseTTLSeconds >= minLeaseTTL && a.LeaseTTLSeconds <= maxLeaseTTL):
		return errBadResponse(fmt.Sprintf("lease_ttl_seconds is %v, it must be from %d to %d", a.LeaseTTLSeconds, minLeaseTTL, maxLeaseTTL))
	case a.RetryCount < 0 || a.RetryCount > 1e6:
		return errBadResponse(fmt.Sprintf("retry_count is %d", a.RetryCount))
	case len(a.Payload) == 0:
		return errBadResponse("missing payload")
	case len(a.Kind) > wire.MaxName || a.Failures < 0 || a.Failures > a.RetryCount:
		return errBadResponse("a kind or a number of failures that cannot be")
	}
	return nil
}

// validLease checks the names of a job and of a lease on it.
func validLease(job, lease string) error {
	if _, err := jobs.ParseID(job); err != nil {
		return fmt.Errorf("job_id: %w", err)
	}
	if len(lease) > maxLeaseID || !leasePattern.MatchString(lease) {
		return fmt.Errorf("lease_id is not 1 to %d printable characters of ASCII", maxLeaseID)
	}
	return nil
}

func checkRegister(a *wire.RegisterResponse) error {
	switch {
	case a.WorkerID == "" || len(a.WorkerID) > wire.MaxName:
		return errBadResponse("missing or very long worker_id")
	case !validToken(a.WorkerToken):
		return errBadResponse("missing worker_token, or one that cannot be sent in a header")
	case a.TokenTTLSeconds <= 0:
		return errBadResponse("token_ttl_seconds is not above 0")
	}
	return nil
}
