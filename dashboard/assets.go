package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"strconv"
	"sync"

	"github.com/batchfleet/batchfleet/httpd"
)

//go:embed assets
var assetFiles embed.FS

// assetSet are the files that pages load. They change with the program alone: the path has a hash of all of them, so modules can import
// each other by plain names, and browsers keep them for good.
type assetSet struct {
	path  string // such as /assets/0123456789abcdef
	hash  string
	files map[string][]byte
}

var assets = sync.OnceValue(func() *assetSet {
	set := &assetSet{files: map[string][]byte{}}
	all, err := assetFiles.ReadDir("assets")
	if err != nil {
		panic(err) // they are in the program
	}
	sum := sha256.New()
	for _, f := range all {
		text, err := assetFiles.ReadFile("assets/" + f.Name())
		if err != nil {
			panic(err)
		}
		set.files[f.Name()] = text
		_, _ = sum.Write(append([]byte(f.Name()+"\x00"), text...))
	}
	set.hash = hex.EncodeToString(sum.Sum(nil))[:16]
	set.path = "/assets/" + set.hash
	return set
})

var assetTypes = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

var errNoAsset = &httpd.StatusError{Status: http.StatusNotFound, Err: httpd.ErrNoRoute}

func serveAsset(w http.ResponseWriter, r *http.Request) error {
	if r.PathValue("hash") != assets().hash {
		return errNoAsset // of another version of the program
	}
	h := w.Header()
	tag := `"` + assets().hash + `"`
	h.Set("ETag", tag)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return writeAsset(w, r.PathValue("name"))
}

func writeAsset(w http.ResponseWriter, name string) error {
	text, ok := assets().files[name]
	if !ok {
		return errNoAsset
	}
	h := w.Header()
	secure(h)
	h.Set("Content-Type", assetTypes[path.Ext(name)])
	h.Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write(text)
	return nil
}
