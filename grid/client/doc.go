// Package client is the client's end of the grid: it submits jobs to one leader or several, and gets their results.
//
// A [Multi] keeps a connection to each of its leaders. A job is sent to one of them, and is kept here until its result has come. When a
// connection is lost, it is not known whether a job has arrived. So the job keeps its id, and is sent again: to the same leader if that is
// back within [Config.Grace], to another one afterwards. The first result of a job counts. A client of one leader is a Multi with one.
//
// Memory is bounded: [Multi.Submit] waits while as many jobs are unfinished as [Config.Window] allows.
package client
