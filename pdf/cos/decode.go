package cos

import (
	"errors"
	"fmt"

	"github.com/batchfleet/batchfleet/pdf/filter"
)

// ErrImage says that a stream is compressed as an image (DCT, JPX, CCITT,
// JBIG2), which this package does not decode.
var ErrImage = errors.New("stream is an image")

// ErrTooLong says that a stream holds more bytes than [Options] allow.
var ErrTooLong = filter.ErrTooLong

// Decode returns the decrypted and decoded bytes of s. With an error it
// returns what could be decoded before it.
func (f *File) Decode(s *Stream) ([]byte, error) { return f.DecodePrefix(s, f.maxStream) }

// DecodePrefix is [File.Decode] for callers that want only the first limit
// bytes. Longer streams are cut without an error unless limit is the file's
// own.
func (f *File) DecodePrefix(s *Stream, limit int) ([]byte, error) {
	if s == nil {
		return nil, nil
	}
	if f.over {
		return nil, ErrBudget
	}
	limit = min(limit, f.maxStream)
	data := s.raw
	if s.encrypted && f.crypt != nil {
		data = f.crypt.decryptStream(f, s)
		if !f.spend(len(data)) {
			return nil, ErrBudget
		}
	}
	filters, parms := f.List(first(s.Dict, "Filter", "F")), f.List(first(s.Dict, "DecodeParms", "DP"))
	if len(filters) == 0 {
		if !f.spend(len(data)) {
			return nil, ErrBudget
		}
		if len(data) > limit {
			return data[:limit], tooLong(limit, f.maxStream)
		}
		return data, nil
	}
	var failed error // the first error; what follows may still make sense of what there is
	for i, name := range filters[:min(len(filters), maxFilters)] {
		var p Dict
		if i < len(parms) {
			p = f.Dict(parms[i])
		}
		var err error
		allowed := min(limit, max(f.budget, 0))
		data, err = f.decodeOne(f.Name(name), p, data, allowed)
		f.spend(len(data))
		if errors.Is(err, ErrTooLong) && allowed < limit {
			f.over = true
		}
		if f.over {
			return data, ErrBudget
		}
		if errors.Is(err, ErrTooLong) {
			err = tooLong(limit, f.maxStream)
		}
		if err != nil && failed == nil {
			failed = fmt.Errorf("decode stream %d: %w", s.id.Num, err)
		}
	}
	return data, failed
}

// tooLong returns nil if the caller asked for no more than limit.
func tooLong(limit, maxStream int) error {
	if limit < maxStream {
		return nil
	}
	return ErrTooLong
}

// maxFilters bounds the filters applied to one stream; two are common, four
// have been seen.
const maxFilters = 16

func first(d Dict, long, short Name) Object {
	if o := d[long]; o != nil {
		return o
	}
	return d[short]
}

func (f *File) decodeOne(name Name, p Dict, data []byte, limit int) ([]byte, error) {
	var err error
	switch name {
	case "FlateDecode", "Fl":
		data, err = filter.Flate(data, limit)
		return f.undoPredictor(p, data, err)
	case "LZWDecode", "LZW":
		early, ok := f.Int(p["EarlyChange"])
		data, err = filter.LZW(data, !ok || early != 0, limit)
		return f.undoPredictor(p, data, err)
	case "ASCII85Decode", "A85":
		return filter.ASCII85(data, limit)
	case "ASCIIHexDecode", "AHx":
		return filter.ASCIIHex(data, limit)
	case "RunLengthDecode", "RL":
		return filter.RunLength(data, limit)
	case "Crypt": // decryption has taken it into account
		return data, nil
	}
	return nil, fmt.Errorf("%w: filter %.40q", ErrImage, string(name))
}

// undoPredictor keeps err, the reason why data may be short.
func (f *File) undoPredictor(p Dict, data []byte, err error) ([]byte, error) {
	if p == nil {
		return data, err
	}
	get := func(key Name) int {
		n, _ := f.Int(p[key])
		return n
	}
	out, predictErr := filter.Predictor{
		Algorithm: get("Predictor"),
		Colors:    get("Colors"),
		Bits:      get("BitsPerComponent"),
		Columns:   get("Columns"),
	}.Undo(data)
	return out, errors.Join(err, predictErr)
}
