package command

import (
	"os"
	"time"
)

// Usage is what a run has used.
type Usage struct {
	Wall      time.Duration
	CPU       time.Duration // of the process and those of its children it waited for
	MaxMemory int64         // largest resident set in bytes; 0 if unknown
	// Dropped is how many bytes came after Limits.OutputBytes and were not
	// passed to Output.
	Dropped int64
}

// usage returns what the run has used. It is called after wait.
func (r *run) usage() Usage {
	u := Usage{Wall: r.finished.Sub(r.began), Dropped: r.log.dropped}
	if r.state != nil {
		u.CPU, u.MaxMemory = cpuTime(r.state), maxMemory(r.state)
	}
	return u
}

func cpuTime(s *os.ProcessState) time.Duration { return s.UserTime() + s.SystemTime() }
