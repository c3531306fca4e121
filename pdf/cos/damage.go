package cos

import (
	"fmt"
	"slices"
)

// Reading goes on where a file is damaged, but not in silence: whatever is
// repaired, missing or cut is noted. Notes gather until [File.TakeNotes] takes
// them. Objects are cached, so what is wrong with one is kept beside the cache
// and noted each time that the object is used.

const (
	maxNotes  = 8      // kept until they are taken
	maxNote   = 200    // bytes of one
	maxFaulty = 10_000 // objects whose damage is kept
)

// Note is what is damaged, for people. The same note counts once.
func (f *File) Note(format string, args ...any) {
	if len(f.notes) < maxNotes {
		f.note(fmt.Sprintf(format, args...))
	}
}

func (f *File) note(text string) {
	if len(f.notes) >= maxNotes {
		return
	}
	if text = text[:min(len(text), maxNote)]; !slices.Contains(f.notes, text) {
		f.notes = append(f.notes, text)
	}
}

// TakeNotes returns what was noted since the last call, at most eight notes.
func (f *File) TakeNotes() []string {
	notes := f.notes
	f.notes = nil
	return notes
}

// Noted returns what do notes, for a caller that keeps what do has made and
// notes it again, with [File.Renote], when that is used once more.
func (f *File) Noted(do func()) []string {
	before := f.TakeNotes()
	do()
	during := f.TakeNotes()
	f.notes = before
	f.Renote(during)
	return during
}

// Renote notes what was noted before.
func (f *File) Renote(notes []string) {
	for _, text := range notes {
		f.note(text)
	}
}

// fault notes what is wrong with object n, now and whenever it is used. It
// returns false if there are so many that n must not be cached.
func (f *File) fault(n uint32, text string) bool {
	f.note(text)
	if f.faults == nil {
		f.faults = map[uint32]string{}
	}
	if len(f.faults) < maxFaulty {
		f.faults[n] = text
	}
	return f.faults[n] != ""
}

// cutUpdate reports whether there are objects behind the end of the file: an
// update was appended, and its own end is missing.
func cutUpdate(behind []byte) bool {
	for at := range occurrences(behind, "obj") {
		if _, _, ok := objectHeader(behind, at); ok {
			return true
		}
	}
	return false
}
