package dashboard

import (
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/batchfleet/batchfleet/jobapi/access"
)

// maxInline is the largest artifact that is shown in a page, in bytes.
const maxInline = 4 << 20

// inlineTypes are the media types that are shown, and as what: those that run nothing. Text of any kind is plain text.
var inlineTypes = map[string]string{
	"text/plain": plainText, "text/csv": plainText, "application/json": plainText, "application/x-ndjson": plainText, "text/markdown": plainText,
	"image/png": "image/png", "image/jpeg": "image/jpeg", "image/gif": "image/gif", "image/webp": "image/webp",
}

const plainText = "text/plain; charset=utf-8"

// endTypes are those of artifacts without a media type that says more, by the ends of their names.
var endTypes = map[string]string{
	".txt": "text/plain", ".log": "text/plain", ".md": "text/markdown", ".csv": "text/csv", ".json": "application/json", ".jsonl": "application/x-ndjson",
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
}

// inlineType returns as what an artifact is shown; empty if it is not.
func inlineType(mediaType, name string) string {
	kind, _, err := mime.ParseMediaType(mediaType)
	if err != nil || kind == "application/octet-stream" {
		kind = endTypes[strings.ToLower(path.Ext(name))]
	}
	return inlineTypes[kind]
}

// mayRead reports whether the visitor may read what jobs have made.
func (v *visit) mayRead() bool {
	has, err := access.ParseScope(v.Who.Scope)
	return err == nil && has >= access.Operate
}

// inline answers with an artifact to be shown in a page: in a sandbox without scripts, and never as anything but text or an image.
func inline(v *visit) error {
	name := v.r.PathValue("name")
	r := v.request(v.r.Context(), http.MethodGet, pathOf(v.r.PathValue("scope"), "jobs", v.r.PathValue("id"), "artifacts", name), nil, nil)
	answer, err := v.do(r)
	if err != nil {
		return err
	}
	if answer.status != http.StatusOK {
		return answer.refusal(r)
	}
	kind := inlineType(answer.header.Get("Content-Type"), name)
	if kind == "" || answer.body.Len() > maxInline {
		return errNoAsset
	}
	h := v.w.Header()
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'; img-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'self'")
	h.Set("X-Frame-Options", "SAMEORIGIN")
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", "inline")
	_, _ = v.w.Write(answer.body.Bytes())
	return nil
}
