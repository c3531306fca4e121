// Package httpd holds what the HTTP interfaces of the fleet share: a [Server]
// that shuts down gracefully, an [API] of handlers that return errors, strict JSON bodies,
// bearer tokens and request ids.
//
// It has no wire contract of its own. Each API has its own error body and codes,
// which [API.WriteError] writes. That function answers every error, also of unknown
// routes and of panics:
//
//	api := &httpd.API{Log: log, WriteError: writeError}
//	api.Handle("POST /things/{id}", s.create)
//	err := (&httpd.Server{Handler: api, Log: log}).Serve(ctx, listener)
//
// Handlers read with [Bearer] and [ReadJSON], and return what those return.
//
// Some refusals come from net/http before there is a request to route: a
// header that is malformed, too large or too late, a body of unknown coding, an
// HTTP version that does not exist. These have a plain text body, or none, and
// end the connection.
//
// A token, a query, a header and a body are never logged here. An error's text
// is logged when the response is 5xx, so errors must not carry them either; note
// that a [net/url.Error] carries a query.
package httpd
