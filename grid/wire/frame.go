package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// A frame, with all numbers in little-endian order:
//
//	len int32 | type byte | msgId 16 | corrId 16 | subjectLen uint16 | subject | payloadLen int32 | payload
//
// len counts what follows it.
const (
	MaxFrame   = 4 << 20 // the largest len
	minFrame   = 1 + 16 + 16 + 2 + 4
	prefix     = 4
	MaxSubject = 1<<16 - 1
)

// ErrFrame means that a peer has sent bytes that are no frame. The connection must be closed.
var ErrFrame = errors.New("protocol error")

// ErrTooLarge means that a frame is larger than [MaxFrame] and was not written. The connection can go on.
var ErrTooLarge = errors.New("frame too large")

// Frame is one message.
type Frame struct {
	Type    Type
	MsgID   GUID
	CorrID  GUID
	Subject string
	Payload []byte
}

// Len returns the first field of the frame: how many bytes follow it.
func (f *Frame) Len() int { return minFrame + len(f.Subject) + len(f.Payload) }

// Check returns why the frame cannot be written, or nil.
func (f *Frame) Check() error {
	switch {
	case f.Len() > MaxFrame:
		return fmt.Errorf("%w: %s of %d bytes, at most %d", ErrTooLarge, f.Type, f.Len(), MaxFrame)
	case len(f.Subject) > MaxSubject:
		return fmt.Errorf("%w: %s has a subject of %d bytes, at most %d", ErrTooLarge, f.Type, len(f.Subject), MaxSubject)
	}
	return nil
}

// AppendHeader appends a frame without its payload. The frame must have passed [Frame.Check].
func (f *Frame) AppendHeader(to []byte) []byte {
	to = binary.LittleEndian.AppendUint32(to, uint32(f.Len()))
	to = append(to, byte(f.Type))
	to = AppendGUIDs(to, f.MsgID, f.CorrID)
	to = binary.LittleEndian.AppendUint16(to, uint16(len(f.Subject)))
	to = append(to, f.Subject...)
	return binary.LittleEndian.AppendUint32(to, uint32(len(f.Payload)))
}

// Append appends a frame, which must have passed [Frame.Check].
func (f *Frame) Append(to []byte) []byte { return append(f.AppendHeader(to), f.Payload...) }

// checkLen checks the first field of a frame.
func checkLen(n uint32) error {
	if n < minFrame || n > MaxFrame {
		return fmt.Errorf("%w: a frame of %d bytes, must be %d to %d", ErrFrame, n, minFrame, MaxFrame)
	}
	return nil
}

// parse reads a frame without its length. The payload refers to body.
func parse(body []byte, lastSubject string) (f Frame, err error) {
	f.Type = Type(body[0])
	f.MsgID, f.CorrID = GUID(body[1:17]).swap(), GUID(body[17:33]).swap()
	n := int(binary.LittleEndian.Uint16(body[33:]))
	if minFrame+n > len(body) {
		return Frame{}, fmt.Errorf("%w: a subject of %d bytes in a frame of %d", ErrFrame, n, len(body))
	}
	subject, rest := body[35:35+n], body[35+n:]
	if string(subject) == lastSubject {
		f.Subject = lastSubject // most frames of a connection have the same subject: save the copy
	} else {
		f.Subject = string(subject)
		if !utf8.ValidString(f.Subject) || strings.IndexByte(f.Subject, 0) >= 0 {
			return Frame{}, fmt.Errorf("%w: the subject is not UTF-8, or has a NUL", ErrFrame)
		}
	}
	if got, want := int32(binary.LittleEndian.Uint32(rest)), int32(len(rest)-4); got != want {
		return Frame{}, fmt.Errorf("%w: the payload claims %d bytes, and %d are there", ErrFrame, got, want)
	}
	f.Payload = rest[4:]
	return f, nil
}
