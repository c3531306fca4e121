package cos

// Object is one PDF object. Its dynamic type is one of
//
//	nil (the null object), bool, int, float64,
//	Name, String, Array, Dict, *Stream, Ref
//
// Objects read from a [File] are shared through its cache: do not change them.
type Object any

// Name is a name object without its slash: "Type", "FlateDecode".
type Name string

// String holds the bytes of a string object, decrypted. They are text only
// where the file defines it, and then in one of several encodings.
type String string

// Array is an array object.
type Array []Object

// Dict is a dictionary. A missing key and the null object are the same.
type Dict map[Name]Object

// Ref points to an indirect object.
type Ref struct {
	Num uint32
	Gen uint16
}

// Stream is a dictionary followed by bytes, which [File.Decode] decodes.
type Stream struct {
	Dict Dict
	raw  []byte // as in the file: encrypted and encoded; aliases the file
	id   Ref    // part of the decryption key
	// encrypted is false for streams of a file without encryption and for the
	// cross-reference streams of every file.
	encrypted bool
}
