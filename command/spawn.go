package command

import (
	"os"
	"runtime"
)

// spawn makes the pipes and the process.
func (r *run) spawn(session bool) error {
	var theirs, ours []*os.File
	defer func() { closeAll(theirs) }()
	stdin, err := r.stdinPipe(session)
	if err != nil {
		return err
	}
	theirs = append(theirs, stdin)
	if r.stdin != nil {
		ours = append(ours, r.stdin)
	}
	for _, p := range []**pipeReader{&r.stdout, &r.stderr} {
		read, write, err := newPipe(reading)
		if err != nil {
			closeAll(ours)
			return err
		}
		theirs, ours = append(theirs, write), append(ours, read)
		*p = &pipeReader{f: read}
	}
	if !r.Alone {
		idle := r.Cgroups
		if r.Started != nil {
			idle = nil // Sweep may be told of the run, and its cgroup has its name
		}
		r.descendants = newDescendants(r.Limits, idle)
	}
	if err := r.spawnLocked(theirs, session); err != nil {
		closeAll(ours)
		return err
	}
	return nil
}

// stdinPipe returns the file that the process is to read from.
func (r *run) stdinPipe(session bool) (*os.File, error) {
	if r.Stdin == nil && !session {
		return os.Open(os.DevNull)
	}
	read, write, err := newPipe(writing)
	r.stdin = write
	return read, err
}

// spawnLocked starts the process under its limits, on a thread that lives until the process has
// exited: the kernel takes the end of the thread that made a process for the
// death of its parent, and Go may end any thread it has not been told to keep. A session's
// process waits for its first request, and another one is held until the limits are in force.
func (r *run) spawnLocked(files []*os.File, session bool) error {
	env := append([]string{}, r.Env...) // nil would mean ours
	if r.descendants.marker != "" {
		env = append(env, Marker+"="+r.descendants.marker)
	}
	attr := &os.ProcAttr{Dir: r.Dir, Env: env, Files: files, Sys: sysProcAttr()}
	started := make(chan error)
	r.helpers.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		held := false
		err := r.descendants.start(attr.Sys, func() (err error) {
			argv := append([]string{r.Path}, r.Args...)
			if session {
				r.proc, err = os.StartProcess(r.Path, argv, attr)
			} else {
				r.proc, held, err = startHeld(r.Path, argv, attr)
			}
			return err
		})
		if held {
			awaitHeld(r.proc)
		}
		if err == nil {
			r.unlimited = r.prepare()
		}
		if held {
			letGo(r.proc)
		}
		started <- err
		if err == nil {
			r.state, r.waitErr = waitExit(r.proc)
			close(r.exited)
		}
	})
	err := <-started
	if err != nil {
		r.helpers.Wait()
	}
	return err
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // pipes: nothing can be lost
	}
}
