// Package storage keeps the files of the fleet: the documents that come in and
// the results that go out. A [Store] holds objects by name; [Local] keeps them
// in a directory, package gcs in a Cloud Storage bucket, and both pass the suite
// in storagetest.
//
// An object appears whole or not at all, so the presence of a result means that
// it is complete. There is no locking: the caller's claim on the job decides who may
// write which name. [Store.Walk] lists objects, one after the
// other, for housekeeping; no job needs it.
//
// Errors come in four kinds. [fs.ErrNotExist]: there is no such object.
// [fs.ErrInvalid]: the name can never name an object here. The caller's own: an
// error of the reader given to Put, or the cause of a canceled context, returned
// as it is. Everything else (disk full, no permission, network, missing bucket)
// wraps [jobs.ErrUnavailable] and may be retried later. If only this object may not
// be read or changed, the error wraps [fs.ErrPermission] too.
// A store that is read-only as a whole is only unavailable.
//
// The package imports jobs and nothing else of the project.
package storage

import (
	"context"
	"io"
	"time"
)

// Store holds objects by name. Its methods may be called concurrently, also for
// the same name. Names are checked with [ValidName].
type Store interface {
	// Open returns the object's content, which the caller closes. It is the
	// content of one moment, even when the object is replaced while it is being
	// read. Errors of its Read wrap [jobs.ErrUnavailable] too. The error of Open
	// wraps [fs.ErrNotExist] when there is no such object.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// Put stores what r yields under name, replacing any object there. Readers
	// see the old object or the new one, never a part; when Put fails nothing
	// has changed, and when it succeeds the object survives a power cut. Put
	// reads r to its end and looks at ctx between reads; it cannot interrupt a
	// Read that hangs.
	Put(ctx context.Context, name string, r io.Reader) error
	// Stat describes the object. The error wraps [fs.ErrNotExist] when there is
	// no such object.
	Stat(ctx context.Context, name string) (Info, error)
	// Delete removes the object. That it is absent is no error.
	Delete(ctx context.Context, name string) error
	// Walk calls visit for each object whose name begins with prefix, which is empty
	// or ends with a slash: for all objects below a directory. Objects of one
	// directory come one after the other, in no particular order, and are not gathered
	// first. Visit may delete this object and those before it. An object that is put or
	// deleted meanwhile may be left out; any other comes once. Links, unfinished files
	// and files with a name that [ValidName] refuses are left out. For what may not be
	// read, visit gets an err that wraps [fs.ErrPermission] and its name, which ends
	// with a slash for a directory; then the walk goes on. An error of visit ends the
	// walk and is returned as it is.
	Walk(ctx context.Context, prefix string, visit Visit) error
	// Check reports whether the store can be reached, read and written, and if
	// not, what to do about it. It is cheap enough to be asked every few seconds.
	Check(ctx context.Context) error
}

// Ranger is a [Store] that can open an object at an offset, for downloads that go on where they were cut off.
type Ranger interface {
	Store
	// OpenAt is Open without the first offset bytes of the content, of which there must be more.
	OpenAt(ctx context.Context, name string, offset int64) (io.ReadCloser, error)
}

// Visit is called with an object, or with the err for an object or a directory that
// cannot be read.
type Visit func(name string, info Info, err error) error

// Info describes an object.
type Info struct {
	Size     int64     // bytes
	Modified time.Time // when it was last put
}
