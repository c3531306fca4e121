//go:build !unix

// Package disk tells how much space a disk has.
package disk

import (
	"errors"
	"math"
)

// Free is not known here: it returns the largest int64.
func Free(string) (int64, error) { return math.MaxInt64, nil }

// Space is not known here.
func Space(string) (free, all int64, err error) { return 0, 0, errors.ErrUnsupported }
