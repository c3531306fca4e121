package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/batchfleet/batchfleet/jobs"
)

// slow is why a call was given up.
type slow string

func (s slow) Error() string { return string(s) }

// failure returns why call, a context below ctx, has brought no response.
func failure(ctx, call context.Context, err error) error {
	if own, ok := errors.AsType[bodyError](err); ok {
		return own.error
	}
	if no, ok := errors.AsType[denied](err); ok {
		return no // without the address that a name has
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if why, ok := errors.AsType[slow](context.Cause(call)); ok {
		err = why
	}
	return fmt.Errorf("%w: %s", jobs.ErrUnavailable, reason(err))
}

// reason says why a call has failed, in our own words: those of net/http, crypto/x509 and DNS quote what the
// server has sent.
func reason(err error) string {
	if why, ok := errors.AsType[slow](err); ok {
		return string(why)
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return "DNS does not know its host"
		}
		return "DNS does not answer for its host"
	}
	if code, ok := errors.AsType[syscall.Errno](err); ok {
		return code.Error()
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return "it takes too long to connect or to answer"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "its certificate is not valid: " + certificate(err)
	}
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" {
		return "it refuses TLS: " + alert.Err.Error() // one of a list
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || errors.Is(err, http.ErrSchemeMismatch) {
		return "it does not speak TLS"
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it closed the connection before it had answered"
	}
	return "its answer is not HTTP, or its headers are too long"
}

func certificate(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "it is signed by an authority that is not trusted here"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "it is for another host"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return "it has expired, or is not valid yet"
	}
	return "it cannot be verified"
}

// sendable reports whether a header can be sent as it is (RFC 9110, 5.1 and 5.5).
func sendable(h http.Header) bool {
	for name, values := range h {
		if name == "" || strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c) }) {
			return false
		}
		for _, v := range values {
			if strings.ContainsFunc(v, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
				return false
			}
		}
	}
	return true
}
