// Package flock keeps two processes from using one directory: each locks the same
// file in it. The system gives a lock back when the process ends, however it ends.
package flock

import "errors"

// ErrLocked says that the file is locked, by another process or through another
// open file of this one.
var ErrLocked = errors.New("locked by another process")
