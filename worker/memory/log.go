package memory

import "github.com/batchfleet/batchfleet/jobs"

// MaxLog is how many bytes of a job's log are kept, 16 of each line for itself: the first
// of them, and then the newest. A line between says how many were left out.
const MaxLog = 5_000_000

// joblog is the log of a job.
type joblog struct {
	head []string // its first lines, once others were left out
	out  int      // how many were
	rest []string
	size int // of head and rest
}

func sizeOf(line string) int { return len(line) + 16 }

func (l *joblog) add(lines ...string) {
	for _, line := range lines {
		l.rest = append(l.rest, line)
		l.size += sizeOf(line)
	}
	if l.size > MaxLog && l.head == nil {
		l.keepHead()
	}
	for l.size > MaxLog && len(l.rest) > 1 {
		l.out += jobs.LinesIn(l.rest[0])
		l.size -= sizeOf(l.rest[0])
		l.rest[0] = ""
		l.rest = l.rest[1:]
	}
}

// keepHead makes the first lines the head, a sixteenth of the log, and at least one.
func (l *joblog) keepHead() {
	n, room := 1, MaxLog/16-sizeOf(l.rest[0])
	for ; n < len(l.rest) && sizeOf(l.rest[n]) <= room; n++ {
		room -= sizeOf(l.rest[n])
	}
	l.head, l.rest = l.rest[:n:n], l.rest[n:]
}

// lines returns a copy of what is kept.
func (l *joblog) lines() []string {
	var all []string
	all = append(all, l.head...)
	if l.out > 0 {
		all = append(all, jobs.LeftOut(l.out))
	}
	return append(all, l.rest...)
}
