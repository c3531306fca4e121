//go:build !unix

package safefile

// noFollow is 0 where there is no such flag: if a link replaces the file between the
// check and the opening, it is followed.
const noFollow = 0
