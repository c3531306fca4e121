//go:build !unix

package zpe

import "os"

// hold closes f: there are no locks, and a directory with an open file may not be
// renamed.
func hold(f *os.File) error { return f.Close() }

// abandoned never reports true: without locks, a directory may be in use.
func abandoned(*os.File) bool { return false }
