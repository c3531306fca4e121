package cos

import (
	"bytes"
	"errors"
	"fmt"
)

// ErrPassword says that a file is encrypted and the password given does not
// open it, or that it is encrypted in a way no password would open it.
var ErrPassword = errors.New("password needed")

// ErrBudget says that reading took more work than the budget allows, so that
// some objects were read as null or cut short.
var ErrBudget = errors.New("budget of decoded bytes exceeded")

// ErrNoObjects says that a file holds nothing that looks like a PDF object.
var ErrNoObjects = errors.New("no PDF objects found")

const (
	// maxObject is the highest object number, an implementation limit of ISO
	// 32000-1, annex C.
	maxObject = 8_388_607
	// maxCachedElements bounds the object cache; an element takes about 50
	// bytes.
	maxCachedElements = 100_000
	// elementBytes is how many bytes of syntax count as an element: strings are
	// one by themselves, however long.
	elementBytes = 50
	// maxLoading bounds how many objects may be needed to load one: a stream
	// needs its length, a packed object its stream.
	maxLoading = 16
	// headerWindow is where readers look for "%PDF-" (ISO 32000-1, annex H.3,
	// note 13).
	headerWindow = 1024
)

// Options are the choices of [Open].
type Options struct {
	// Password opens an encrypted file, as its user or its owner. Empty is the
	// password of files that are encrypted only to forbid printing and such.
	Password string
	// MaxStream bounds the decoded bytes of one stream. 0 means 128 MiB.
	MaxStream int
}

// File is the objects of one PDF file. It is not safe for concurrent use;
// every goroutine needs a [File.Clone] of its own.
type File struct {
	// Trailer is the file's trailer dictionary; after a rebuild it is pieced
	// together from what was found.
	Trailer Dict
	// Version is the one in the header, such as "1.7"; empty without a header.
	Version string

	data      []byte // from the header on: offsets count from there
	xref      map[uint32]entry
	section   uint32 // of the cross-reference being read
	rebuilt   bool
	scanned   scan
	crypt     *crypt
	password  string
	maxStream int

	cache   map[uint32]Object
	cached  int             // elements in cache
	loading map[uint32]bool // guards against objects that need themselves
	packed  *objectStreams  // shared with clones
	budget  int
	over    bool // the budget has been exceeded

	notes  []string          // of damage, until they are taken
	faults map[uint32]string // what is wrong with objects, by their numbers
}

// entry is where an object is.
type entry struct {
	kind    uint8
	section uint32 // the part of the cross-reference that has the entry, the newest first
	offset  int    // of the object in the file, or the number of its object stream
}

const (
	entryFree uint8 = iota
	entryOffset
	entryPacked
)

// Open reads the cross-reference of the PDF file in data, or rebuilds it. data
// must not change while the File is in use. The errors are [ErrNoObjects],
// [ErrPassword] and, wrapped, what is wrong with the encryption.
func Open(data []byte, opts Options) (*File, error) {
	f := &File{
		data:      data,
		password:  opts.Password,
		maxStream: opts.MaxStream,
		loading:   map[uint32]bool{},
	}
	if f.maxStream <= 0 {
		f.maxStream = 128 << 20
	}
	f.SetBudget(openBudget(f.maxStream, len(data)))
	if i := header(data); i >= 0 {
		f.data = data[i:]
		f.Version = version(f.data[len("%PDF-"):])
	}
	f.scanned = newScan(f.data)
	f.forget()
	if f.readXref() {
		err := f.initCrypt()
		if errors.Is(err, ErrPassword) {
			return nil, fmt.Errorf("open file: %w", err)
		}
		if err == nil && f.Dict(f.Trailer["Root"]) != nil {
			return f, nil
		}
	}
	if err := f.Rebuild(); err != nil {
		return nil, err
	}
	return f, nil
}

// Clone returns a File of the same objects that another goroutine may use at
// the same time. It has caches and a budget of its own. Neither may be rebuilt
// any more, and nothing may be read from f meanwhile.
func (f *File) Clone() *File {
	c := *f
	c.loading = map[uint32]bool{}
	c.cache, c.cached = map[uint32]Object{}, 0
	c.notes, c.faults = nil, nil
	return &c
}

// HasHeader reports whether data says that it is a PDF.
func HasHeader(data []byte) bool { return header(data) >= 0 }

func header(data []byte) int {
	return bytes.Index(data[:min(len(data), headerWindow)], []byte("%PDF-"))
}

// openBudget allows every stream of an honest file to be decoded once while
// it is opened, and a hostile one to keep a core busy for some seconds.
func openBudget(maxStream, size int) int { return 2*maxStream + 32*size }

// version returns the digits and dots b begins with, at most 8 of them.
func version(b []byte) string {
	n := 0
	for n < len(b) && n < 8 && (b[n] == '.' || '0' <= b[n] && b[n] <= '9') {
		n++
	}
	return string(b[:n])
}

// Encrypted reports whether the file is encrypted.
func (f *File) Encrypted() bool { return f.crypt != nil }

// Rebuilt reports whether the cross-reference was rebuilt, by [Open] or
// [File.Rebuild].
func (f *File) Rebuilt() bool { return f.rebuilt }

// SetBudget allows the reader n more bytes of work: bytes of syntax parsed,
// bytes of streams decoded, and what else is spent. It also forgets that an
// earlier budget ran out.
func (f *File) SetBudget(n int) { f.budget, f.over = n, false }

// BudgetErr returns [ErrBudget] if the budget has run out since it was set.
func (f *File) BudgetErr() error {
	if f.over {
		return ErrBudget
	}
	return nil
}

// Budget returns how much is left of the budget; it is negative once that has
// run out.
func (f *File) Budget() int { return f.budget }

// Spend takes n bytes from the budget and reports whether it still holds. Callers
// spend for work on objects that are cached.
func (f *File) Spend(n int) bool {
	if f.budget -= n; f.budget < 0 {
		f.over = true
	}
	return !f.over
}

// forget empties the caches, whose content depends on the key and the
// cross-reference.
func (f *File) forget() {
	f.cache, f.cached, f.faults = map[uint32]Object{}, 0, nil
	f.packed = &objectStreams{}
}

// Resolve follows o if it is a reference, and returns nil if it leads nowhere.
func (f *File) Resolve(o Object) Object {
	for range 32 { // references to references are not allowed, chains of them not seen
		r, ok := o.(Ref)
		if !ok {
			return o
		}
		o = f.load(r.Num)
	}
	return nil
}

// load returns object n, from the cache if it is there.
func (f *File) load(n uint32) Object {
	if o, ok := f.cache[n]; ok {
		if len(f.faults) > 0 && f.faults[n] != "" {
			f.note(f.faults[n])
		}
		return o
	}
	if f.loading[n] || f.over || len(f.loading) >= maxLoading {
		return nil
	}
	f.loading[n] = true
	defer delete(f.loading, n)

	o, elements, wrong := f.find(n)
	if f.over { // o may be less than there is
		return o
	}
	if wrong != "" && !f.fault(n, wrong) {
		return o
	}
	if f.cached+elements > maxCachedElements {
		f.cache, f.cached = map[uint32]Object{}, 0
	}
	f.cache[n] = o
	f.cached += elements
	return o
}

// find reads object n, and returns how many elements it has and what is wrong
// with it. An object that the file does not claim to have is null, which is
// nothing wrong.
func (f *File) find(n uint32) (o Object, elements int, wrong string) {
	switch e := f.xref[n]; e.kind {
	case entryOffset:
		got, found := f.objectAt(e.offset, true)
		wrong = got.wrong
		if (!found || got.num != n) && !f.rebuilt {
			wrong = "is not where the cross-reference says"
			if offset, ok := f.scanned.objects()[n]; ok {
				got, found = f.objectAt(offset, true)
			}
		}
		if found && got.num == n {
			o, elements = got.object, got.elements
		} else {
			wrong = "is missing"
		}
	case entryPacked:
		o, elements, wrong = f.unpack(uint32(e.offset), n)
	case entryFree:
		if f.rebuilt {
			wrong = "is missing"
		}
	}
	if wrong != "" {
		wrong = fmt.Sprintf("object %d %s", n, wrong)
	}
	return o, max(elements, 1), wrong
}

// Missing reports whether o is a reference that leads to nothing.
func (f *File) Missing(o Object) bool {
	ref, ok := o.(Ref)
	return ok && f.Resolve(ref) == nil
}

// Dict returns o, resolved, as a dictionary; a stream gives its own. It
// returns nil if o is neither.
func (f *File) Dict(o Object) Dict {
	switch v := f.Resolve(o).(type) {
	case Dict:
		return v
	case *Stream:
		return v.Dict
	}
	return nil
}

// Array returns o, resolved, as an array, or nil.
func (f *File) Array(o Object) Array {
	a, _ := f.Resolve(o).(Array)
	return a
}

// List returns o, resolved, as an array; any other object but null becomes an
// array of one. PDF allows this in many places.
func (f *File) List(o Object) Array {
	switch v := f.Resolve(o).(type) {
	case nil:
		return nil
	case Array:
		return v
	default:
		return Array{v}
	}
}

// Stream returns o, resolved, as a stream, or nil.
func (f *File) Stream(o Object) *Stream {
	s, _ := f.Resolve(o).(*Stream)
	return s
}

// Name returns o, resolved, as a name, or "".
func (f *File) Name(o Object) Name {
	n, _ := f.Resolve(o).(Name)
	return n
}

// String returns o, resolved, as a string, or "".
func (f *File) String(o Object) String {
	s, _ := f.Resolve(o).(String)
	return s
}

// Int returns o, resolved, as an integer; ok is false if it is no number.
// Reals lose their fraction.
func (f *File) Int(o Object) (n int, ok bool) { return asInt(f.Resolve(o)) }

func asInt(o Object) (n int, ok bool) {
	switch v := o.(type) {
	case int:
		return v, true
	case float64:
		return Token{Number: v}.Int(), true
	}
	return 0, false
}

// Number returns o, resolved, as a number; ok is false if it is none.
func (f *File) Number(o Object) (v float64, ok bool) {
	switch v := f.Resolve(o).(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}
