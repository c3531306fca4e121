//go:build unix

package relay

import "syscall"

// nonBlock keeps a pipe that has taken the place of a file from being waited for.
const nonBlock = syscall.O_NONBLOCK
