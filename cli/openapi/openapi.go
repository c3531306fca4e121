// Package openapi holds the description of every route that servers of this
// project answer: the gateway's protocol and the Job API, in OpenAPI 3.1.
//
// openapi.yaml is written by hand. A server answers it as JSON.
package openapi

import _ "embed"

// JSON is the description, as GET /api/v1/openapi.json answers it.
//
//go:embed openapi.json
var JSON []byte
