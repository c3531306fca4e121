// Package member connects a worker to the leaders of a grid: it is a worker.Source and a worker.Status for the loop of package worker.
//
//	HelloWorker, Credit → AssignJob   a job that a leader assigns becomes a lease for the loop
//	Accept, Renew ⇄ Cancel            the leader learns that it runs, and the loop when to stop it
//	AckJob → ResultAck                its result is on disk until the leader has it
//
// A job that is assigned again, by the same leader or another one, is not run again while it runs, nor while its result is kept here. When the
// connection to a leader is lost, its jobs go on for a while, and their results are delivered when it is back.
//
// Leaders of the original protocol are served as well. They know no Accept, no Renew, no Cancel and no ResultAck: to them a result is
// delivered once it is written to the connection.
//
// The package does not run jobs. They are of [Kind], with the JobRequest as payload; a handler returns a JobResult as the text of its result, or as
// the detail of its failure: see [Member.Handler].
package member
