package wire

import (
	"crypto/sha256"
	"encoding/binary"
)

// ElementID returns the id of an element of an array: the job for one index. It is always the same.
func ElementID(array GUID, index int64) GUID {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64(AppendGUIDs(nil, array), uint64(index)))
	g := GUID(sum[:16])
	g[6] = g[6]&0x0f | 0x80 // version 8: made by a rule of the application
	g[8] = g[8]&0x3f | 0x80
	return g
}
