package program

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
)

// GiveBackStartMemory returns to the system what starting has taken: garbage, and the pages of this program's code and constants.
// Only its start needs most of them. The others are mapped again when they are used, from the file that the system has in memory.
// It is for processes that wait for hours.
func GiveBackStartMemory() {
	debug.FreeOSMemory()
	exe, err := os.Readlink("/proc/self/exe")
	maps, err2 := os.ReadFile("/proc/self/maps")
	if err != nil || err2 != nil {
		return // then it stays
	}
	for lines := bufio.NewScanner(bytes.NewReader(maps)); lines.Scan(); {
		var from, to uintptr
		var mode string
		line := lines.Text() // 00400000-01a00000 r-xp 00000000 fe:00 1234  /usr/bin/batchfleet
		if n, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); n != 3 || err != nil {
			continue
		}
		if strings.HasSuffix(line, " "+exe) && !strings.Contains(mode, "w") { // nothing of it can have been changed
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, from, to-from, syscall.MADV_DONTNEED)
		}
	}
}
