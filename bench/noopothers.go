package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// noopOther is a system of another language. Its program queues BENCH_TASKS tasks in the Redis at
// REDIS_PORT, works them off, BENCH_SLOTS at once, and prints a noopLoad.
type noopOther struct {
	name    string
	n       int        // tasks
	file    string     // of the program
	program string     // its text
	setup   [][]string // commands in the directory that holds it
	command []string
}

//go:embed noop/bullmq.mjs
var bullMQProgram string

//go:embed noop/celery_tasks.py
var celeryProgram string

var (
	bullMQ = noopOther{
		name: "BullMQ", n: 20_000, file: "bullmq.mjs", program: bullMQProgram,
		setup:   [][]string{{"npm", "install", "--no-fund", "--no-audit", "--silent", "bullmq@5"}},
		command: []string{"node", "bullmq.mjs"},
	}
	celery = noopOther{
		name: "Celery", n: 2_000, file: "celery_tasks.py", program: celeryProgram,
		setup:   [][]string{{"python3", "-m", "venv", "venv"}, {"venv/bin/pip", "install", "--quiet", "celery[redis]==5.*"}},
		command: []string{"venv/bin/python", "celery_tasks.py"},
	}
)

// install installs it in dir.
func (o noopOther) install(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, o.file), []byte(o.program), 0o600); err != nil {
		return err
	}
	for _, args := range o.setup {
		if out, err := o.in(ctx, dir, args).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %.300s", args[0], err, out)
		}
	}
	return nil
}

// load has it do n tasks.
func (o noopOther) load(ctx context.Context, dir string, server *redisServer, n int) (l noopLoad, err error) {
	if err := server.rdb.FlushAll(ctx).Err(); err != nil {
		return l, err
	}
	cmd := o.in(ctx, dir, o.command)
	cmd.Env = append(os.Environ(), "REDIS_PORT="+server.port, fmt.Sprintf("BENCH_TASKS=%d", n), fmt.Sprintf("BENCH_SLOTS=%d", noopSlots))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return l, err
	}
	_, err = fmt.Sscan(string(out), &l.rate, &l.cpu, &l.memory)
	return l, errors.Join(err, server.rdb.FlushAll(ctx).Err())
}

// in is a command in dir, which a name with a slash is below.
func (o noopOther) in(ctx context.Context, dir string, args []string) *exec.Cmd {
	name := args[0]
	if filepath.Base(name) != name {
		name = filepath.Join(dir, name)
	}
	cmd := exec.CommandContext(ctx, name, args[1:]...)
	cmd.Dir = dir
	return cmd
}
