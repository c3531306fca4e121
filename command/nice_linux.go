package command

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// mostNice is the niceness of who stands back for all others.
const mostNice = 19

// standBack adds to the niceness of the group that a process leads. It may run already, and have several threads.
func standBack(pid, by int) error {
	if by == 0 {
		return nil
	}
	raw, err := unix.Getpriority(unix.PRIO_PGRP, pid)
	if err == nil {
		err = unix.Setpriority(unix.PRIO_PGRP, pid, min(20-raw+by, mostNice)) // the kernel tells 20 less the niceness
	}
	if err != nil && !errors.Is(err, unix.ESRCH) { // it has exited already
		return fmt.Errorf("set niceness: %w", err)
	}
	return nil
}
