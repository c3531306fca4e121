package wire

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
)

// GUID names a job, an attempt, a worker or a message. Its bytes are in text order; on the wire the bytes of the first three
// groups are swapped, as .NET's Guid.ToByteArray has them. The zero value names nothing.
type GUID [16]byte

// NewGUID returns a random GUID (version 4).
func NewGUID() (g GUID) {
	_, _ = rand.Read(g[:]) // it never fails
	g[6] = g[6]&0x0f | 0x40
	g[8] = g[8]&0x3f | 0x80
	return g
}

// ParseGUID reads a GUID with hyphens (form D of .NET) or without (form N), in either case.
func ParseGUID(s string) (g GUID, err error) {
	err = g.UnmarshalText([]byte(s))
	return g, err
}

// IsZero reports whether g names nothing.
func (g GUID) IsZero() bool { return g == GUID{} }

// String returns g with hyphens, in lower case: the form D.
func (g GUID) String() string {
	var text [36]byte
	g.text(&text)
	return string(text[:])
}

func (g GUID) text(to *[36]byte) {
	hex.Encode(to[:], g[:4])
	hex.Encode(to[9:], g[4:6])
	hex.Encode(to[14:], g[6:8])
	hex.Encode(to[19:], g[8:10])
	hex.Encode(to[24:], g[10:])
	to[8], to[13], to[18], to[23] = '-', '-', '-', '-'
}

func appendGUID(to []byte, g GUID) []byte {
	var text [36]byte
	g.text(&text)
	return append(to, text[:]...)
}

// N returns g without hyphens, in lower case: the form N.
func (g GUID) N() string { return hex.EncodeToString(g[:]) }

// MarshalText implements encoding.TextMarshaler with the form D.
func (g GUID) MarshalText() ([]byte, error) {
	var text [36]byte
	g.text(&text)
	return text[:], nil
}

// UnmarshalText implements encoding.TextUnmarshaler, as [ParseGUID]. It leaves g as it is if there is an error.
func (g *GUID) UnmarshalText(text []byte) error {
	var digits [32]byte
	switch {
	case len(text) == 32:
		copy(digits[:], text)
	case len(text) == 36 && text[8] == '-' && text[13] == '-' && text[18] == '-' && text[23] == '-':
		n := copy(digits[:], text[:8])
		n += copy(digits[n:], text[9:13])
		n += copy(digits[n:], text[14:18])
		n += copy(digits[n:], text[19:23])
		copy(digits[n:], text[24:])
	default:
		return fmt.Errorf("%.40q is no GUID, such as 35918bc9-196d-40ea-9779-889d79b753f0", string(text))
	}
	var parsed GUID
	if _, err := hex.Decode(parsed[:], digits[:]); err != nil {
		return fmt.Errorf("%.40q is no GUID: %w", string(text), err)
	}
	*g = parsed
	return nil
}

// swap converts between text order and wire order.
func (g GUID) swap() GUID {
	g[0], g[1], g[2], g[3] = g[3], g[2], g[1], g[0]
	g[4], g[5] = g[5], g[4]
	g[6], g[7] = g[7], g[6]
	return g
}

// AppendGUIDs appends GUIDs in wire order, 16 bytes each.
func AppendGUIDs(to []byte, all ...GUID) []byte {
	to = slices.Grow(to, 16*len(all))
	for _, g := range all {
		g = g.swap()
		to = append(to, g[:]...)
	}
	return to
}

// GUIDs reads a list as [AppendGUIDs] writes it. The error wraps [ErrFrame] if the length is no multiple of 16.
func GUIDs(from []byte) ([]GUID, error) {
	if len(from)%16 != 0 {
		return nil, fmt.Errorf("%w: a list of GUIDs has %d bytes, no multiple of 16", ErrFrame, len(from))
	}
	all := make([]GUID, 0, len(from)/16)
	for ; len(from) > 0; from = from[16:] {
		all = append(all, GUID(from[:16]).swap())
	}
	return all, nil
}
