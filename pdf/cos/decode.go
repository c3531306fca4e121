package cos

import (
	"errors"
	"fmt"

	"github.com/batchfleet/batchfleet/pdf/filter"
)

// ErrFilter says that a stream is encoded in a way that this package does not
// decode: as an image (DCT, JPX, CCITT, JBIG2), or in an unknown way.
var ErrFilter = errors.New("unsupported filter")

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
		var err error
		if data, err = f.crypt.decryptStream(f, s); err != nil {
			return nil, err
		}
		if !f.Spend(len(data)) {
			return nil, ErrBudget
		}
	}
	filters, parms := f.filters(s)
	if len(filters) == 0 {
		if !f.Spend(len(data)) {
			return nil, ErrBudget
		}
		if len(data) > limit {
			return data[:limit], tooLong(limit, f.maxStream)
		}
		return data, nil
	}
	var failed error // the first error; what follows may still make sense of what there is
	made := 0        // bytes by all filters so far: a chain has one limit
	for i, name := range filters[:min(len(filters), maxFilters)] {
		var p Dict
		if i < len(parms) {
			p = f.Dict(parms[i])
		}
		var err error
		if !f.Spend(len(data) + 64) { // input may be long and yield nothing
			return nil, ErrBudget
		}
		room := min(limit, f.maxStream-made)
		allowed := min(room, max(f.budget, 0))
		data, err = f.decodeOne(f.Name(name), p, data, allowed)
		made += len(data)
		f.Spend(len(data))
		if errors.Is(err, ErrTooLong) && allowed < room {
			f.over = true
		}
		if f.over {
			return data, ErrBudget
		}
		if errors.Is(err, ErrTooLong) && room == limit {
			err = tooLong(limit, f.maxStream)
		}
		if err != nil && failed == nil {
			failed = fmt.Errorf("decode stream %d: %w", s.id.Num, err)
		}
	}
	if failed != nil && !errors.Is(failed, ErrTooLong) {
		f.note(failed.Error())
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

// filters returns the filters of s, and their parameters by the same index.
func (f *File) filters(s *Stream) (names, parms Array) {
	return f.List(s.Dict["Filter"]), f.List(s.Dict["DecodeParms"])
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
	return nil, fmt.Errorf("%w %.40q", ErrFilter, string(name))
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
