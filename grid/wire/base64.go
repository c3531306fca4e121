package wire

import "bytes"

// base64Bad is 1 for bytes that are no digits of base64.
var base64Bad = func() (bad [256]byte) {
	for i := range bad {
		bad[i] = 1
	}
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		bad[c] = 0
	}
	return bad
}()

// base64Size returns how many bytes base64 text decodes to, without decoding it. Like encoding/base64 it wants padding, and allows line ends
// anywhere.
func base64Size(text []byte) (size int, ok bool) {
	if bytes.ContainsAny(text, "\r\n") {
		text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\n"), nil), []byte("\r"), nil)
	}
	if len(text)%4 != 0 {
		return 0, false
	}
	digits := bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("=")), []byte("="))
	var bad byte
	for _, c := range digits {
		bad |= base64Bad[c]
	}
	return len(text)/4*3 - (len(text) - len(digits)), bad == 0
}
