// Package openapi holds the description of every route that servers of this
// project answer: the gateway's protocol and the Job API, in OpenAPI 3.1.
//
// openapi.yaml is written by hand. A server answers it as JSON, which the program holds compressed.
package openapi

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"sync"
)

//go:embed openapi.json.gz
var packed []byte

// JSON returns the description, as GET /api/v1/openapi.json answers it. It is not to be changed.
var JSON = sync.OnceValue(func() []byte { return unpacked(packed) })

// unpacked returns a part of the program as it was before it was compressed.
func unpacked(packed []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err == nil {
		var text []byte
		if text, err = io.ReadAll(r); err == nil {
			return text
		}
	}
	panic(fmt.Sprintf("a part of the program is damaged: %v", err))
}
