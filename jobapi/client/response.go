package client

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	httpclient "github.com/batchfleet/batchfleet/httpd/client"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redact"
)

// check returns the error of a response: a [jobapi.Refusal], or that it is no response
// to this request.
func (r *request) check(resp *http.Response, text []byte) error {
	switch status := resp.StatusCode; {
	case status == http.StatusNotFound && r.elsewhere != "" && !httpclient.HasMedia(resp, asJSON):
		return fmt.Errorf("%w%w", &jobapi.Refusal{Status: status, Code: jobapi.CodeNotFound, Message: "the server has no such route: it is no gateway"}, silent{ErrNoGateway})
	case status >= 400:
		return refusalOf(resp, text)
	case status >= 300:
		return errBadResponse(httpclient.Redirected(resp) + ": correct the server's address")
	case status == http.StatusNoContent && (r.media == eventStream || r.elsewhere != ""):
		return nil
	case status < 200 || r.status != 0 && status != r.status:
		return errBadResponse(fmt.Sprintf("its status is %d", status))
	}
	return r.checkMedia(resp, text)
}

func (r *request) checkMedia(resp *http.Response, text []byte) error {
	if !httpclient.HasMedia(resp, cmp.Or(r.media, asJSON)) {
		return errUnexpected(resp, text)
	}
	return nil
}

// errUnexpected is [errBadResponse] for a response of another form.
func errUnexpected(resp *http.Response, text []byte) error {
	return errBadResponse(fmt.Sprintf("status %d, content type %.100q, beginning %s", resp.StatusCode, redact.Text(resp.Header.Get("Content-Type")), httpclient.Quote(text)))
}

// ErrNoGateway is wrapped by the refusal of a server that has none of a gateway's routes.
var ErrNoGateway = errors.New("no gateway")

// errBadResponse is the error for a response that no server of this API sends: it may
// come from a proxy, or be incomplete.
func errBadResponse(problem string) error {
	return fmt.Errorf("%w: the answer is not the Job API's: %s", jobs.ErrUnavailable, problem)
}

// errNoRefusal is errUnexpected for a response from 400 on.
func errNoRefusal(resp *http.Response, text []byte) error {
	if httpclient.WantsTLS(resp, text) {
		return fmt.Errorf("%w: the server speaks TLS: write https:// instead of http://%w", jobs.ErrUnavailable, silent{errFinal})
	}
	err := errUnexpected(resp, text)
	switch status := resp.StatusCode; {
	case status >= 500, status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests:
		return err
	}
	return fmt.Errorf("%w%w", err, silent{errFinal})
}

// silent is an error that is part of another, and not of its text.
type silent struct{ error }

func (silent) Error() string   { return "" }
func (s silent) Unwrap() error { return s.error }

// maxMessage is how many bytes of a refusal's message are kept.
const maxMessage = 1000

// codeAdminDisabled is what a gateway without an admin token answers, with status 503. It stays so
// until the gateway is started again, so that a retry is of no use.
const codeAdminDisabled = "ADMIN_DISABLED"

// refusalOf returns the error of a response from 400 on. If a retry may succeed, it
// wraps [jobs.ErrUnavailable], too.
func refusalOf(resp *http.Response, text []byte) error {
	var body struct {
		Error struct {
			Code    string         `json:"code"`
			Message string         `json:"message"`
			Details map[string]any `json:"details"`
		} `json:"error"`
	}
	if !httpclient.HasMedia(resp, asJSON) || json.Unmarshal(text, &body) != nil || !jobs.ValidCode(body.Error.Code) {
		return errNoRefusal(resp, text)
	}
	e := &jobapi.Refusal{
		Status: resp.StatusCode, Code: body.Error.Code, Message: jobs.Clip(jobs.VisibleLine(redact.Text(body.Error.Message)), maxMessage, ""), Details: body.Error.Details,
		RetryAfter: httpclient.RetryAfter(resp),
	}
	if e.Code == codeAdminDisabled {
		return e
	}
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return fmt.Errorf("%w: %w", jobs.ErrUnavailable, e)
	}
	return e
}
