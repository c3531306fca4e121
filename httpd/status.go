package httpd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// StatusError is an error with an HTTP status. Header, which may be nil, is sent with
// it. Err may be shown to the caller.
type StatusError struct {
	Status int
	Header http.Header
	Err    error
}

// Error returns the text of Err.
func (e *StatusError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *StatusError) Unwrap() error { return e.Err }

func closing(status int, err error) *StatusError {
	return &StatusError{status, http.Header{"Connection": {"close"}}, err}
}

// known returns the [StatusError] for err; errors of unknown kind are 500, with their
// own text.
func known(r *http.Request, err error) *StatusError {
	if status, ok := errors.AsType[*StatusError](err); ok {
		return status
	}
	if body, ok := errors.AsType[*BodyError](err); ok {
		return &StatusError{Status: http.StatusBadRequest, Err: body}
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		// Without closing, net/http would read the rest of the body first.
		return closing(http.StatusRequestEntityTooLarge, fmt.Errorf("body larger than %d bytes", tooLarge.Limit))
	}
	if errors.Is(err, context.Canceled) && errors.Is(context.Cause(r.Context()), errStopped) {
		return closing(http.StatusServiceUnavailable, errStopped)
	}
	return &StatusError{Status: http.StatusInternalServerError, Err: err}
}
