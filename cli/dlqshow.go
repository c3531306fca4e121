package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/operations/deadletter"
)

func dlqShowCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "show ID", Short: "Show everything of a dead letter, its data too", Args: cobra.ExactArgs(1)}
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = atDesk(waitFlag(cmd), func(_ context.Context, d *desk, args []string) error {
		found, missing := deadletter.Named(d.all, args)
		if err := lacking(missing); err != nil {
			return err
		}
		if *asJSON {
			return printLetterJSON(d.out, found[0])
		}
		return printLetter(d.out, found[0])
	})
	return cmd
}

// printLetterJSON prints the data as text where it is text.
func printLetterJSON(out io.Writer, d deadletter.Item) error {
	l := d.Last()
	v := struct {
		deadRow
		Attributes map[string]string `json:"attributes"`
		Data       *string           `json:"data,omitempty"`
		Base64     string            `json:"data_base64,omitempty"`
		Kept       int               `json:"bytes_kept"`
	}{deadRow: newDeadRow(d), Attributes: l.Message, Kept: len(l.Data)}
	if utf8.Valid(l.Data) {
		text := string(l.Data)
		v.Data = &text
	} else {
		v.Base64 = base64.StdEncoding.EncodeToString(l.Data)
	}
	return printJSON(out, v)
}

func printLetter(out io.Writer, d deadletter.Item) error {
	r := newDeadRow(d)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var err error
	row := func(name string, v any) {
		if s := oneLine(fmt.Sprint(v)); s != "" {
			_, bad := fmt.Fprintf(t, "%s\t%s\n", name, s)
			err = errors.Join(err, bad)
		}
	}
	row("name", r.Name)
	row("kind", r.Kind)
	row("cause", r.Cause)
	row("reason", r.Reason)
	row("failed", moment(r.FailedAt))
	row("attempts", r.Attempts)
	row("letters", r.Letters)
	row("subscription", r.Subscription)
	row("message", r.MessageID)
	for _, name := range slices.Sorted(maps.Keys(d.Last().Message)) {
		row("attribute "+oneLine(name), d.Last().Message[name])
	}
	row("bytes", r.Bytes)
	if d.Last().Cut > 0 {
		row("bytes kept", len(d.Last().Data))
	}
	if err := errors.Join(err, t.Flush()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "\n%s\n", severalLines(d.Last().Data))
	return err
}

// severalLines makes data safe for a terminal, line by line.
func severalLines(data []byte) string { return jobs.Visible(string(data)) }
