// Package batchfleet makes a program of your own that runs batch jobs on a fleet of workers: your
// functions are kinds of jobs, and everything around them is there. Jobs are leased, kept alive, run
// again after a crash, and end exactly once.
//
//	func main() {
//		batchfleet.Main(batchfleet.Kind{Name: "wordcount", Run: countWords})
//	}
//
// The program has all commands of batchfleet: `wordcount dev --kind wordcount FILE…` runs jobs now,
// with nothing installed, `wordcount worker` is a worker of a fleet, and of a gateway, and `wordcount submit --kind
// wordcount FILE…` queues jobs.
//
// A program in another language needs no package: it is described in the kinds file, see docs/kinds.md.
package batchfleet
