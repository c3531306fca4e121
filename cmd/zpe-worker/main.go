// Command zpe-worker is the worker of a gateway without the rest of batchfleet:
// it speaks HTTPS and runs pw.x. It takes the settings of `batchfleet worker`
// with SOURCE; see docs/gateway.md.
package main

import (
	"os"

	"github.com/batchfleet/batchfleet/cli/agent"
	"github.com/batchfleet/batchfleet/cli/program"
)

// version is set by the linker.
var version = "unknown"

func main() {
	os.Exit(program.Run(agent.Command("zpe-worker", version), os.Args[1:], nil))
}
