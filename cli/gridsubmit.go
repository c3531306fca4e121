package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/grid/client"
	"github.com/batchfleet/batchfleet/grid/wire"
)

// gridSubmitFlags are the flags of batchfleet grid submit.
type gridSubmitFlags struct {
	peer                          gridPeer
	leaders, client, policy, from string
	desired                       int
	id, array, dir                string
	files, cached, retryOn, env   []string
	timeout, queueTimeout         span
	notAfter                      span
	maxAttempts, priority         int
	kind                          asked // params, if EXEC is a kind
	wait, asJSON                  bool
}

func gridSubmitCommand() *cobra.Command {
	var f gridSubmitFlags
	c := &cobra.Command{
		Use:   "submit [EXEC] [ARG…]",
		Short: "Submit jobs to leaders, and perhaps wait for their results",
		Long: "Submit a job to a leader: EXEC with its arguments, and print its id once a leader has queued it. Arguments that begin\n" +
			"with - stand behind --. With --from many jobs: one a line, an object in JSON with ExecName, Args, Files and so on. With\n" +
			"--array the job runs once for each index, which is {i} in its arguments and GRID_INDEX for its program.\n\n" +
			"With --wait the results are waited for: the program's output is printed, of several jobs how each has ended.\n" +
			"Who interrupts that does not stop the jobs, and is told what does. Without, `batchfleet grid results` takes them later.",
		Example: `  batchfleet grid submit --client clientA --file input.txt --wait calcA 1
  batchfleet grid submit --client clientA --leader 10.0.0.1:5000,10.0.0.2:5000 --array 0-99 --wait calcA {i}
  batchfleet grid submit --client clientA --from jobs.jsonl --wait --json -o results`,
		Args: cobra.ArbitraryArgs,
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(cmd, args); err != nil {
			return program.Exit(program.Usage, err)
		}
		return f.submit(cmd, args)
	}
	flags := c.Flags()
	f.whose(flags)
	flags.StringVar(&f.from, "from", "", "file with jobs, one a line in JSON; - for standard input")
	flags.StringVar(&f.id, "id", "", "id of the job, a GUID: one that was submitted before is not queued again; a new one when empty")
	flags.StringArrayVar(&f.files, "file", nil, "file for the job, PATH or NAME=PATH; may be given several times")
	flags.StringArrayVar(&f.cached, "cached-file", nil, "file that the workers have in their --cache-dir, NAME=CACHEID; may be given several times")
	flags.StringVar(&f.array, "array", "", "indexes, as 0-99: one job for each")
	flags.Var(&f.timeout, "timeout", "of one attempt, such as 90s or 10m; the worker's when empty")
	flags.Var(&f.notAfter, "not-after", "do not start the job later than so long from now")
	flags.IntVar(&f.maxAttempts, "max-attempts", 0, "how often it is tried; the leader's 6 when 0")
	flags.IntVar(&f.priority, "priority", 0, "from -100 to 100: higher ones first, of the same client and exec")
	flags.StringSliceVar(&f.retryOn, "retry-on", nil, "exit, timeout: failures after which it is tried again")
	flags.StringArrayVar(&f.env, "env", nil, "variable for the program, NAME=VALUE; may be given several times")
	flags.StringVar(&f.kind.kindsFile, "kinds", "", "kinds file by which --param and --params are checked (default KINDS_FILE)")
	f.kind.paramFlags(flags)
	flags.BoolVar(&f.wait, "wait", false, "wait for the results; exit code 1 unless all jobs have succeeded")
	f.queueTimeout = span(time.Minute)
	flags.Var(&f.queueTimeout, "queue-timeout", "how long it may take until a leader answers and, without --wait, until it has queued a job; then exit code 3")
	flags.StringVarP(&f.dir, "output", "o", "", "with --wait: put the files that each program has left into this directory, of several jobs into one for each: DIR/INDEX with --array, DIR/JOBID with --from")
	jsonFlag(c, &f.asJSON)
	policyFlag(c, &f.policy)
	complete(c, "retry-on", words("exit", "timeout"))
	f.peer.register(flags)
	return c
}

const defaultLeader = "127.0.0.1:5000"

// whose adds the flags that say where and whose jobs are.
func (f *gridSubmitFlags) whose(flags *pflag.FlagSet) {
	flags.StringVar(&f.leaders, "leader", defaultLeader, "HOST:PORT of the leader, or of several with commas between them")
	flags.StringVar(&f.client, "client", "", "CLIENTID: whose jobs they are")
	flags.IntVar(&f.desired, "parallel", 4, "how many jobs of the client may run at once on all leaders together; the last client to connect decides")
}

// ofOneJob are the flags that say what the job of the arguments is to be.
var ofOneJob = []string{"id", "file", "cached-file", "array", "timeout", "not-after", "max-attempts", "priority", "retry-on", "env", "kinds", "param", "params"}

// check finds mistakes in the flags.
func (f *gridSubmitFlags) check(cmd *cobra.Command, args []string) error {
	var wrong []error
	switch {
	case f.from == "" && len(args) == 0:
		wrong = append(wrong, errors.New("EXEC is missing: name what to run, or give --from"))
	case f.from != "" && len(args) > 0:
		wrong = append(wrong, fmt.Errorf("--from has the jobs, and %.40q is another one: leave out one of them", args[0]))
	}
	for _, name := range ofOneJob {
		if f.from != "" && cmd.Flags().Changed(name) {
			wrong = append(wrong, fmt.Errorf("--%s is for one job, and with --from it is in the lines: leave it out", name))
		}
	}
	switch {
	case f.client == "":
		wrong = append(wrong, errors.New("--client is missing: the CLIENTID whose jobs they are"))
	case wire.CheckClientID(f.client) != nil:
		wrong = append(wrong, fmt.Errorf("--client: %w", wire.CheckClientID(f.client)))
	}
	if f.dir != "" && !f.wait {
		wrong = append(wrong, errors.New("-o is for what programs leave, once they have ended: give --wait, too"))
	}
	if f.dir != "" {
		wrong = append(wrong, f.checkDir())
	}
	if f.queueTimeout.D() < time.Second {
		wrong = append(wrong, fmt.Errorf("--queue-timeout is %s: must be 1s or more", f.queueTimeout.D()))
	}
	if d := f.timeout.D(); d != 0 && d < time.Millisecond {
		wrong = append(wrong, fmt.Errorf("--timeout is %s: must be 1ms or more", d))
	}
	if f.notAfter < 0 {
		wrong = append(wrong, fmt.Errorf("--not-after is %s from now: that is over", f.notAfter.D()))
	}
	return errors.Join(wrong...)
}

// config returns the settings of the client that submits.
func (f *gridSubmitFlags) config() (client.Config, error) {
	leaders, err := leaderList(f.leaders)
	if err != nil {
		return client.Config{}, fmt.Errorf("--leader: %w", err)
	}
	policy, err := parsePolicy(f.policy)
	return client.Config{
		ClientID: f.client, Leaders: leaders, Desired: f.desired, Policy: policy,
		Window: 1 << 20, WindowBytes: 1 << 30, // who submits many jobs need not wait until they have run
	}, err
}

// requests yields the jobs to submit. The error is a mistake.
func (f *gridSubmitFlags) requests(ctx context.Context, args []string, submit func(wire.JobRequest) error) error {
	if f.from == "" {
		q, err := f.request(args)
		if err == nil {
			q.Params, err = f.params(ctx, q.ExecName)
		}
		if err != nil {
			return program.Exit(program.Usage, err)
		}
		return submit(q)
	}
	var in io.ReadCloser
	if f.from == "-" {
		in = program.Stdin(ctx)
	} else {
		file, err := os.Open(f.from)
		if err != nil {
			return program.Exit(program.Usage, fmt.Errorf("--from: %w", err))
		}
		in = file
	}
	defer in.Close()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, wire.MaxFrame+1)
	n := 0
	for lines.Scan() {
		n++
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		q, err := readRequest(text)
		if err == nil {
			err = f.complete(&q)
		}
		if err != nil {
			return program.Exit(program.Usage, fmt.Errorf("--from: line %d: %w", n, err))
		}
		if err := submit(q); err != nil {
			return err
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return program.Exit(program.Usage, fmt.Errorf("--from: line %d is longer than %d bytes, which is what fits into a request", n+1, wire.MaxFrame))
	} else if err != nil {
		return program.Mistake(ctx, fmt.Errorf("--from: line %d: %w", n+1, err))
	}
	if n == 0 {
		return program.Exit(program.Usage, errors.New("--from has no jobs: want one a line, an object in JSON"))
	}
	return nil
}

func readRequest(text []byte) (q wire.JobRequest, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		if _, named := wire.ReadSubmit(text); named != nil && errors.As(err, new(base64.CorruptInputError)) {
			return q, named // it says in which file
		}
		return q, fmt.Errorf("it is no job in JSON, such as {\"ExecName\":\"calcA\",\"Args\":[\"1\"]}: %w", err)
	}
	if d.More() {
		return q, errors.New("there is more than one object: want one a line")
	}
	return q, nil
}

// complete fills in what a job lacks, and checks it.
func (f *gridSubmitFlags) complete(q *wire.JobRequest) error {
	if q.JobID.IsZero() {
		q.JobID = wire.NewGUID()
	}
	if q.ClientID == "" {
		q.ClientID = f.client
	}
	if q.ClientID != f.client {
		return fmt.Errorf("ClientId is %.80q, and --client is %s", q.ClientID, f.client)
	}
	return wire.CheckRequest(q)
}

// request returns the job of the arguments and flags.
func (f *gridSubmitFlags) request(args []string) (q wire.JobRequest, err error) {
	q = wire.JobRequest{ExecName: args[0], Args: args[1:], Options: wire.Options{
		TimeoutMs: f.timeout.D().Milliseconds(), MaxAttempts: f.maxAttempts, Priority: f.priority, RetryOn: f.retryOn, Array: f.array,
	}}
	if f.id != "" {
		if q.JobID, err = wire.ParseGUID(f.id); err != nil {
			return q, fmt.Errorf("--id: %w", err)
		}
	}
	if f.notAfter != 0 {
		until := time.Now().Add(f.notAfter.D()).UTC()
		q.NotAfter = &until
	}
	for _, pair := range f.env {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return q, fmt.Errorf("--env %.80q: want NAME=VALUE", pair)
		}
		if q.Env == nil {
			q.Env = map[string]string{}
		}
		q.Env[name] = value
	}
	for _, file := range f.files {
		name, path, named := strings.Cut(file, "=")
		if !named {
			name, path = filepath.Base(file), file
		}
		content, err := readInput(path)
		if err != nil {
			return q, fmt.Errorf("--file: %w", err)
		}
		q.Files = append(q.Files, wire.InputFile{Name: name, Content: content})
	}
	for _, pair := range f.cached {
		name, id, ok := strings.Cut(pair, "=")
		if !ok {
			return q, fmt.Errorf("--cached-file %.80q: want NAME=CACHEID", pair)
		}
		q.Files = append(q.Files, wire.InputFile{Name: name, CacheID: &id})
	}
	return q, f.complete(&q)
}

// maxInputFile is how large a file for a job may be: it is read into memory.
const maxInputFile = 1 << 30

// readInput reads a file for a job.
func readInput(path string) ([]byte, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	content, err := io.ReadAll(io.LimitReader(in, maxInputFile+1))
	if err == nil && len(content) > maxInputFile {
		err = fmt.Errorf("%s is longer than %d bytes: put it into --cache-dir of the workers, and give --cached-file", path, maxInputFile)
	}
	if content == nil {
		content = []byte{} // an empty file is one, too
	}
	return content, err
}
