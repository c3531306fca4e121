// Package memory keeps jobs in the memory of one process: a [Queue] hands out
// leases by Pub/Sub's rules, a [Status] records the life of jobs with the
// promises of the one in Redis. Both are for the workers of that process, and
// their content ends with it. A worker runs on them as its worker.Source and
// its worker.Status; package worker/workertest states what they promise.
package memory
