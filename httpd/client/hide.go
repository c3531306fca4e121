package client

import (
	"strings"

	"github.com/batchfleet/batchfleet/redact"
)

// Hide returns err, without these secrets and others in its text.
func Hide(err error, secrets ...string) error {
	text := err.Error()
	clean := text
	for _, s := range secrets {
		if s != "" {
			clean = strings.ReplaceAll(clean, s, redact.Mark)
		}
	}
	if clean = redact.Reason(clean); clean == text {
		return err
	}
	return &hidden{text: clean, err: err}
}

// hidden is an error whose own text must not be shown.
type hidden struct {
	text string
	err  error
}

func (h *hidden) Error() string { return h.text }
func (h *hidden) Unwrap() error { return h.err }
