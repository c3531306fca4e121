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

// completeWith is complete by a function of cobra.
func completeWith(cmd *cobra.Command, flag string, values cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, values); err != nil {
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
	if len(args) > 0 && !strings.HasSuffix(cmd.Use, "…") {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ids, directive := c.completed(begun, func(ctx context.Context) ([][2]string, error) {
		items, _, err := c.list(ctx, listing{Query: jobapi.Query{Limit: maxJobList}})
		now := time.Now()
		return each(items, func(i jobapi.Item) [2]string {
			return [2]string{i.ID, kindOf(i.Type) + ", " + i.Status.String() + ", " + age(now, i.CreatedAt)}
		}), err
	})
	if len(ids) > 0 {
		directive |= cobra.ShellCompDirectiveKeepOrder
	}
	return ids, directive
}

// completed returns those words of a list that begin so, each with what it is. It opens the connection.
func (c *connection) completed(begun string, list func(context.Context) ([][2]string, error)) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	if c.tokenFile == "-" || os.Getenv("BATCHFLEET_TOKEN_FILE") == "-" { // it would wait for standard input
		return nil, none
	}
	if c.open(ctx, needRedis, io.Discard) != nil {
		return nil, none
	}
	defer c.close()
	all, err := list(ctx)
	if err != nil {
		return nil, none
	}
	var found []string
	for _, one := range all {
		if strings.HasPrefix(one[0], begun) {
			found = append(found, oneLine(one[0])+"\t"+oneLine(one[1]))
		}
	}
	return found, none
}
