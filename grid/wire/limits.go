package wire

// A leader sends a payload on in a frame with a longer subject, so it must be smaller than what its own frame could hold.
const (
	maxWorkerPart = 1 + 36 // .workerId, with hyphens
	resultRoom    = len(ResultPrefix) + 1 + 32

	// What an element of an array has more than the request: a JobId with hyphens where there were none, and two members.
	elementRoom = 4 + len(arrayMember) + 36 + 1 + len(indexMember) + len("999999999")
	attemptRoom = len(attemptMember) + len("100")
)

// MaxSubmit returns the size of the largest payload of a SubmitJob for an exec, in bytes.
func MaxSubmit(exec string) int {
	return MaxFrame - minFrame - len(AssignPrefix) - len(exec) - maxWorkerPart - elementRoom - attemptRoom
}

// MaxAck returns the size of the largest payload of an AckJob for the job of a client, in bytes: 3145551 bytes of an archive, or
// thereabouts, as base64 makes four bytes of three.
func MaxAck(client string) int { return MaxFrame - minFrame - resultRoom - len(client) }
