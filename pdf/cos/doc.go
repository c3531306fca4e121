// Package cos reads the object layer of PDF files: tokens, objects, the
// cross-reference in all its forms, object streams, encryption and the
// decoding of streams. (Carousel was PDF's working title; its objects are
// still called COS objects.)
//
// [Open] finds the objects of a file, by its cross-reference or, when that is
// damaged, by looking at every byte. [File.Resolve] and the typed getters load
// objects on demand through a bounded cache. A file that lies about itself
// yields null objects, never a panic and never endless work: what one piece of
// work may cost is set with [File.SetBudget].
//
// The package knows nothing of pages, fonts or text. It imports only filter.
package cos
