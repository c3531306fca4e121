//go:build !unix

package zpe

import "os"

func tryLock(*os.File) (bool, error) { return true, nil }

// abandoned never reports true: without locks, a directory may be in use.
func abandoned(*os.File) bool { return false }
