package program

import "runtime"

// headroom is memory that is never used: the garbage collector counts it as in
// use and lets as much garbage again gather before it runs. A program that holds little
// would run it at every 4 MB of garbage otherwise, which in a gateway are a few hundred requests, and in a
// worker that leases from one a few hundred short jobs.
const headroom = 16 << 20

// Headroom lets garbage gather until done is called.
func Headroom() (done func()) {
	unused := make([]byte, headroom)
	return func() { runtime.KeepAlive(unused) }
}
