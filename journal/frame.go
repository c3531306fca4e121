package journal

import (
	"encoding/binary"
	"hash/crc32"
)

// MaxRecord is the largest record, in bytes. A frame that claims to be longer
// is damaged.
const MaxRecord = 64 << 20

// A frame is a header and a record:
//
//	0   magic "bfj"
//	3   kind
//	4   length of the record, little-endian
//	8   CRC-32C of that length and the record
//	12  CRC-32C of the twelve bytes above
//
// Both checksums begin with the salt of the file, which is random and in its
// name: when a record that contains frames of another file is damaged, these are
// not taken for records. The header has a checksum of its own, so that a false
// length is detected before that much is read.
const (
	frameMagic = "bfj"
	headerSize = 16
)

// The kinds of frames.
const (
	kindRecord = 'r'
	kindEnd    = 'e' // of a checkpoint; its record is the number of records, 8 bytes
)

// CRC-32C, because processors have an instruction for it.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendFrame(b []byte, salt uint32, kind byte, record []byte) []byte {
	at := len(b)
	b = append(b, frameMagic...)
	b = append(b, kind)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(record)))
	b = binary.LittleEndian.AppendUint32(b, sum(salt, b[at+4:at+8], record))
	b = binary.LittleEndian.AppendUint32(b, sum(salt, b[at:at+12], nil))
	return append(b, record...)
}

// sum is the checksum of a and b.
func sum(salt uint32, a, b []byte) uint32 {
	return crc32.Update(crc32.Update(salt, castagnoli, a), castagnoli, b)
}

// A header precedes each record.
type header struct {
	kind   byte
	length int
	sum    uint32
}

// parseHeader returns false for anything but a whole and undamaged header.
func parseHeader(b []byte, salt uint32) (header, bool) {
	if len(b) < headerSize || string(b[:3]) != frameMagic || binary.LittleEndian.Uint32(b[12:]) != sum(salt, b[:12], nil) {
		return header{}, false
	}
	length := binary.LittleEndian.Uint32(b[4:])
	if length > MaxRecord {
		return header{}, false
	}
	return header{kind: b[3], length: int(length), sum: binary.LittleEndian.Uint32(b[8:])}, true
}
