package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/operations/deadletter"
)

func dlqShowCommand() *cobra.Command {
	s := &dlqScope{}
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show everything of a dead letter, its data too", Args: cobra.ExactArgs(1),
		Example: "  batchfleet dlq show 01KDZ3NDEKTSV4RRFFQ69G5FAV",
	}
	s.flags(cmd)
	var asJSON bool
	jsonFlag(cmd, &asJSON)
	fleet := withDeadLetters(waitFlag(cmd), func(_ context.Context, d *dlqSession, args []string) error {
		found, missing := deadletter.Named(d.all, args)
		if err := lacking(missing); err != nil {
			return err
		}
		if asJSON {
			return printDeadLetterJSON(d.out, found[0])
		}
		return printDeadLetter(d.out, found[0])
	})
	cmd.RunE = s.ofScope(fleet, func(ctx context.Context, cmd *cobra.Command, args []string) error {
		j, err := s.gateway().DeadLetter(ctx, s.kind, args[0])
		refused, ok := errors.AsType[*jobapi.Refusal](err)
		switch {
		case ok && refused.Code == string(wire.JobNotFound), err == nil && j.Detail == queue.Canceled:
			return noDeadLetter(args)
		case err != nil:
			return err
		case asJSON:
			return printJSON(cmd.OutOrStdout(), newWholeDeadJob(j))
		}
		return printDeadJob(cmd.OutOrStdout(), newWholeDeadJob(j))
	})
	return cmd
}

// wholeDeadRow is how a dead letter is printed as JSON with all that its message has.
type wholeDeadRow struct {
	deadRow
	Attributes map[string]string `json:"attributes"`
	Data       *string           `json:"data,omitempty"`
	Base64     string            `json:"dataBase64,omitempty"`
	Kept       int               `json:"bytesKept"`
}

// printDeadLetterJSON prints the data as text if it is valid UTF-8, else as base64.
func printDeadLetterJSON(out io.Writer, d deadletter.Item) error {
	l := d.Last()
	v := wholeDeadRow{deadRow: newDeadRow(d), Attributes: l.Message, Kept: len(l.Data)}
	if utf8.Valid(l.Data) {
		v.Data = new(string(l.Data))
	} else {
		v.Base64 = base64.StdEncoding.EncodeToString(l.Data)
	}
	return printJSON(out, v)
}

func printDeadLetter(out io.Writer, d deadletter.Item) error {
	r := newDeadRow(d)
	name := "name" // of a message that names no job
	if r.Name == string(r.JobID) {
		name = "job"
	}
	t := newTable(out)
	t.pairs(
		name, r.Name, "kind", r.Kind, "cause", r.Cause, "reason", r.Reason, "failed", moment(r.FailedAt),
		"attempts", r.Attempts, "dead letters", r.Letters, "subscription", r.Subscription, "message", r.MessageID,
	)
	for _, name := range slices.Sorted(maps.Keys(d.Last().Message)) {
		t.pairs("attribute "+name, d.Last().Message[name])
	}
	t.pairs("bytes", r.Bytes)
	if d.Last().Cut > 0 {
		t.pairs("bytes kept", len(d.Last().Data))
	}
	if err := t.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s\n", severalLines(d.Last().Data))
	return err
}

// wholeDeadJob is how a dead letter of a gateway is printed as JSON: its data is the job's payload.
type wholeDeadJob struct {
	deadRow
	WorkerID   string  `json:"workerId,omitempty"`
	WorkerName string  `json:"workerName,omitempty"`
	ErrorCode  string  `json:"errorCode,omitempty"`
	Data       *string `json:"data,omitempty"`
	Traceback  string  `json:"traceback,omitempty"`
}

func newWholeDeadJob(j wire.JobResponse) wholeDeadJob {
	w := wholeDeadJob{deadRow: deadRowOf(j), WorkerID: j.WorkerID, WorkerName: j.WorkerName, ErrorCode: j.ErrorCode, Traceback: j.Traceback}
	if w.Bytes = len(j.Payload); w.Bytes > 0 {
		w.Data = new(string(j.Payload))
	}
	return w
}

func printDeadJob(out io.Writer, w wholeDeadJob) error {
	worker := w.WorkerID
	if w.WorkerName != "" && worker != "" {
		worker += " (" + w.WorkerName + ")"
	}
	t := newTable(out)
	t.pairs(
		"job", w.Name, "kind", w.Kind, "cause", w.Cause, "reason", w.Reason, "failed", moment(w.FailedAt),
		"attempts", w.Attempts, "worker", worker, "bytes", number(w.Bytes),
	)
	if err := t.flush(); err != nil {
		return err
	}
	payload := "its payload is not kept any more"
	if w.Data != nil {
		payload = severalLines([]byte(*w.Data))
	}
	if _, err := fmt.Fprintf(out, "\n%s\n", payload); err != nil || w.Traceback == "" {
		return err
	}
	_, err := fmt.Fprintf(out, "\ntraceback\n%s\n", severalLines([]byte(strings.TrimRight(w.Traceback, "\r\n"))))
	return err
}

// severalLines makes data safe for a terminal, line by line.
func severalLines(data []byte) string { return jobs.Visible(string(data)) }
