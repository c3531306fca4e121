package cli

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/grid/client"
)

func gridCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "grid",
		Short: "Run programs on many machines, given out by a leader over TCP",
		Long: "Run programs on many machines: clients submit jobs to a leader, which gives them to workers, over TCP. A job names an\n" +
			"exec, which is a program EXEC.exe in a directory of the workers.\n\n" +
			"leader, router, worker, client and clientx are the parts; submit gives jobs to leaders. The other commands ask a\n" +
			"leader of this machine about its jobs, over HTTP, and another one with --api. `batchfleet dev --grid` shows it all in\n" +
			"one process.",
		Example: `  batchfleet grid leader 5000 --dir /var/lib/batchfleet/leader
  batchfleet grid worker 127.0.0.1 5000 job.assign.*
  batchfleet grid client 127.0.0.1 5000 clientA 8`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(gridLeaderCommand(), gridRouterCommand(), gridWorkerCommand(), gridClientCommand(), gridMultiCommand(), gridSubmitCommand(), gridResultsCommand())
	c.AddCommand(append(gridJobsCommands(), gridDLQCommand(), gridWorkersCommand(), gridDoctorCommand())...)
	return c
}

// checkPort returns what is wrong with a port.
func checkPort(what, text string, least int) error {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || int(n) < least || text[0] == '+' {
		return fmt.Errorf("%s is %.20q: must be from %d to 65535", what, text, least)
	}
	return nil
}

// joinLeader returns the address of a leader whose host and port are two arguments. An IPv6 address may have brackets.
func joinLeader(host, port string) (string, error) {
	if err := checkPort("PORT", port, 1); err != nil {
		return "", err
	}
	bare := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if _, err := netip.ParseAddr(bare); err != nil && strings.Contains(bare, ":") {
		return "", fmt.Errorf("HOST is %.300q: want a name or an address alone, as the port is an argument of its own", host)
	}
	addr := net.JoinHostPort(bare, port)
	if _, _, err := client.ParseEndpoints([]string{addr}); err != nil {
		return "", fmt.Errorf("HOST is %.300q: %w", host, err)
	}
	return addr, nil
}

// leaderList reads a list of leaders, HOST:PORT of each with commas between them.
func leaderList(list string) ([]string, error) {
	all := strings.Split(list, ",")
	if slices.ContainsFunc(all, func(a string) bool { return !strings.Contains(a, ":") }) {
		return nil, fmt.Errorf("%.300q: want HOST:PORT of each leader, with commas between them", list)
	}
	leaders, _, err := client.ParseEndpoints(all)
	return leaders, err
}

// isPort reports whether an argument is meant as a port.
func isPort(arg string) bool {
	return arg != "" && strings.Trim(arg, "0123456789") == ""
}
