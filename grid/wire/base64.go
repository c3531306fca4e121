package wire

import "bytes"

// base64Bad marks the bytes that base64 does not have.
var base64Bad = func() (bad [256]byte) {
	for i := range bad {
		bad[i] = 1
	}
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		bad[c] = 0
	}
	return bad
}()

// base64Size returns how many bytes a text of base64 stands for, without decoding it. It takes what encoding/base64 takes: with
// padding, and with line ends anywhere.
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
