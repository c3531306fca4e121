package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

// read understands an answer. It reports whether that was 204.
func read(resp *http.Response, text []byte, what call) (none bool, err error) {
	switch status := resp.StatusCode; {
	case status == http.StatusNoContent && what.empty:
		return true, nil
	case status == http.StatusOK:
		if err := isJSON(resp, text); err != nil {
			return false, err
		}
		return false, decode(text, what.answer)
	case status >= 300 && status < 400:
		return false, &Error{Status: status, Message: httpd.Redirected(resp) + ": mend the gateway's address"}
	case status >= 400:
		return false, readError(resp, text)
	default:
		return false, strange(fmt.Sprintf("its status is %d", status))
	}
}

// strange is the error for an answer that no control plane gives, which may be
// that of a proxy or may have been cut off: another try may bring a better one.
func strange(problem string) error {
	return fmt.Errorf("%w: the answer is not a gateway's: %s", jobs.ErrUnavailable, problem)
}

func isJSON(resp *http.Response, text []byte) error {
	kind := resp.Header.Get("Content-Type")
	if media, _, err := mime.ParseMediaType(kind); err != nil || media != "application/json" {
		return strange(fmt.Sprintf("status %d, content type %.100q, beginning %s", resp.StatusCode, kind, quote(text)))
	}
	return nil
}

// decode reads one JSON value. Fields it does not know are a newer gateway's.
func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(into); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			return strange(fmt.Sprintf("the JSON is cut off after %d bytes, beginning %s", len(text), quote(text)))
		}
		return strange(fmt.Sprintf("%v, beginning %s", err, quote(text)))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return strange("there is more than one JSON value, beginning " + quote(text))
	}
	return nil
}

var codePattern = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`)

// readError understands an answer from 400 on.
func readError(resp *http.Response, text []byte) error {
	e := &Error{Status: resp.StatusCode, RetryAfter: httpd.RetryAfter(resp.Header.Get("Retry-After"), time.Now())}
	var body ErrorBody
	if isJSON(resp, text) == nil && decode(text, &body) == nil && codePattern.MatchString(string(body.Error.Code)) {
		e.Code, e.Message = body.Error.Code, Clip(redact(body.Error.Message), MaxErrorMessage)
		return e
	}
	e.Message = fmt.Sprintf("the answer is not a gateway's: content type %.100q, beginning %s", resp.Header.Get("Content-Type"), quote(text))
	return e
}

// Bounds of what a control plane may answer.
const (
	maxLeaseID   = 200
	maxLeaseTTL  = 30 * 24 * 3600 // seconds
	minLeaseTTL  = 1
	maxTokenSize = 4096
)

var leasePattern = regexp.MustCompile(`^[!-~]+$`) // no spaces, nothing beyond ASCII

func (a *LeaseAnswer) check() error {
	switch {
	case validLease(a.JobID, a.LeaseID) != nil:
		return strange(validLease(a.JobID, a.LeaseID).Error())
	case !(a.LeaseTTLSeconds >= minLeaseTTL && a.LeaseTTLSeconds <= maxLeaseTTL):
		return strange(fmt.Sprintf("lease_ttl_seconds is %v, it must be from %d to %d", a.LeaseTTLSeconds, minLeaseTTL, maxLeaseTTL))
	case a.RetryCount < 0 || a.RetryCount > 1e6:
		return strange(fmt.Sprintf("retry_count is %d", a.RetryCount))
	case len(a.Payload) == 0:
		return strange("there is no payload")
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

func (a *HeartbeatAnswer) check(lease string) error {
	if a.LeaseID != lease {
		return strange("it is about another lease")
	}
	return nil
}

func (a *RegisterAnswer) check() error {
	switch {
	case a.WorkerID == "" || len(a.WorkerID) > MaxName:
		return strange("there is no worker_id, or a very long one")
	case !validToken(a.WorkerToken):
		return strange("there is no worker_token, or one that cannot be sent in a header")
	case a.TokenTTLSeconds <= 0:
		return strange("token_ttl_seconds is not above 0")
	}
	return nil
}
