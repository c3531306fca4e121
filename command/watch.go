package command

import (
	"fmt"
	"time"
)

const (
	countEvery   = 100 * time.Millisecond
	measureEvery = time.Second
	// watchShare is the part of the time that a check may take: a twentieth.
	watchShare = 20
	// maxUnmeasured is for how long the use of the disk may be unknown.
	maxUnmeasured = 10 * time.Second
)

// watch starts what stops the process when it uses more than it may and the kernel does not tell.
func (r *run) watch() {
	if r.Limits.Processes > 0 && !r.Alone {
		r.helpers.Go(func() { r.check(countEvery, r.countProcesses) })
	}
	if r.Limits.Disk > 0 && r.DiskUsage != nil {
		r.helpers.Go(func() { r.check(measureEvery, r.measureDisk()) })
	}
}

// check calls a check again and again, until the process has exited or is stopped. It stops the process if
// the check returns an error.
func (r *run) check(every time.Duration, check func() error) {
	pause := time.NewTimer(every)
	defer pause.Stop()
	for {
		select {
		case <-r.exited:
			return
		case <-r.stopping.Done():
			return
		case <-pause.C:
		}
		began := time.Now()
		if err := check(); err != nil {
			r.stop(err)
			return
		}
		pause.Reset(max(every, (watchShare-1)*time.Since(began)))
	}
}

// countProcesses returns a limitError if there are too many processes.
func (r *run) countProcesses() error {
	if n, refused := r.descendants.count(r.proc.Pid); n > r.Limits.Processes || refused {
		return &limitError{OverProcesses, fmt.Sprintf("%d processes and threads", r.Limits.Processes)}
	}
	return nil
}

// measureDisk returns a check that returns a limitError if too much of the disk is used.
func (r *run) measureDisk() func() error {
	known := time.Now() // when the use was known last
	return func() error {
		used, err := r.DiskUsage()
		switch now := time.Now(); {
		case used > r.Limits.Disk: // an error or not
			return &limitError{OverDisk, size(r.Limits.Disk) + " of disk"}
		case err == nil:
			known = now
		case now.Sub(known) > maxUnmeasured:
			return &limitError{OverDisk, fmt.Sprintf("%s of disk, and what it uses cannot be measured: %v", size(r.Limits.Disk), err)}
		}
		return nil
	}
}
