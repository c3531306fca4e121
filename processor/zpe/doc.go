// Package zpe computes the zero-point energy of molecules and adsorbates with
// pw.x of Quantum ESPRESSO: it relaxes the structure, displaces every mobile
// atom along every axis in both directions, has pw.x compute the forces, and
// takes the harmonic frequencies from their differences.
//
// [ParsePayload] reads what a job asks for; it needs neither pw.x nor a disk, so
// a server that accepts jobs can refuse bad ones. [Handler] runs a job. The result of
// every run of pw.x is kept in the store as soon as there is one, under the digest
// of what it depends on, so an attempt goes on where an earlier one stopped, on
// whichever machine with the same pw.x and the same pseudopotentials.
//
// Nothing of a payload reaches pw.x as it is: the input is parsed against a list
// of what is allowed, and written again.
//
// The formats are in SPEC.md. The package imports jobs, storage and command.
package zpe
