package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

func getCommand(c *connection) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "get JOB…", Aliases: []string{"status", "show"}, Short: "Show how a job stands, and its steps", Args: cobra.MinimumNArgs(1),
		Example: `  batchfleet get 01KDZ3NDEKTSV4RRFFQ69G5FAV
  batchfleet get --json 01KDZ3NDEKTSV4RRFFQ69G5FAV | jq .result`,
	}
	shown := 0
	cmd.RunE = c.ofJob(needRedis, "get", func(ctx context.Context, cmd *cobra.Command, j jobapi.Job) error {
		out := cmd.OutOrStdout()
		if asJSON {
			return printJSON(out, j)
		}
		if shown++; shown > 1 {
			fmt.Fprintln(out)
		}
		why := ""
		if j.Status == jobs.Queued {
			why = c.whyQueued(ctx, j.Scope, knownKind(j))
		}
		return printJob(out, j, why, c.group, c.given())
	})
	c.flags(cmd)
	c.scopeFlag(cmd)
	jsonFlag(cmd, &asJSON)
	cmd.ValidArgsFunction = c.completeJobs
	return cmd
}

// knownKind returns a job's kind, empty where that is not known.
func knownKind(j jobapi.Job) jobs.Kind {
	if j.Type == unknownType {
		return ""
	}
	return jobs.Kind(kindOf(j.Type))
}

// printJob prints a job, with why it is queued, if that is known. group and server are those of the command that fetches its files.
func printJob(out io.Writer, j jobapi.Job, why, group, server string) error {
	failure := ""
	if j.Error != nil {
		failure = reasonOf(j.Error)
	}
	result, files := jsonObject(j.Result), ""
	if _, keeps := keepers[j.Scope]; keeps && j.Status == jobs.Succeeded {
		files = "batchfleet " + group + "result -o " + oneLine(j.ID) + " " + oneLine(j.ID) + server
	}
	t := newTable(out)
	t.pairs(
		"job", j.ID, "kind", kindOf(j.Type), "state", j.Status, "why queued", why,
		"created", moment(j.CreatedAt.Time), "started", moment(j.StartedAt.Time), "finished", moment(j.FinishedAt.Time),
		"attempt", number(j.Attempt), "worker", workerOf(j.Worker, j.Silent), "request", jsonObject(j.Request), "result", result, "files", files, "error", failure,
	)
	if err := t.flush(); err != nil || len(j.Steps) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	return printRows(out, false, j.Steps, []any{"STEP", "STATE", "TOOK", "MESSAGE"}, func(s jobapi.Step) []any {
		return []any{s.Name, s.Status, seconds(s.StartedAt, s.FinishedAt), s.Message}
	})
}

// keepers are the scopes whose jobs leave files.
var keepers = map[string]bool{"fleet": true, "zpe": true, "gateway": true, "relay": true, "grid": true}

// jsonObject returns an object as it is, and nothing for none or an empty one.
func jsonObject(raw json.RawMessage) string {
	if s := string(raw); s != "null" && s != "{}" {
		return s
	}
	return ""
}

// reasonOf says why a job has failed: its message behind its code, unless that only says that it has
// failed, or the message begins with it already.
func reasonOf(e *jobapi.Error) string {
	switch {
	case e.Message == "":
		return e.Code
	case e.Code == jobapi.CodeFailed, strings.HasPrefix(e.Message, e.Code+": "):
		return e.Message
	}
	return e.Code + ": " + e.Message
}

// ended is an error with exit code 1 unless the job has succeeded.
func ended(j jobapi.Job) error {
	switch {
	case j.Status == jobs.Succeeded:
		return nil
	case j.Error != nil:
		return program.Exit(program.Failed, fmt.Errorf("job %s %s: %s", j.ID, j.Status, reasonOf(j.Error)))
	}
	return program.Exit(program.Failed, fmt.Errorf("job %s %s %s", j.ID, j.Status.Verb(), j.Status))
}
