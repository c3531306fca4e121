package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor"
	"github.com/batchfleet/batchfleet/pubsub"
	"github.com/batchfleet/batchfleet/worker"
)

func doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check everything a worker needs, and say what is wrong",
		Long: "Checks the configuration, Pub/Sub, Redis, storage and the PDF engines; with SOURCE the gateway or its Redis, the\n" +
			"worker's token, AGENT_DIR and pw.x; with KINDS_FILE that file and the programs of its kinds. Says what is wrong and what\n" +
			"to do. That somebody has drained the fleet is a warning, and leaves the exit code at 0.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks, misconfigured := doctorChecks()
			return runChecks(cmd, checks, misconfigured, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// doctorChecks returns what the worker of this environment needs, and what is
// wrong with the environment itself.
func doctorChecks() ([]check, error) {
	if os.Getenv("SOURCE") != "" {
		all, misconfigured := sourceChecks()
		return append(all, kindsChecks()...), misconfigured
	}
	var env WorkerEnv
	misconfigured := settings.Read(&env)
	return append(env.checks(misconfigured), kindsChecks()...), misconfigured
}

// checks returns what this worker needs, without the parts whose settings are wrong.
func (e *WorkerEnv) checks(misconfigured error) (all []check) {
	if !names(misconfigured, &e.RedisEnv) {
		all = append(all, check{"redis", e.options().String(), e.lookAtRedis, e.redisHelp})
	}
	if !names(misconfigured, &e.StorageEnv) {
		all = append(all, check{"storage", cmp.Or(e.bucketURL(), e.Path), e.lookAtStorage, e.storageHelp})
	}
	if !names(misconfigured, &e.PubSubEnv) {
		all = append(all, e.pubsubChecks()...)
	}
	return append(all, e.engineChecks()...) // the engines work without a fleet, too
}

// names reports whether an error names one of the variables of a part of the settings.
func names(err error, part any) bool {
	return err != nil && slices.ContainsFunc(settings.Describe(part), func(s settings.Setting) bool { return strings.Contains(err.Error(), s.Name) })
}

func (e *WorkerEnv) pubsubChecks() []check {
	n := e.names()
	all := []check{
		{"pub/sub", n.subscription.full, e.lookAtSubscription(n.subscription.full), e.queueHelp("subscription", "PUBSUB_SUBSCRIPTION")},
		{"pub/sub", cmp.Or(n.topic.full, e.Topic), e.lookAtTopic, e.topicHelp},
	}
	if n.priority.full != "" {
		all = append(all, check{"pub/sub", n.priority.full, e.lookAtSubscription(n.priority.full), e.queueHelp("subscription", "PUBSUB_PRIORITY_SUBSCRIPTION")})
	}
	if n.dead.full != "" {
		all = append(all, check{"pub/sub", n.dead.full, e.lookAtDeadTopic, e.queueHelp("topic", "DEAD_LETTER_TOPIC")})
	}
	if n.deadSubscription.full != "" {
		all = append(all, check{"pub/sub", n.deadSubscription.full, e.lookAtDeadSubscription, e.deadSubscriptionHelp})
	}
	return all
}

func (e *WorkerEnv) engineChecks() []check {
	return []check{
		{"pdf", "built-in reader in a child process", e.lookAtBuiltin, always("make WORK_DIR writable, give PDF_MAX_MEMORY at least 256 MiB, and allow this process to start children")},
		{"pdf", "poppler", e.lookAtPoppler, always("install poppler's programs (apt-get install poppler-utils), or set PDF_ENGINE=builtin")},
	}
}

func (e *WorkerEnv) lookAtRedis(ctx context.Context) (string, error) {
	st, redis := e.openStatus(1)
	defer redis.Close()
	if err := st.Check(ctx); err != nil {
		return "", err
	}
	since, err := st.Draining(ctx)
	if since != "" {
		err = cmp.Or(err, worker.ErrDraining)
	}
	return "answers and accepts writes", err
}

func (e *WorkerEnv) redisHelp(err error) string {
	if errors.Is(err, worker.ErrDraining) {
		return "nothing, if that is wanted; `batchfleet run start` takes it back"
	}
	if help := redisHelp(err, e.variable()); help != "" {
		return help
	}
	if e.URL != "" {
		return "start Redis and its Sentinels, or set REDIS_URL to where it is"
	}
	return "start Redis, or set REDIS_HOST and REDIS_PORT to where it is"
}

// redisHelp says what to do about an answer of the Redis that variable names,
// nothing if that is not known.
func redisHelp(err error, variable string) string {
	switch text := err.Error(); {
	case strings.Contains(text, "NOAUTH"), strings.Contains(text, "WRONGPASS"):
		return "set REDIS_PASSWORD (and REDIS_USERNAME) to what the server wants"
	case strings.Contains(text, "READONLY"):
		return "this is a read-only replica: point " + variable + " at the primary"
	case strings.Contains(text, "OOM"):
		return "the server is out of memory: raise maxmemory, and keep maxmemory-policy noeviction"
	case strings.Contains(text, "out of range"):
		return "the server has fewer databases: lower REDIS_DB, or the number at the end of SOURCE or REDIS_URL"
	}
	return ""
}

func (e *WorkerEnv) lookAtStorage(ctx context.Context) (string, error) {
	_, missing := os.Stat(e.Path)
	store, err := e.openStorage(ctx) // which makes the directory
	if err != nil {
		return "", err
	}
	found := "can be read and written"
	if e.Type == "LOCAL" && errors.Is(missing, fs.ErrNotExist) {
		found = "did not exist, has been made; " + found
	}
	return found, store.Check(ctx)
}

func (e *WorkerEnv) storageHelp(error) string {
	switch e.Type {
	case "GCP":
		return "check that GCS_BUCKET_NAME exists, that credentials are there (GOOGLE_APPLICATION_CREDENTIALS) and that they may read and write objects"
	case "S3":
		return "check S3_ENDPOINT and S3_REGION, that S3_BUCKET_NAME exists, and that the account may read and write objects (AWS_ACCESS_KEY_ID, AWS_PROFILE, or the role of the machine)"
	}
	return "make LOCAL_STORAGE_PATH a directory this user may write to, with space left"
}

func (e *WorkerEnv) lookAtSubscription(name string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		source, err := pubsub.OpenSource(ctx, name, pubsub.Rules{}, nil, e.connection()...)
		if err != nil {
			return "", err
		}
		defer source.Close()
		deadline, err := source.Check(ctx)
		if err == nil && deadline == 0 {
			return "may be pulled from, but not looked at", nil
		}
		return fmt.Sprintf("is there, ack deadline %s", deadline), err
	}
}

// lookAtDeadTopic looks at the topic for dead letters as a worker does.
func (e *WorkerEnv) lookAtDeadTopic(ctx context.Context) (string, error) {
	dead, err := e.openDeadLetters(ctx)
	if err != nil {
		return "", err
	}
	defer dead.Close()
	return "takes dead letters", dead.Check(ctx)
}

// lookAtDeadSubscription checks the subscription that dlq reads. A topic without a
// subscription accepts dead letters and keeps none.
func (e *WorkerEnv) lookAtDeadSubscription(ctx context.Context) (string, error) {
	n := e.names()
	reader, err := pubsub.OpenDeadLetterReader(ctx, n.deadSubscription.full, pubsub.Rules{}, e.connection()...)
	if err != nil {
		return "", err
	}
	defer reader.Close()
	topic, err := reader.Check(ctx)
	switch {
	case err == nil && topic == "":
		return "may be pulled from, but not looked at", nil
	case err == nil && n.dead.full != "" && topic != n.dead.full:
		err = fmt.Errorf("%w: it gets the messages of %s, not of %s", errWrongTopic, topic, n.dead.full)
	}
	return "gets the dead letters", err
}

func (e *WorkerEnv) deadSubscriptionHelp(err error) string {
	if errors.Is(err, errWrongTopic) {
		return "create a subscription to DEAD_LETTER_TOPIC, and set DEAD_LETTER_SUBSCRIPTION to it; until then dead letters are lost"
	}
	return e.queueHelp("subscription", "DEAD_LETTER_SUBSCRIPTION")(err)
}

var errWrongTopic = errors.New("subscription of another topic")

// lookAtTopic does not fail where the topic has no full name: a worker starts without it.
func (e *WorkerEnv) lookAtTopic(ctx context.Context) (string, error) {
	if err := e.names().topic.err; err != nil {
		return fmt.Sprintf("not checked (needed to submit and to repair): %v", err), nil
	}
	pub, err := e.openPublisher(ctx)
	if err != nil {
		return "", err
	}
	defer pub.Close()
	if err := pub.Check(ctx); err != nil {
		return "", err
	}
	admin, err := pubsub.OpenAdmin(ctx, e.connection()...)
	if err != nil {
		return "", err
	}
	defer admin.Close()
	switch found, err := admin.HasSubscription(ctx, e.names().topic.full); {
	case err != nil:
		return "", err
	case found == pubsub.Absent:
		return "", errNoSubscription
	case found == pubsub.Hidden:
		return "is there; its subscriptions may not be looked at", nil
	}
	return "is there, and has a subscription", nil
}

var errNoSubscription = errors.New("it has no subscription: its messages, and with them the jobs, are lost")

func (e *WorkerEnv) topicHelp(err error) string {
	if errors.Is(err, errNoSubscription) {
		return "`batchfleet run start` makes the subscription PUBSUB_SUBSCRIPTION to it"
	}
	return e.queueHelp("topic", "PUBSUB_TOPIC")(err)
}

// queueHelp says what to do about an error of Pub/Sub that has to do with a topic or a
// subscription, which variable names.
func (e *PubSubEnv) queueHelp(what, variable string) func(error) string {
	return func(err error) string {
		switch {
		case errors.Is(err, worker.ErrRefused) && strings.Contains(err.Error(), "NotFound"):
			return fmt.Sprintf("create the %s (`batchfleet run start` does), or set %s and GCP_PROJECT_ID to one that exists", what, variable)
		case errors.Is(err, worker.ErrRefused):
			return "check the credentials (GOOGLE_APPLICATION_CREDENTIALS) and their role: pubsub.subscriber to work, pubsub.publisher to submit and to repair"
		case strings.Contains(err.Error(), "there are no credentials"):
			return "one of the two"
		default:
			return e.unreachableHelp()
		}
	}
}

// unreachableHelp says what to do when there is no connection to Pub/Sub.
func (e *PubSubEnv) unreachableHelp() string {
	if e.Emulator != "" {
		return "start the emulator (batchfleet emulator), or set PUBSUB_EMULATOR_HOST to where it is"
	}
	return "check the network and the credentials, or set PUBSUB_EMULATOR_HOST to use an emulator"
}

// refused gives an error of Pub/Sub that no retry helps against the exit code of a wrong setting,
// and says what to do about it.
func (e *PubSubEnv) refused(err error, what, variable string) error {
	if !errors.Is(err, worker.ErrRefused) {
		return err
	}
	return program.Exit(program.Usage, fmt.Errorf("%w; %s", err, e.queueHelp(what, variable)(err)))
}

// examplePDF is the smallest document that goes through every part of the
// reader: two pages of text.
const examplePDF = "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R 4 0 R]/Count 2>>endobj\n" +
	"3 0 obj<</Type/Page/Parent 2 0 R/Contents 5 0 R/Resources<</Font<</F 6 0 R>>>>>>endobj\n" +
	"4 0 obj<</Type/Page/Parent 2 0 R/Contents 5 0 R/Resources<</Font<</F 6 0 R>>>>>>endobj\n" +
	"5 0 obj<</Length 40>>stream\nBT /F 12 Tf 72 700 Td (batchfleet) Tj ET\nendstream endobj\n" +
	"6 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\ntrailer<</Root 1 0 R>>\n"

func (e *WorkerEnv) lookAtBuiltin(ctx context.Context) (string, error) {
	return e.readExample(ctx, e.child())
}

// lookAtPoppler fails only where poppler is the engine.
func (e *WorkerEnv) lookAtPoppler(ctx context.Context) (string, error) {
	programs, err := processor.FindPoppler(ctx)
	found := ""
	if err == nil {
		found, err = e.readExample(ctx, engineOf(e.child(), &programs))
		// Its programs have no other way to be told.
		found = fmt.Sprintf("version %s, %s; a document's password is in the arguments of its programs, for other users of this machine to see", programs.Version, found)
	}
	if err != nil && e.Engine != enginePoppler {
		return fmt.Sprintf("not needed (PDF_ENGINE is %s); %v", e.Engine, err), nil
	}
	return found, err
}

// readExample reads a small document as a worker would.
func (e *WorkerEnv) readExample(ctx context.Context, engine processor.Engine) (string, error) {
	f, err := os.CreateTemp(e.WorkDir, "batchfleet-doctor-")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(examplePDF)
	if err := errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	began, words := time.Now(), 0
	err = engine.Read(ctx, jobs.Job{}, f.Name(), 1, processor.Sink{
		Open: func(int, json.RawMessage) error { return nil },
		Page: func(r processor.Record) error { words += r.Words; return nil },
	})
	if err == nil && words != 2 {
		err = fmt.Errorf("read %d words from a document of 2", words)
	}
	return fmt.Sprintf("reads, %d ms a document", time.Since(began).Milliseconds()), err
}
