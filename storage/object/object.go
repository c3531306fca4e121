// Package object has what a storage.Store says of the objects it holds, for whoever
// is not to import the stores themselves: what talks to Cloud Storage takes long to
// start.
package object

import "time"

// Visit is told of an object, or by err why one or a directory of them cannot be
// shown.
type Visit func(name string, info Info, err error) error

// Info describes an object.
type Info struct {
	Size     int64     // bytes
	Modified time.Time // when it was last put
}
