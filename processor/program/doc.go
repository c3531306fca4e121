// Package program is the work of a kind that the kinds file describes: it runs the kind's program, for
// each attempt once, and tells its output and its end to [custom]. What a program meets is described
// for those who write one in docs/kinds.md.
package program
