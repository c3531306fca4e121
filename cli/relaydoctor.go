package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/httpd/egress"
	"github.com/batchfleet/batchfleet/relay"
)

// relayDoctorCommand checks what a relay with the same flags needs.
func relayDoctorCommand() *cobra.Command {
	var f relayFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check everything a relay with these flags needs, and say what is wrong", Args: cobra.NoArgs,
		Example: "  batchfleet relay doctor --kinds kinds.toml --orchestrator https://orchestrator.example.com",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runChecks(cmd, f.checks(cmd.Context()), nil, asJSON)
		},
	}
	f.register(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// checks returns what there is to look at.
func (f *relayFlags) checks(ctx context.Context) []check {
	quiet := slog.New(slog.DiscardHandler)
	help := func(text string) func(error) string { return func(error) string { return text } }
	r, wrong := f.relay(ctx, quiet)
	all := []check{{
		"flags", "flags, tokens and secrets",
		func(context.Context) (string, error) {
			if mode, ok := readByOthers(f.tokenFile); ok && wrong == nil {
				return "", fmt.Errorf("other users of this machine may read %s: it has mode %s; chmod 600", f.tokenFile, mode)
			}
			return "no mistakes", wrong
		},
		help("correct the flags and files that are named"),
	}}
	all = append(all, check{
		"listen", f.addr,
		f.lookAtAddress,
		help("stop what listens there, or give another --addr"),
	})
	if f.kinds != "" {
		if err := os.Setenv("KINDS_FILE", f.kinds); err == nil {
			all = append(all, inWords(kindsChecks(), "KINDS_FILE", "--kinds")...)
		}
	}
	all = append(all, check{
		"gpus", f.gpus,
		f.lookAtGPUs,
		help("give --gpus those that nvidia-smi -L lists, or none"),
	}, check{
		"disk", f.dir,
		func(ctx context.Context) (string, error) { return relay.CheckDir(f.dir, f.minFree) },
		help("give --dir a directory of this user's own, on a disk with more room than --min-free-bytes"),
	})
	orchestrator, look := "none", func(context.Context) (string, error) {
		return "without --orchestrator nothing is uploaded: files are fetched from the relay", nil
	}
	if r.Orchestrator != nil {
		orchestrator, look = r.Orchestrator.Redacted(), func(ctx context.Context) (string, error) { return askOrchestrator(ctx, r) }
	}
	return append(all, check{"upload", orchestrator, look, help("start the orchestrator, or correct --orchestrator; a proxy of the environment is not used")})
}

// lookAtAddress reports whether a relay could listen at its address, unless it does so already.
func (f *relayFlags) lookAtAddress(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.addr)
	if err == nil {
		return "free", l.Close()
	}
	if found, _ := relay.CheckDir(f.dir, f.minFree); errors.Is(err, syscall.EADDRINUSE) && strings.HasPrefix(found, relay.RunsThere) {
		return "in use, and a relay runs in --dir", nil
	}
	return "", err
}

// lookAtGPUs returns the GPUs that a relay would use, and why nvidia-smi knows nothing about them.
func (f *relayFlags) lookAtGPUs(ctx context.Context) (string, error) {
	env, err := f.openGPUs(ctx, slog.New(slog.DiscardHandler))
	found := cmp.Or(env.GPUs, "none: kinds that need a GPU do not run here")
	if err != nil || f.gpus == "none" {
		return found, err
	}
	if _, why := probeGPUs(ctx); why != nil {
		found += " (" + why.Error() + ")"
	}
	return found, nil
}

// inWords has what checks advise name a setting as it is named here.
func inWords(checks []check, theirs, ours string) []check {
	for i, c := range checks {
		checks[i].help = func(err error) string { return strings.ReplaceAll(c.help(err), theirs, ours) }
	}
	return checks
}

// askOrchestrator reports whether the orchestrator answers at all: it is asked for nothing, and without the token.
func askOrchestrator(ctx context.Context, r *relay.Relay) (string, error) {
	c := egress.New(egress.Only(r.Orchestrator))
	defer c.Close()
	resp, err := c.Do(ctx, &egress.Request{Method: http.MethodHead, URL: r.Orchestrator.String(), Timeout: 5 * time.Second})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("it answers, with status %d to a request for nothing", resp.Status), nil
}
