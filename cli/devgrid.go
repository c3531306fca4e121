package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/grid/client"
	"github.com/batchfleet/batchfleet/safefile"
)

// devGridDir has what dev --grid keeps.
const devGridDir = "./dev_grid"

// devCalc is the program of the exec calcA: any program will do, whatever its name.
const devCalc = `#!/bin/sh
# calcA of batchfleet dev --grid. Programs are given their arguments, and run in a directory with the files of the job.
echo "calcA has run with arguments: $*"
[ ! -e input.txt ] || wc -c input.txt
echo "what job $GRID_JOB_ID has made" >out.txt
`

// runDevGrid runs a leader and two workers in this process, until ctx ends, and a client that shows that they work.
func runDevGrid(ctx context.Context, kindsFile string, out io.Writer) error {
	if err := useKindsFile(kindsFile); err != nil {
		return program.Exit(program.Usage, err)
	}
	var env GridWorkerEnv
	if err := settings.Read(&env); err != nil {
		return err
	}
	exeDir := filepath.Join(devGridDir, "exe")
	for _, dir := range []string{devGridDir, exeDir} {
		if err := safefile.Dir(dir); err != nil {
			return program.Exit(program.Usage, err)
		}
	}
	if err := os.WriteFile(filepath.Join(exeDir, "calcA.exe"), []byte(devCalc), 0o700); err != nil { //nolint:gosec // a program
		return err
	}
	f := &gridLeaderFlags{}
	f.register(&cobra.Command{})
	var err error
	if f.listener, err = listenNear(ctx, "the leader", defaultLeader); err != nil {
		return err
	}
	if f.web, err = listenNear(ctx, "the Job API", gridWeb); err != nil {
		return err
	}
	addr := f.listener.Addr().String()
	_, f.port, _ = net.SplitHostPort(addr)
	f.dir = filepath.Join(devGridDir, "leader")

	// The leader ends last: the workers have results for it.
	leading, stopLeader := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLeader()
	working, stopWorkers := context.WithCancel(ctx)
	defer stopWorkers()
	var leader, workers sync.WaitGroup
	var failed error
	var once sync.Once
	end := func(err error) {
		if err != nil {
			once.Do(func() { failed = err })
			stopWorkers()
		}
	}
	leader.Go(func() { end(f.serve(leading, io.Discard)) })
	for range 2 {
		w := &gridWorkerFlags{leaders: []string{addr}}
		w.register(&cobra.Command{})
		w.exeDir, w.jobsDir, w.cacheDir, w.dir = exeDir, filepath.Join(devGridDir, "jobs"), filepath.Join(devGridDir, "cache"), filepath.Join(devGridDir, "workers")
		if err := w.arguments([]string{addr}); err != nil {
			return err
		}
		workers.Go(func() { end(w.serve(working, &env, io.Discard)) })
	}
	fmt.Fprint(out, devGridWelcome(addr, f.web.Addr().String(), exeDir, env.File))
	cfg := client.Config{ClientID: "demo", Leaders: []string{addr}, Log: program.NewLog(os.Stderr, slog.LevelWarn)}
	if err := client.Demo(working, cfg, out); err != nil && working.Err() == nil && !errors.Is(err, client.ErrFailed) {
		end(err)
	}
	<-working.Done()
	workers.Wait()
	stopLeader()
	leader.Wait()
	return failed
}

// devGridWelcome says where everything is, and what to type.
func devGridWelcome(leader, web, exeDir, kindsFile string) string {
	var b strings.Builder
	api := ""
	if web != gridWeb {
		api = " --api http://" + web
	}
	fmt.Fprintf(&b, "A leader is up, and two workers. Stop them with Ctrl-C.\n\n")
	fmt.Fprintf(&b, "  Dashboard  http://%s/\n  Leader     %s\n  Job API    http://%[1]s\n  Programs   %[3]s, as EXEC.exe\n", web, leader, exeDir)
	if kindsFile != "" {
		fmt.Fprintf(&b, "  Kinds      of %s, by their names\n", oneLine(kindsFile))
	}
	fmt.Fprintf(&b, "\nIn another terminal, submit jobs, and look at them:\n\n")
	fmt.Fprintf(&b, "  %s grid submit --leader %s --client me --wait calcA 1 2 3\n", typed(), leader)
	fmt.Fprintf(&b, "  %s grid submit --leader %s --client me --array 0-9 --wait calcA {i}\n", typed(), leader)
	fmt.Fprintf(&b, "  %s grid list%s\n  %s grid workers%s\n", typed(), api, typed(), api)
	fmt.Fprintf(&b, "\nMeanwhile a client submits three jobs:\n\n")
	return b.String()
}
