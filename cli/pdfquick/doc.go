// Package pdfquick has a program that imports it print a small document at once
// when it is started as "pdf FILE", before most packages are initialised, which
// takes longer than reading a page. Package pdfchild explains how.
//
// It only takes over what goes well: one document without a complaint, with the
// settings that hold by default. For everything else it prints nothing, and the
// command pdf does the whole of it, with limits, warnings and errors. The document
// is read in a child process here as well, under limits that are no wider.
package pdfquick
