package provider

import (
	"context"
	"io"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/storage"
)

var _ jobapi.Uploader = (*Fleet)(nil)

// StoreInput implements [jobapi.Uploader]. Each input has a directory of its own in the storage of the fleet, as those
// have that a command line stores.
func (f *Fleet) StoreInput(ctx context.Context, name string, r io.Reader) (string, error) {
	switch {
	case name == "" || name == "." || name == ".." || len(name) > storage.MaxSegmentLength || !utf8.ValidString(name):
		return "", &jobapi.FieldError{Field: "name", Problem: "want the name of a file, of 1 to 255 bytes"}
	case strings.ContainsAny(name, `/\`):
		return "", &jobapi.FieldError{Field: "name", Problem: "want the name of a file without its directory"}
	}
	store, err := f.store(ctx)
	if err != nil {
		return "", err
	}
	object := InputName(ulid.Make().String(), name)
	if err := store.Put(ctx, object, r); err != nil {
		return "", err
	}
	return object, nil
}

// InputName returns where the fleet keeps an input: below dir of the uploads, under the name of its file if an object
// can have that.
func InputName(dir, file string) string {
	if name := "uploads/" + dir + "/" + file; storage.ValidName(name) == nil {
		return name
	}
	if name := "uploads/" + dir + "/document" + path.Ext(file); storage.ValidName(name) == nil {
		return name
	}
	return "uploads/" + dir + "/document"
}
