package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"time"
)

// starts measures the command from its start to the first answer over TCP.
func starts(ctx context.Context, r *report) error {
	binary, err := build(ctx, r.dir)
	if err != nil {
		return err
	}
	var took []float64
	for range 11 {
		d, err := start(ctx, binary)
		if err != nil {
			return err
		}
		took = append(took, float64(d)/float64(time.Millisecond))
	}
	r.add("the command, from exec to its first answer", median(took), "ms", atMost(50))
	r.add("the command, the slowest of 11", quantile(took, 1), "ms", bar{})
	return nil
}

func start(ctx context.Context, binary string) (took time.Duration, err error) {
	port, err := freePort(ctx)
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, binary, "emulator", "--addr", "127.0.0.1:"+port, "--project", "bench", "--topic", "jobs", "--subscription", "jobs")
	cmd.Env, cmd.Stderr = []string{}, io.Discard
	began := time.Now()
	p, err := spawn(cmd, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		answer, err := get(ctx, http.DefaultClient, "http://127.0.0.1:"+port+"/healthz")
		if err == nil {
			return time.Since(began), answer.Close()
		}
		if ctx.Err() != nil {
			return 0, err
		}
		pause(200 * time.Microsecond)
	}
}
