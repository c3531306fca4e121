package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/grid/access"
	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/internal/disk"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// gridDoctorCommand checks what a leader or a worker with the same arguments and flags needs.
func gridDoctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check everything a leader or a worker needs, and say what is wrong", Args: cobra.NoArgs,
		Long: "Check everything that a leader or a worker with the same arguments and flags needs, and say what is wrong and what to\n" +
			"do. Nothing is left behind.",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(gridLeaderDoctor(), gridWorkerDoctor())
	return cmd
}

func gridLeaderDoctor() *cobra.Command {
	var f gridLeaderFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use: "leader PORT", Short: "Check everything a leader with these flags needs", Args: cobra.ExactArgs(1),
		Example: "  batchfleet grid doctor leader 5000 --dir /var/lib/batchfleet/leader",
		RunE: func(cmd *cobra.Command, args []string) error {
			f.port, f.webChosen = args[0], cmd.Flags().Changed("http")
			return runChecks(cmd, f.checks(), nil, asJSON)
		},
	}
	f.register(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// checks returns what there is to look at.
func (f *gridLeaderFlags) checks() []check {
	quiet := slog.New(slog.DiscardHandler)
	all := []check{{
		"flags", "flags, certificates and rules",
		func(context.Context) (string, error) {
			err := f.check()
			if err == nil && f.acl != "" {
				_, err = access.Load(f.acl)
			}
			if err == nil && f.certFile != "" {
				_, err = access.OpenServerTLS(f.certFile, f.keyFile, f.clientCA, quiet)
			}
			if err == nil && f.jobTokens != "" {
				if _, err = jobapi.OpenTokens(f.jobTokens, "", quiet); err != nil {
					err = fmt.Errorf("--job-tokens-file: %w", err)
				}
			}
			return "no mistakes", err
		},
		always("correct the flags and files that are named"),
	}, {
		"listen", f.address(), func(ctx context.Context) (string, error) { return lookAtPort(ctx, f.address()) },
		always("stop what listens there, which may be a leader that runs, or give another PORT"),
	}}
	if f.http != "" {
		all = append(all, check{
			"http", f.http, func(ctx context.Context) (string, error) {
				found, err := lookAtPort(ctx, f.http)
				if !f.webChosen && errors.Is(err, syscall.EADDRINUSE) {
					return "in use, so the leader takes another port", nil
				}
				return found, err
			},
			always("stop what listens there, which may be a leader that runs, or give another --http"),
		})
	}
	if f.dir == "" {
		return append(all, check{
			"disk", "no --dir", func(context.Context) (string, error) {
				return "nothing is kept: jobs and results are gone when this leader ends", nil
			}, always(""),
		})
	}
	return append(all, check{
		"disk", f.dir, func(context.Context) (string, error) { return lookAtDir(f.dir, f.minFree) },
		always("give --dir a directory of this user's own, on a disk with more room than --min-free-bytes"),
	})
}

// lookAtPort reports whether this process could listen at an address.
func lookAtPort(ctx context.Context, addr string) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	return "free", l.Close()
}

// lookAtDir reports whether files can be made in a directory, or where it would be made, and how much room there is.
func lookAtDir(dir string, least int64) (string, error) {
	at, err := existing(dir)
	if err != nil {
		return "", err
	}
	if err := settings.Writable(at); err != nil {
		return "", err
	}
	free, err := disk.Free(at)
	switch {
	case err != nil:
		return "", err
	case free < least:
		return "", fmt.Errorf("%d bytes are free, and %d are wanted", free, least)
	}
	return fmt.Sprintf("%d bytes are free", free), nil
}

// existing returns a directory, or the one in which it would be made.
func existing(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	for err == nil {
		var info os.FileInfo
		if info, err = os.Stat(dir); err == nil && !info.IsDir() {
			return "", fmt.Errorf("%s is no directory", dir)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		dir, err = filepath.Dir(dir), nil
	}
	return dir, err
}

func gridWorkerDoctor() *cobra.Command {
	var f gridWorkerFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use: "worker HOST [PORT] [PATTERN]", Short: "Check everything a worker with these flags needs", Args: cobra.RangeArgs(1, 3),
		Long: "Check everything that a worker with these flags needs: its settings, the directories, the programs, and each leader,\n" +
			"which it greets as a worker that takes no jobs.",
		Example: "  batchfleet grid doctor worker 127.0.0.1 5000 --exe-dir /srv/exe",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.arguments(args); err != nil {
				return program.Exit(program.Usage, err)
			}
			return runChecks(cmd, f.checks(cmd.Context()), nil, asJSON)
		},
	}
	f.register(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// checks returns what there is to look at.
func (f *gridWorkerFlags) checks(ctx context.Context) []check {
	var env GridWorkerEnv
	wrong := errors.Join(f.check(), settings.Read(&env), f.peer.open(ctx, f.leaders, slog.New(slog.DiscardHandler)))
	ofKinds := f.kindsChecks(&env)
	all := []check{{
		"flags", "flags, settings, token and certificates", func(context.Context) (string, error) { return "no mistakes", wrong },
		always("correct the flags, variables and files that are named"),
	}, {
		"programs", f.exeDir, func(context.Context) (string, error) {
			n, err := f.programs(len(ofKinds) > 0)
			return jobs.Count(n, "program"), err
		},
		always("put the programs there, as EXEC.exe, and let them be executed (chmod +x), or give another --exe-dir"),
	}, {
		"jobs", f.jobsDir, func(ctx context.Context) (string, error) { return lookAtJobsDir(ctx, f.jobsDir) },
		always("give --jobs-dir a directory of this user's own, on a disk of this machine that lets programs run"),
	}, {
		"cache", f.cacheDir, func(context.Context) (string, error) {
			if _, err := os.ReadDir(f.cacheDir); errors.Is(err, fs.ErrNotExist) {
				return "there is none: jobs that name files of it fail", nil
			} else if err != nil {
				return "", err
			}
			return "it can be read", nil
		}, always("let this user read it, or give another --cache-dir"),
	}, {
		"results", f.dir, func(context.Context) (string, error) { return lookAtDir(f.dir, 0) },
		always("give --dir a directory of this user's own"),
	}}
	all = append(all, ofKinds...)
	if wrong != nil {
		return all
	}
	for _, addr := range f.leaders {
		all = append(all, check{
			"leader", addr, func(ctx context.Context) (string, error) { return f.greet(ctx, addr) },
			always("start the leader, or correct HOST, PORT, --tls or --token-file, as it says"),
		})
	}
	return all
}

// lookAtJobsDir reports whether a program can run in a directory.
func lookAtJobsDir(ctx context.Context, dir string) (string, error) {
	found, err := lookAtDir(dir, 0)
	if err != nil {
		return "", err
	}
	at, err := existing(dir)
	if err != nil {
		return "", err
	}
	trial, err := os.MkdirTemp(at, "batchfleet-check-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(trial) }() // it has one small file
	script := filepath.Join(trial, "run.exe")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexit 0\n"), 0o700); err != nil { //nolint:gosec // it is to run
		return "", err
	}
	if err := exec.CommandContext(ctx, script).Run(); err != nil {
		return "", fmt.Errorf("no program can run there (noexec?): %w", err)
	}
	return found + ", and programs run there", nil
}

// greet says hello to a leader, as a worker that takes no jobs.
func (f *gridWorkerFlags) greet(ctx context.Context, addr string) (string, error) {
	raw, err := f.peer.dial(ctx, addr)
	if err != nil {
		return "", err
	}
	conn := link.New(raw, link.Options{Dialed: true})
	defer conn.Abort(io.EOF)
	stop := context.AfterFunc(ctx, func() { conn.Abort(context.Cause(ctx)) })
	defer stop()
	hello, err := json.Marshal(wire.Capability{
		Proto: 2, Features: []string{wire.FeatureError, wire.FeatureDrain}, MaxParallel: 1, Host: "doctor", Version: versionText(), Running: []wire.Running{}, Token: f.peer.token,
	})
	if err != nil {
		return "", err
	}
	if err := conn.Send(wire.Frame{Type: wire.HelloWorker, MsgID: wire.NewGUID(), Subject: f.pattern, Payload: hello}); err != nil {
		return "", err
	}
	const welcomeTime = 3 * time.Second
	quiet := time.AfterFunc(welcomeTime, func() { conn.Abort(errNoWelcome) })
	defer quiet.Stop()
	answer, err := conn.Receive()
	switch {
	case errors.Is(err, errNoWelcome):
		return fmt.Sprintf("it takes the connection and sends no welcome within %s, as leaders of the original protocol do", welcomeTime), nil
	case err != nil:
		return "", fmt.Errorf("it has closed the connection: %w", err)
	case answer.Type == wire.Error:
		var said wire.ErrorInfo
		if err := json.Unmarshal(answer.Payload, &said); err != nil {
			return "", err
		}
		return "", fmt.Errorf("it refuses this worker: %s: %s", said.Code, said.Message)
	case answer.Type != wire.Welcome:
		return "", fmt.Errorf("it answers a hello with %s", answer.Type)
	}
	var w wire.WelcomeInfo
	if err := json.Unmarshal(answer.Payload, &w); err != nil {
		return "", err
	}
	kept := "it keeps jobs and results on disk"
	if !w.Durable {
		kept = "it keeps nothing on disk"
	}
	return "it welcomes this worker; " + kept, nil
}

var errNoWelcome = errors.New("no welcome")
