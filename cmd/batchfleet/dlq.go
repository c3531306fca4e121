package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

func dlqCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "Look at dead letters: jobs that failed and messages that name no job; queue them again or drop them",
		Long: "Look at dead letters: the messages of jobs that failed, and messages that name no job (called message:ID).\n" +
			"They are read from DEAD_LETTER_SUBSCRIPTION, by default the one named as DEAD_LETTER_TOPIC. While one dlq\n" +
			"command holds letters no other sees them; one that is killed gives them back after 30 seconds.",
	}
	cmd.AddCommand(dlqListCommand(), dlqShowCommand(), dlqRedriveCommand(), dlqPurgeCommand())
	return cmd
}

// dead is what was given up under one name: the letters of one job, or of one
// message that names no job, newest first.
type dead struct {
	name    string
	letters []worker.Letter // at least one
}

// last is the newest of its letters, which stands for all.
func (d dead) last() worker.Letter { return d.letters[0] }

// grouped puts letters of one name together, newest first.
func grouped(letters []worker.Letter) []dead {
	newestFirst := func(a, b worker.Letter) int { return b.At.Compare(a.At) }
	byName := map[string]dead{}
	for _, l := range letters {
		name := l.Name()
		byName[name] = dead{name, append(byName[name].letters, l)}
	}
	all := slices.Collect(maps.Values(byName))
	for _, d := range all {
		slices.SortStableFunc(d.letters, newestFirst)
	}
	slices.SortFunc(all, func(a, b dead) int {
		if c := newestFirst(a.last(), b.last()); c != 0 {
			return c
		}
		return strings.Compare(a.name, b.name)
	})
	return all
}

// lettersOf returns all letters of several.
func lettersOf(all []dead) []worker.Letter {
	var letters []worker.Letter
	for _, d := range all {
		letters = append(letters, d.letters...)
	}
	return letters
}

// desk is where letters lie while a command looks at them.
type desk struct {
	env ClientEnv
	box *worker.LetterBox
	all []dead // newest first
	out io.Writer
	err io.Writer
}

// atDesk makes the body of a dlq command: it takes all the letters, lets do look
// at them, and hands back what do has not dropped, whatever happens.
func atDesk(wait *time.Duration, do func(ctx context.Context, d *desk, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		d := &desk{out: cmd.OutOrStdout(), err: cmd.ErrOrStderr()}
		if err := readEnv(&d.env); err != nil {
			return err
		}
		if *wait < 100*time.Millisecond || *wait > time.Minute {
			return exitError{exitUsage, fmt.Errorf("--wait is %s: must be from 100ms to 1m", *wait)}
		}
		var mistakes []error
		for _, name := range args {
			_, err := worker.ParseLetterName(name)
			mistakes = append(mistakes, err)
		}
		if err := errors.Join(mistakes...); err != nil {
			return exitError{exitUsage, err}
		}
		ctx := cmd.Context()
		return coded(ctx, d.open(ctx, *wait, func() error { return do(ctx, d, args) }))
	}
}

func (d *desk) open(ctx context.Context, wait time.Duration, do func() error) (err error) {
	name, err := d.env.deadSubscription()
	if err == nil && name == "" {
		err = errors.New("DEAD_LETTER_TOPIC is not set, nor DEAD_LETTER_SUBSCRIPTION: there are no dead letters to look at")
	}
	if err != nil {
		return exitError{exitUsage, err}
	}
	opts, err := worker.PubSubOptions(d.env.Emulator)
	if err != nil {
		return exitError{exitUsage, err}
	}
	d.box, err = worker.OpenLetterBox(ctx, name, d.env.rules(""), opts...)
	if err != nil {
		return err
	}
	defer d.box.Close()
	keeping, stop := context.WithCancel(ctx)
	var keeper sync.WaitGroup
	keeper.Go(func() { d.box.Keep(keeping) })
	defer func() {
		stop()
		keeper.Wait()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if back := d.box.HandBackAll(last); back != nil {
			fmt.Fprintf(d.err, "the letters come back within a minute, because they could not be handed back: %v\n", back)
		}
	}()
	letters, full, err := d.box.Collect(ctx, wait)
	if err != nil {
		return err
	}
	if full {
		fmt.Fprintf(d.err, "there may be more: only %d letters are looked at at once\n", len(letters))
	}
	d.all = grouped(letters)
	return do()
}

// named returns those with the given names, and the names that no letter has.
func (d *desk) named(names []string) (found []dead, missing []string) {
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if i := slices.IndexFunc(d.all, func(one dead) bool { return one.name == name }); i >= 0 {
			found = append(found, d.all[i])
		} else {
			missing = append(missing, name)
		}
	}
	return found, missing
}

// lacking is the error for names that no letter has.
func lacking(missing []string) error {
	if len(missing) == 0 {
		return nil
	}
	return exitError{exitFailed, fmt.Errorf("no dead letter of %s (or somebody else holds it just now)", strings.Join(missing, ", "))}
}

func waitFlag(cmd *cobra.Command) *time.Duration {
	return cmd.Flags().Duration("wait", 3*time.Second, "for how long to wait for a further letter before taking it that this is all")
}

// deadRow is how dead letters of one name are printed as JSON.
type deadRow struct {
	Name         string    `json:"name"` // what to call it in other dlq commands
	JobID        jobs.ID   `json:"job_id,omitempty"`
	Kind         jobs.Kind `json:"kind,omitempty"`
	Cause        string    `json:"cause"`
	Reason       string    `json:"reason"`
	FailedAt     time.Time `json:"failed_at"`
	Attempts     int       `json:"attempts"`
	Letters      int       `json:"letters"`
	Subscription string    `json:"subscription,omitempty"`
	MessageID    string    `json:"message_id,omitempty"`
	Bytes        int       `json:"bytes"` // of the message's data
}

func newDeadRow(d dead) deadRow {
	l := d.last()
	return deadRow{
		Name: d.name, JobID: l.Job.ID, Kind: l.Job.Kind, Cause: l.Cause, Reason: l.Reason, FailedAt: l.At.UTC(), Attempts: l.Attempt,
		Letters: len(d.letters), Subscription: l.Queue, MessageID: l.MessageID, Bytes: max(l.Cut, len(l.Data)),
	}
}

func dlqListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List dead letters, a row a job, newest first", Args: cobra.NoArgs}
	count := cmd.Flags().Int("count", 100, "how many jobs, at most")
	oldest := cmd.Flags().Bool("oldest", false, "oldest first")
	asJSON := cmd.Flags().Bool("json", false, "print JSON, one object a line")
	cmd.RunE = atDesk(waitFlag(cmd), func(_ context.Context, d *desk, _ []string) error {
		if *count < 1 || *count > worker.MaxLetters {
			return exitError{exitUsage, fmt.Errorf("--count is %d: must be from 1 to %d", *count, worker.MaxLetters)}
		}
		if *oldest {
			slices.Reverse(d.all)
		}
		shown := d.all[:min(*count, len(d.all))]
		if err := printDead(d.out, shown, *asJSON); err != nil {
			return err
		}
		if more := len(d.all) - len(shown); more > 0 {
			fmt.Fprintf(d.err, "%d more: raise --count\n", more)
		}
		if len(d.all) == 0 {
			fmt.Fprintln(d.err, "no dead letters, or somebody else holds them just now")
		}
		return nil
	})
	return cmd
}

func printDead(out io.Writer, all []dead, asJSON bool) error {
	if asJSON {
		for _, d := range all {
			if err := printJSON(out, newDeadRow(d)); err != nil {
				return err
			}
		}
		return nil
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, err := fmt.Fprintln(t, "TIME\tJOB\tKIND\tATTEMPTS\tREASON")
	for _, d := range all {
		l := d.last()
		_, bad := fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\n", l.At.UTC().Format(time.RFC3339), oneLine(d.name), oneLine(string(l.Job.Kind)), l.Attempt, oneLine(l.Reason))
		err = errors.Join(err, bad)
	}
	return errors.Join(err, t.Flush())
}

func dlqShowCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "show ID", Short: "Show everything of a dead letter, its data too", Args: cobra.ExactArgs(1)}
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = atDesk(waitFlag(cmd), func(_ context.Context, d *desk, args []string) error {
		found, missing := d.named(args)
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
func printLetterJSON(out io.Writer, d dead) error {
	l := d.last()
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

func printLetter(out io.Writer, d dead) error {
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
	for _, name := range slices.Sorted(maps.Keys(d.last().Message)) {
		row("attribute "+oneLine(name), d.last().Message[name])
	}
	row("bytes", r.Bytes)
	if d.last().Cut > 0 {
		row("bytes kept", len(d.last().Data))
	}
	if err := errors.Join(err, t.Flush()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "\n%s\n", severalLines(d.last().Data))
	return err
}

// severalLines makes data safe for a terminal, line by line.
func severalLines(data []byte) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(data), "\uFFFD"))
}

func dlqPurgeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "purge [ID…]", Short: "Drop dead letters for good: those named, or --all"}
	all := cmd.Flags().Bool("all", false, "drop all of them")
	yes := cmd.Flags().Bool("yes", false, "do not ask")
	dry := cmd.Flags().Bool("dry-run", false, "only say what would be dropped")
	run := atDesk(waitFlag(cmd), func(ctx context.Context, d *desk, args []string) error {
		chosen, missing := d.all, []string(nil)
		if !*all {
			chosen, missing = d.named(args)
		}
		verb := "purged"
		switch {
		case *dry:
			verb = "would be purged"
		case len(chosen) > 0 && !*yes:
			if err := d.confirm(ctx, fmt.Sprintf("Drop %d dead letters under %d names for good?", len(lettersOf(chosen)), len(chosen))); err != nil {
				return err
			}
		}
		for _, one := range chosen {
			if !*dry {
				if err := d.box.Drop(ctx, one.letters...); err != nil {
					return err
				}
			}
			if _, err := fmt.Fprintf(d.out, "%s  %s\n", oneLine(one.name), verb); err != nil {
				return err
			}
		}
		return lacking(missing)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case *all == (len(args) > 0):
			return exitError{exitUsage, errors.New("name what to drop, or give --all")}
		case !*yes && !*dry && !term.IsTerminal(int(os.Stdin.Fd())):
			return exitError{exitUsage, errors.New("this drops dead letters for good: give --yes, or --dry-run to see which")}
		}
		return run(cmd, args)
	}
	return cmd
}

// confirm asks on the terminal. Letters are held meanwhile.
func (d *desk) confirm(ctx context.Context, question string) error {
	fmt.Fprintf(d.err, "%s [y/N] ", question)
	answer := make(chan string, 1)
	go func() { // left behind by an interrupt: a read of a terminal cannot be ended
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case got := <-answer:
		if got != "y" && got != "yes" {
			return exitError{exitFailed, errors.New("nothing was dropped")}
		}
		return nil
	}
}
