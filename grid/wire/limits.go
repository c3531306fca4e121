package wire

// A leader passes a payload on in a frame with a longer subject, so a payload must be smaller than its own frame would allow.
const (
	maxWorkerPart = 1 + 36 // .workerId, with hyphens
	resultRoom    = len(ResultPrefix) + 1 + 32

	// How much longer the request of an array's element is: a JobId with hyphens where there were none, and two members.
	elementRoom = 4 + len(arrayMember) + 36 + 1 + len(indexMember) + len("999999999")
)

// MaxSubmit returns the size of the largest payload of a SubmitJob for an exec, in bytes.
func MaxSubmit(exec string) int {
	return MaxFrame - minFrame - len(AssignPrefix) - len(exec) - maxWorkerPart - elementRoom
}

// MaxAck returns the size of the largest payload of an AckJob for a client's job, in bytes. That is about 3 145 551 bytes of an archive, as base64
// makes four bytes of three.
func MaxAck(client string) int { return MaxFrame - minFrame - resultRoom - len(client) }
