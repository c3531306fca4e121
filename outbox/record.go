package outbox

import (
	"errors"
	"fmt"
	"path/filepath"
)

// A record of the journal is one byte that says what happened, one with the length of the entry's name, the
// name, and of an entry that was put its text.
const (
	recordPut    = 'p'
	recordRemove = 'r'

	maxName = 255 // bytes of an entry's name
)

func putRecord(name string, text []byte) []byte {
	return append(record(recordPut, name, len(text)), text...)
}

func removeRecord(name string) []byte { return record(recordRemove, name, 0) }

func record(what byte, name string, more int) []byte {
	r := make([]byte, 0, 2+len(name)+more)
	return append(append(r, what, byte(len(name))), name...) //nolint:gosec // at most maxName
}

// validName returns why an entry cannot have a name: it may become that of a file in corrupt/.
func validName(name string) error {
	if len(name) > maxName || !filepath.IsLocal(name) || name == "." || filepath.Base(name) != name {
		return fmt.Errorf("%.300q cannot be the name of an entry: it may become a file's, of at most %d bytes", name, maxName)
	}
	return nil
}

// parseRecord takes a record apart. text is a part of it.
func parseRecord(r []byte) (name string, text []byte, put bool, err error) {
	if len(r) < 2 || len(r) < 2+int(r[1]) {
		return "", nil, false, errors.New("a record of an entry is too short")
	}
	name, text = string(r[2:2+int(r[1])]), r[2+int(r[1]):]
	switch err := validName(name); {
	case err != nil:
		return "", nil, false, err
	case r[0] == recordPut:
		return name, text, true, nil
	case r[0] == recordRemove:
		return name, nil, false, nil
	}
	return "", nil, false, fmt.Errorf("a record of an entry begins with %q", r[0])
}
