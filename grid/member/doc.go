// Package member is a worker's end of the grid: a worker.Source and a worker.Status for the loop of package worker, over connections
// to one or more leaders.
//
//	HelloWorker, Credit → AssignJob   a job that a leader assigns becomes a lease for the loop
//	Accept, Renew ⇄ Cancel            the leader is told that it runs, and the loop that it is to stop
//	AckJob → ResultAck                its result is on disk until the leader has it
//
// A job that is assigned again, by the same leader or another one, is not run again while it runs, nor while its result is still known
// here. A leader that goes away costs nothing for a while: its jobs go on, and their results are delivered when it is back.
//
// Leaders of the original protocol are served as well. They know no Accept, no Renew, no Cancel and no ResultAck: to them a result is
// delivered once it is written to the connection.
//
// The package does not know how a job is run. Its jobs are of [Kind], with the JobRequest as their payload; a handler returns a
// JobResult as the text of its result, or as the detail of its failure: see [Member.Handler].
package member
