//go:build unix

package exec

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// space returns how many bytes of the disk of the jobs are free for this user, and how many there are.
func (r *Runner) space() (free, all int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(r.JobsDir, &st); err != nil {
		return 0, 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), int64(st.Blocks) * int64(st.Bsize), nil //nolint:gosec,unconvert // types differ between systems
}

// signalName returns the name of a signal, such as SIGKILL.
func signalName(s syscall.Signal) string { return unix.SignalName(s) }
