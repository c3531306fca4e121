package command

// Process identifies a process that was started. An owner that stores it can pass
// it to [Sweep] after a crash. It is valid on one machine, in one namespace of process
// ids, until the machine is booted again.
type Process struct {
	PID int
	// Start is when the process started, in clock ticks since the machine booted
	// (field 22 of /proc/PID/stat). With it, another process that has got the same
	// id is not mistaken for this one. It is 0 where it is unknown.
	Start uint64
	// Marker is the value of [Marker] in its environment; empty if
	// Command.Alone is set.
	Marker string
}

// Marker is a variable that Run adds to the environment unless Alone is set. Each
// run has its own value. When the run is over, processes that still have it are
// killed, where the caller cannot make a cgroup; [Sweep] looks for it in any case.
// A process that gives its children an environment of their own should pass it on.
const Marker = "BATCHFLEET_RUN"
