package control

import (
	"net/http"

	"github.com/batchfleet/batchfleet/httpd"
)

// admin lets only the operators through.
func (c *Control) admin(h httpd.Handler) httpd.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if c.AdminToken == "" {
			return errAdminDisabled
		}
		token, err := httpd.Bearer(r)
		if err != nil {
			return err
		}
		if !httpd.SameToken(token, c.AdminToken) {
			return errAdminToken
		}
		return h(w, r)
	}
}

// client lets through who may submit, read and cancel jobs.
func (c *Control) client(h httpd.Handler) httpd.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := c.judgeClient(r); err != nil {
			return err
		}
		return h(w, r)
	}
}

func (c *Control) judgeClient(r *http.Request) error {
	token, err := httpd.Bearer(r)
	// A bearer token is not empty, so a token that is not set opens nothing.
	good := err == nil && (httpd.SameToken(token, c.ClientToken) || httpd.SameToken(token, c.AdminToken))
	switch {
	case good:
		return nil
	case c.ClientToken != "" && err != nil:
		return err
	case c.ClientToken != "":
		return errClientToken
	case c.OpenSubmission:
		// The pages that people on this network visit are no part of it.
		return httpd.SameSite(r)
	default:
		return httpd.SameMachine(r)
	}
}
