package blob

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// Limits of a connection.
const (
	Chunk        = 256 << 10        // bytes of each chunk but the last
	Window       = 4 * Chunk        // bytes that may be sent in one direction before they are acknowledged
	share        = Window / 2       // bytes of one transfer, so that one that stalls does not hold up the others
	MaxTransfers = 16               // puts, and gets, that a server runs at once for one peer
	clientLimit  = MaxTransfers / 2 // the server may not know yet that others were canceled
	StallLimit   = time.Minute      // how long the peer may send nothing for a transfer
	CommitLimit  = 5 * time.Minute  // the same once all bytes have arrived: the peer syncs them to disk
	maxPayload   = 4 << 10          // bytes of BlobBegin and BlobEnd
)

// begin is the payload of BlobBegin. In a frame with MsgID it begins a transfer: a put, or a get if Want is set. In a frame with CorrID it acknowledges
// all bytes before Offset.
type begin struct {
	SHA256 string `json:"Sha256,omitempty"`
	Size   int64  `json:"Size,omitempty"`
	Offset int64  `json:"Offset"`
	Want   bool   `json:"Want,omitempty"`
}

// Error is why a peer has refused or ended a transfer. It is the payload of BlobEnd, without a code if the transfer has succeeded.
type Error struct {
	Code    string `json:"Code,omitempty"` // one of package wire
	Message string `json:"Message,omitempty"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%s)", e.Message, e.Code) }

func refuse(code, format string, args ...any) *Error {
	return &Error{code, fmt.Sprintf(format, args...)}
}

// ErrDigest means that content is not that of its SHA-256.
var ErrDigest = errors.New("the content has another SHA-256 than announced")

// ErrStalled means that the peer has sent nothing for a transfer for [StallLimit] or [CommitLimit].
var ErrStalled = errors.New("the transfer has stalled: the peer sends nothing for it")

// ErrClosed means that the connection has ended, and that the transfer can go on over the next one.
var ErrClosed = errors.New("the connection has ended")

var errID = refuse(wire.CodeInvalid, "the id of a transfer must be new")

// Sum returns the size and the SHA-256 of some content, as a blob without a name.
func Sum(r io.Reader) (wire.Blob, error) {
	h := sha256.New()
	n, err := io.Copy(h, r)
	if err != nil {
		return wire.Blob{}, err
	}
	return wire.Blob{SHA256: hex.EncodeToString(h.Sum(nil)), Size: n}, nil
}

// Check returns what is wrong with the digest and the size of a blob.
func Check(digest string, size int64) error {
	if err := wire.CheckDigest(digest); err != nil {
		return err
	}
	if size < 0 {
		return fmt.Errorf("Size %d must be 0 or more", size)
	}
	return nil
}

func payload(v any) []byte {
	text, _ := json.Marshal(v) // it has only texts and numbers
	return text
}

func beginFrame(id wire.GUID, b begin) wire.Frame {
	return wire.Frame{Type: wire.BlobBegin, MsgID: id, Payload: payload(b)}
}

func ackFrame(id wire.GUID, offset int64) wire.Frame {
	return wire.Frame{Type: wire.BlobBegin, CorrID: id, Payload: payload(begin{Offset: offset})}
}

// endFrame ends a transfer; a nil error means that it has succeeded.
func endFrame(id wire.GUID, err error) wire.Frame {
	var e Error
	known, ok := errors.AsType[*Error](err)
	switch {
	case ok:
		e = *known
	case errors.Is(err, ErrDigest):
		e = Error{wire.CodeInvalid, err.Error()}
	case errors.Is(err, wire.ErrFrame):
		e = Error{wire.CodeProtocol, err.Error()}
	case err != nil:
		e = Error{wire.CodeBusy, err.Error()}
	}
	e.Message = fmt.Sprintf("%.1000s", e.Message)
	return wire.Frame{Type: wire.BlobEnd, CorrID: id, Payload: payload(e)}
}

// closing returns send with [ErrClosed] in its errors: frames of this package are never too large, so an error means that the connection has ended.
func closing(send func(...wire.Frame) error) func(...wire.Frame) error {
	return func(frames ...wire.Frame) error {
		if err := send(frames...); err != nil {
			return fmt.Errorf("%w: %w", ErrClosed, err)
		}
		return nil
	}
}

// read reads the payload of BlobBegin or BlobEnd.
func read(f wire.Frame, into any) error {
	if len(f.Payload) > maxPayload {
		return fmt.Errorf("%w: %s of %d bytes, at most %d", wire.ErrFrame, f.Type, len(f.Payload), maxPayload)
	}
	if err := json.Unmarshal(f.Payload, into); err != nil {
		return fmt.Errorf("%w: %s: %w", wire.ErrFrame, f.Type, err)
	}
	return nil
}
