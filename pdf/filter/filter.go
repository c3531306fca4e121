// Package filter undoes the encodings PDF streams are stored in: Flate, LZW,
// ASCII85, ASCIIHex, RunLength and the predictors.
//
// Every function takes the most bytes it may produce, so a small stream cannot
// become a large one, and returns what could be decoded together with the
// error that stopped it: half a damaged page is worth more than none. In addition to
// its result, which is allocated once it is known how large it is, a function
// takes a few MiB at most. No input is changed, but for that of a predictor,
// which works in place. All functions may be called concurrently.
package filter

import "errors"

// ErrTooLong says that a stream holds more bytes than the caller allows. The
// bytes up to the limit are returned with it.
var ErrTooLong = errors.New("decoded stream is too long")

// room returns how many more bytes fit into out under limit.
func room(out []byte, limit int) int { return limit - len(out) }

func isSpace(c byte) bool {
	return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\f' || c == 0
}
