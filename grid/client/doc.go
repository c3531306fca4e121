// Package client is the client's end of the grid: it submits jobs to one leader or several, and gets their results.
//
// A [Multi] keeps a connection to each of its leaders. A job that is submitted is given to one of them and stays in the table of
// jobs until its result has come. What was written to a connection that is lost may have arrived or not, so the job keeps its
// id: it is sent to the same leader once that is back, which knows it or takes it, and to another leader when [Config.Grace] is
// over. The first result of a job counts. A client of one leader is a Multi with one.
//
// All of it takes bounded memory: [Multi.Submit] waits while as many jobs are unfinished as [Config.Window] allows.
package client
