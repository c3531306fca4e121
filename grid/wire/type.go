package wire

import "fmt"

// Type is the type of a frame.
type Type byte

// The types of the original protocol: C is a client, L a leader, W a worker.
const (
	SubmitJob   Type = 1  // C to L
	AssignJob   Type = 2  // L to W
	AckJob      Type = 3  // W to L, with the result
	Credit      Type = 4  // W to L
	Result      Type = 5  // L to C
	HelloClient Type = 9  // C to L, first
	HelloWorker Type = 10 // W to L, first
)

// The types that are sent only to a peer whose hello, or welcome, lists the feature.
const (
	Welcome   Type = 32 // L to both, in answer to a hello with features
	Error     Type = 33 // L to both
	Ping      Type = 34 // both ways
	Pong      Type = 35
	Accept    Type = 36 // W to L: the job has arrived
	Renew     Type = 37 // W to L: which jobs run
	Cancel    Type = 38 // C to L, L to W: stop a job; W to L: hand it back
	SubmitAck Type = 39 // L to C: a list of JobIds that are queued for good
	ResultAck Type = 40 // C to L, L to W: a list of JobIds whose results need not be kept
	Query     Type = 41 // C to L
	Status    Type = 42 // L to C
	Drain     Type = 43 // W to L: no more jobs
	BlobBegin Type = 44
	BlobChunk Type = 45
	BlobEnd   Type = 46
	Report    Type = 47 // W to L: progress of a job, and lines that its program has written
)

var typeNames = map[Type]string{
	SubmitJob: "SubmitJob", AssignJob: "AssignJob", AckJob: "AckJob", Credit: "Credit", Result: "Result",
	HelloClient: "HelloClient", HelloWorker: "HelloWorker", 20: "NotLeader", 21: "LeaderHello", 22: "AppendEntries", 23: "AppendResp", 24: "RequestVote", 25: "VoteResp",
	Welcome: "Welcome", Error: "Error", Ping: "Ping", Pong: "Pong", Accept: "Accept", Renew: "Renew", Cancel: "Cancel",
	SubmitAck: "SubmitAck", ResultAck: "ResultAck", Query: "Query", Status: "Status", Drain: "Drain",
	BlobBegin: "BlobBegin", BlobChunk: "BlobChunk", BlobEnd: "BlobEnd", Report: "Report",
}

// String returns the name of the type.
func (t Type) String() string {
	if name, ok := typeNames[t]; ok {
		return name
	}
	return fmt.Sprintf("type %d", byte(t))
}

// Known reports whether this protocol has the type. Other types are ignored after the hello.
func (t Type) Known() bool { _, ok := typeNames[t]; return ok && (t < 20 || t > 25) }
