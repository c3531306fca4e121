//go:build !unix

package safefile

// noFollow is nothing where there is no such flag: a link that replaces a file
// between the look at it and the opening is followed.
const noFollow = 0
