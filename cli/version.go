package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is what the linker gave the program; empty for a build from a checkout.
var version string

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "batchfleet %s %s %s/%s\n", versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

func versionText() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	text := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 && text == "(devel)" {
			text = "devel-" + s.Value[:12]
		}
	}
	return text
}
