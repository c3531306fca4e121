// Package sim runs whole fleets in one process and in virtual time, breaks what can break
// in them, and checks what they promise.
//
// The parts are the real ones: the loop of package worker, the sources of pubsub and
// gateway, the status and the gateway's queue with their scripts, the emulator over gRPC, the
// control plane over HTTP, repair, the page loop. Simulated are the documents, the store, the network
// and the processes: a process is killed by cutting it off for good, and frozen by holding
// it at its next call. Redis is miniredis, in the time of the bubble. A run must be in a
// bubble of testing/synctest.
//
// A seed decides everything: the jobs, what each of them does, the settings of the fleet and
// a plan of faults; and the fate of single calls, by the number of the call on its link. A
// ledger watches from outside: it looks at Redis after each script, at the store when
// an object appears, at each ack as it is sent, and at the end at what is left.
//
// A replay is not exact to the last step: the plan and the fate of calls are the same, but
// which goroutine goes first at one virtual moment is Go's choice, tokens are random, and the
// loop draws the lengths of its pauses itself. Two runs of a seed tell the same story for a
// while and then differ in details: a failure comes again with its seed in one of some runs.
//
// What is allowed where Redis has lost writes is in docs/architecture.md.
package sim
