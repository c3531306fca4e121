// Command batchfleet runs batch jobs on a fleet of workers. See README.md.
package main

import (
	"os"

	"github.com/batchfleet/batchfleet/cli"
)

// version is set by release builds: -ldflags "-X main.version=v1.2.3".
var version string

func main() { os.Exit(cli.Run(os.Args[1:], version)) }
