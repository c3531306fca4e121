package cli

import (
	"context"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/jobapi"
)

// complete makes the shell complete the values of a flag.
func complete(cmd *cobra.Command, flag string, values func() []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return values(), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // there is no such flag
	}
}

// words returns values for [complete].
func words(values ...string) func() []string { return func() []string { return values } }

// completeNoFiles keeps shells from completing names of files where a command takes no
// arguments.
func completeNoFiles(c *cobra.Command) {
	if c.ValidArgsFunction == nil && !strings.Contains(c.Use, " ") {
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range c.Commands() {
		completeNoFiles(sub)
	}
}

// hide leaves flags out of the help: they are spelled in another way now.
func hide(cmd *cobra.Command, flags ...string) {
	for _, f := range flags {
		if err := cmd.Flags().MarkHidden(f); err != nil {
			panic(err)
		}
	}
}

func jsonFlag(cmd *cobra.Command, asJSON *bool) {
	cmd.Flags().BoolVar(asJSON, "json", false, "print JSON, one object a line")
}

// completionTime bounds how long a shell waits for ids of jobs.
const completionTime = 2 * time.Second

// completeJobs completes ids of jobs with the newest, and tells what each is.
func (c *connection) completeJobs(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	if c.tokenFile == "-" || os.Getenv("BATCHFLEET_TOKEN_FILE") == "-" { // it would wait for standard input
		return nil, none
	}
	if len(args) > 0 && !strings.HasSuffix(cmd.Use, "…") || c.open(ctx, needRedis, io.Discard) != nil {
		return nil, none
	}
	defer c.close()
	items, _, err := c.list(ctx, jobapi.Query{Limit: maxJobList})
	if err != nil {
		return nil, none
	}
	now := time.Now()
	var ids []string
	for _, i := range items {
		if strings.HasPrefix(i.ID, begun) {
			ids = append(ids, oneLine(i.ID)+"\t"+oneLine(kindOf(i.Type)+", "+i.Status.String()+", "+age(now, i.CreatedAt)))
		}
	}
	return ids, none | cobra.ShellCompDirectiveKeepOrder
}
