package command

// WithoutCgroups makes Run use markers only, until restore is called.
func WithoutCgroups() (restore func()) {
	was := ownCgroup
	ownCgroup = func() string { return "" }
	return func() { ownCgroup = was }
}

// OwnCgroup returns the directory in which runs have their cgroups; empty if there
// can be none.
func OwnCgroup() string { return ownCgroup() }

// StartTime returns Process.Start of a process.
func StartTime(pid int) (uint64, error) { return startTime(pid) }
