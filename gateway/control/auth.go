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

// client lets through who may submit and read jobs.
func (c *Control) client(h httpd.Handler) httpd.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if c.ClientToken == "" {
			return h(w, r)
		}
		token, err := httpd.Bearer(r)
		if err != nil {
			return err
		}
		// A bearer token is not empty, so an admin token that is not set opens nothing.
		if !httpd.SameToken(token, c.ClientToken) && !httpd.SameToken(token, c.AdminToken) {
			return errClientToken
		}
		return h(w, r)
	}
}
