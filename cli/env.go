package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/s3utils"
	"google.golang.org/api/option"

	"github.com/batchfleet/batchfleet/cli/own"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/pubsub"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/storage/s3"
)

// StorageEnv says where inputs and results are.
type StorageEnv struct {
	Type    string   `envconfig:"STORAGE_TYPE" default:"LOCAL" want:"LOCAL or GCP or S3" doc:"where inputs and results are: a directory, Cloud Storage, or S3 and whatever speaks its protocol"`
	Path    string   `envconfig:"LOCAL_STORAGE_PATH" default:"./local_storage" doc:"the directory; ./dev_storage of batchfleet dev when empty"`
	Bucket  string   `envconfig:"GCS_BUCKET_NAME" doc:"the bucket; required for GCP"`
	Allowed []string `envconfig:"ALLOWED_BUCKETS" doc:"further buckets that inputs may be read from, separated by commas"`
	S3Env
}

// S3Env says where the bucket of S3 is, and who asks.
type S3Env struct {
	S3Bucket      string `envconfig:"S3_BUCKET_NAME" doc:"the bucket; required for S3"`
	S3Endpoint    string `envconfig:"S3_ENDPOINT" doc:"host, host:port or URL of the store, with http:// for one without TLS; AWS when empty"`
	S3Region      string `envconfig:"S3_REGION" doc:"the bucket's; asked of the store when empty"`
	S3PathStyle   string `envconfig:"S3_PATH_STYLE" default:"auto" want:"auto or true or false" doc:"whether the bucket is in the path of a URL or in the name of its host; auto: in the name for AWS, Google and Aliyun, else in the path"`
	S3Conditional string `envconfig:"S3_CONDITIONAL_PUTS" default:"true" want:"true or false" doc:"false for a store that does not know conditional writes: a request that comes late can then undo a newer one"`
	S3CAFile      string `envconfig:"S3_CA_FILE" doc:"certificates in PEM to trust beside the system's"`
	AccessKey     string `envconfig:"AWS_ACCESS_KEY_ID" doc:"of the account that asks; when empty, what AWS_PROFILE names in the credentials file of AWS, or what the machine is given by its cloud"`
	SecretKey     string `envconfig:"AWS_SECRET_ACCESS_KEY" doc:"of the same account"`
	SessionToken  string `envconfig:"AWS_SESSION_TOKEN" doc:"where the two are those of a session"`
}

// PubSubEnv says which queue to use.
type PubSubEnv struct {
	Emulator     string `envconfig:"PUBSUB_EMULATOR_HOST" doc:"host:port of an emulator; Google's Pub/Sub when empty"`
	Project      string `envconfig:"GCP_PROJECT_ID" doc:"the project of topics and subscriptions; required unless the names that a command uses are full"`
	Subscription string `envconfig:"PUBSUB_SUBSCRIPTION" default:"pdf-processing-subscription" doc:"where workers take jobs from, bare or projects/P/subscriptions/S; its ack deadline should be 600 s"`
	Topic        string `envconfig:"PUBSUB_TOPIC" default:"pdf-processing-topic" doc:"where submit, retry, dlq redrive and repairs publish, bare or projects/P/topics/T"`
	Priority     string `envconfig:"PUBSUB_PRIORITY_SUBSCRIPTION" doc:"asked first: where the priority jobs are; none when empty"`
	DeadTopic    string `envconfig:"DEAD_LETTER_TOPIC" doc:"where failed jobs and messages that name no job are kept; nowhere when empty"`
	DeadLetters  string `envconfig:"DEAD_LETTER_SUBSCRIPTION" doc:"what dlq reads; named as the topic when empty. Without a subscription Pub/Sub keeps no letter"`
}

// ClientEnv is what the commands need that talk to a fleet from outside.
type ClientEnv struct {
	RedisEnv
	StorageEnv
	PubSubEnv
}

// PDFEnv says how documents are read.
type PDFEnv struct {
	Engine         string           `envconfig:"PDF_ENGINE" default:"builtin" want:"builtin or poppler" doc:"what reads documents"`
	MaxInputBytes  int64            `envconfig:"MAX_INPUT_BYTES" default:"1073741824" range:"1,1099511627776" doc:"larger documents fail"`
	MaxPages       int              `envconfig:"MAX_PAGES" default:"100000" range:"1,1000000" doc:"longer documents fail"`
	WorkDir        string           `envconfig:"WORK_DIR" doc:"for copies of inputs and for programs while a job runs; the system's directory for temporary files when empty"`
	PDFMemory      int64            `envconfig:"PDF_MAX_MEMORY" default:"1073741824" range:"67108864,1099511627776" doc:"bytes, of the child process that reads a document"`
	PDFTimeout     settings.Seconds `envconfig:"PDF_TIMEOUT" default:"15m" range:"1s,24h0m0s" doc:"for reading a document"`
	PDFPageTimeout settings.Seconds `envconfig:"PDF_PAGE_TIMEOUT" default:"60s" range:"100ms,24h0m0s" doc:"for reading a page"`
	PDFOnDamage    string           `envconfig:"PDF_ON_DAMAGE" default:"warn" want:"warn or fail" doc:"fail: a damaged document fails its job, instead of a result that says so"`
}

// WorkerEnv is what a worker needs.
type WorkerEnv struct {
	ClientEnv
	PDFEnv
	own.Env
	own.GPUEnv
	Kind             string           `envconfig:"PROCESSOR" default:"pdf" want:"pdf or mock" doc:"kind of jobs whose message names none"`
	Slots            int              `envconfig:"WORKER_SLOTS" default:"1" range:"1,256" doc:"jobs at once, one lease each; a crash of the worker counts for all of them"`
	Name             string           `envconfig:"WORKER_NAME" doc:"shown to people; the host's name and the process id when empty"`
	LeaseTTL         settings.Seconds `envconfig:"LEASE_TTL" default:"600s" range:"10s,10m0s" doc:"what a lease is extended to; until its first extension it is the subscription's ack deadline"`
	ExtendEvery      settings.Seconds `envconfig:"LEASE_EXTEND_EVERY" doc:"from 1s to 80 % of LEASE_TTL; half of it when empty"`
	Drain            settings.Seconds `envconfig:"DRAIN_TIMEOUT" default:"8s" range:"0s,24h0m0s" doc:"what SIGTERM gives jobs to finish; then, or at a second signal, they go back to the queue, uncounted"`
	JobTimeout       settings.Seconds `envconfig:"JOB_TIMEOUT" default:"30m" range:"1s,168h0m0s" doc:"for a job"`
	StallTimeout     settings.Seconds `envconfig:"STALL_TIMEOUT" default:"10m" range:"1s,168h0m0s" doc:"for a job that reports nothing; one that storage or Redis keeps waiting runs again"`
	SettleTimeout    settings.Seconds `envconfig:"SETTLE_TIMEOUT" default:"10m" range:"1s,24h0m0s" doc:"how long to try to record an outcome while Redis is away"`
	StartTimeout     settings.Seconds `envconfig:"START_TIMEOUT" default:"2m" range:"0s,24h0m0s" doc:"how long a missing subscription or permission is tried again"`
	KindTimeout      settings.Seconds `envconfig:"KIND_TIMEOUT" default:"24h" range:"0s,144h0m0s" doc:"how long a job waits for a worker that has its kind, from when it was submitted; 0: it fails at once"`
	ProgressInterval settings.Seconds `envconfig:"PROGRESS_INTERVAL" default:"100ms" range:"1ms,1m0s" doc:"between progress writes of one job"`
	Checkpoint       settings.Seconds `envconfig:"CHECKPOINT_INTERVAL" default:"30s" range:"100ms,1h0m0s" doc:"between checkpoints of finished pages, and of programs whose kind has checkpoint_max"`
	MaxCrashes       int              `envconfig:"MAX_CRASHES" default:"3" range:"1,100" doc:"a job that has killed its worker so often is given up"`
	PriorityShare    int              `envconfig:"PRIORITY_SHARE" default:"5" range:"2,1000" doc:"one lease in so many is asked of the normal subscription first"`
	IdleExit         settings.Seconds `envconfig:"IDLE_EXIT" range:"off,1s,168h0m0s" doc:"leave with exit code 0 after being idle this long; off when 0"`
	MaxRuntime       settings.Seconds `envconfig:"MAX_RUNTIME" doc:"leave with exit code 0 by then: no job is taken in the last JOB_TIMEOUT and 1 minute of it; off when 0"`
	Repair           settings.Seconds `envconfig:"REPAIR_INTERVAL" default:"10m" range:"off,1s,24h0m0s" doc:"how often one of the workers does what fsck --repair does, and soon after Redis was restarted or has failed over; off when 0"`
	MockPages        settings.Numbers `envconfig:"MOCK_PAGES" default:"5-20" doc:"of kind mock: how many, a number or a range"`
	MockPageSeconds  settings.Numbers `envconfig:"MOCK_PAGE_SECONDS" default:"3-5" doc:"of kind mock: how long each takes, a number or a range"`
	HTTPAddr         string           `envconfig:"HTTP_ADDR" doc:"serves /healthz, /readyz and /metrics; off when empty"`
}

func (e *StorageEnv) Check() (wrong []error) {
	wrong = settings.Limits(e)
	switch e.Type {
	case "LOCAL":
		if e.Path == "" {
			wrong = append(wrong, errors.New("LOCAL_STORAGE_PATH is empty"))
		}
	case "GCP":
		if e.Bucket == "" || strings.ContainsAny(e.Bucket, ":/ ") {
			wrong = append(wrong, fmt.Errorf("GCS_BUCKET_NAME is %q: STORAGE_TYPE=GCP needs the bare name of a bucket", e.Bucket))
		}
	case "S3":
		wrong = append(wrong, e.checkS3()...)
	}
	return wrong
}

// checkS3 is for a store that is in S3: of another one nothing here is heeded.
func (e *S3Env) checkS3() (wrong []error) {
	wrong = settings.Limits(e)
	if e.S3Bucket == "" || strings.ContainsAny(e.S3Bucket, ":/ ") {
		wrong = append(wrong, fmt.Errorf("S3_BUCKET_NAME is %q: STORAGE_TYPE=S3 needs the bare name of a bucket", e.S3Bucket))
	} else if err := s3utils.CheckValidBucketName(e.S3Bucket); err != nil {
		wrong = append(wrong, fmt.Errorf("S3_BUCKET_NAME is %.80q, which is no name of a bucket: %w", e.S3Bucket, err))
	}
	if _, _, err := s3.ParseEndpoint(e.S3Endpoint); err != nil {
		// Not quoted: it may be a URL with a password.
		wrong = append(wrong, fmt.Errorf("S3_ENDPOINT: %w", err))
	}
	if strings.ContainsAny(e.S3Region, ":/. ") {
		wrong = append(wrong, fmt.Errorf("S3_REGION is %.80q: give a name such as eu-central-1", e.S3Region))
	}
	if (e.AccessKey == "") != (e.SecretKey == "") {
		wrong = append(wrong, errors.New("of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY one is set: set both, or none to have them found in the usual places"))
	}
	return wrong
}

// bucketURL returns where the bucket is, as people write it; nothing for a directory.
func (e *StorageEnv) bucketURL() string {
	switch e.Type {
	case "GCP":
		return storage.BucketScheme + e.Bucket
	case "S3":
		return storage.S3Scheme + e.S3Bucket
	}
	return ""
}

func (e *PubSubEnv) Check() (wrong []error) {
	if _, err := pubsub.Options(e.Emulator); err != nil {
		wrong = append(wrong, err)
	}
	if e.Project == "" {
		// A bare name needs the project only where it is used. Its user reports the error.
		some := *e
		some.Project = "unknown"
		return some.Check()
	}
	n := e.names()
	if n.priority.full != "" && n.priority.full == n.subscription.full {
		wrong = append(wrong, errors.New("PUBSUB_PRIORITY_SUBSCRIPTION is PUBSUB_SUBSCRIPTION: give priority jobs a subscription of their own"))
	}
	if n.dead.full != "" && n.dead.full == n.topic.full {
		wrong = append(wrong, errors.New("DEAD_LETTER_TOPIC is PUBSUB_TOPIC: what failed would come back at once, again and again; give dead letters a topic of their own"))
	}
	if n.deadSubscription.full != "" && (n.deadSubscription.full == n.subscription.full || n.deadSubscription.full == n.priority.full) {
		wrong = append(wrong, errors.New("DEAD_LETTER_SUBSCRIPTION is one that workers take jobs from: give dead letters a subscription of their own"))
	}
	return append(wrong, n.subscription.err, n.topic.err, n.priority.err, n.dead.err, n.deadSubscription.err)
}

// checkWorker returns which of the names that a worker uses lack a project.
func (e *PubSubEnv) checkWorker() []error {
	n := e.names()
	return []error{n.subscription.err, n.priority.err, n.dead.err}
}

// queueName is the full name of a topic or a subscription, or why there is none. It is empty
// for one that is not wanted.
type queueName struct {
	full string
	err  error
}

// queueNames are the names of a fleet's queues. dead is the topic for dead letters.
type queueNames struct{ subscription, topic, priority, dead, deadSubscription queueName }

// names returns the full names. Dead letters are read, by default, from the subscription that
// is named as their topic.
func (e *PubSubEnv) names() (n queueNames) {
	full := func(of func(variable, project, name string) (string, error), variable, name string) (q queueName) {
		if name != "" {
			q.full, q.err = of(variable, e.Project, name)
		}
		return q
	}
	n.subscription = full(pubsub.SubscriptionName, "PUBSUB_SUBSCRIPTION", e.Subscription)
	n.topic = full(pubsub.TopicName, "PUBSUB_TOPIC", e.Topic)
	n.priority = full(pubsub.SubscriptionName, "PUBSUB_PRIORITY_SUBSCRIPTION", e.Priority)
	n.dead = full(pubsub.TopicName, "DEAD_LETTER_TOPIC", e.DeadTopic)
	n.deadSubscription = full(pubsub.SubscriptionName, "DEAD_LETTER_SUBSCRIPTION", e.DeadLetters)
	if e.DeadLetters == "" {
		n.deadSubscription = queueName{strings.Replace(n.dead.full, "/topics/", "/subscriptions/", 1), n.dead.err}
	}
	return n
}

// connection says how to reach the queues. That it can be told was checked when the environment was read.
func (e *PubSubEnv) connection() []option.ClientOption {
	options, _ := pubsub.Options(e.Emulator)
	return options
}

// queues returns the topics and the subscriptions, each as SUBSCRIPTION:TOPIC, that
// the names call for where there are none yet. Priority jobs get a topic named as
// their subscription.
func (e *PubSubEnv) queues() (topics, subscriptions []string) {
	topics, subscriptions = []string{e.Topic}, []string{e.Subscription + ":" + e.Topic}
	add := func(topic, subscription string) {
		topics, subscriptions = append(topics, topic), append(subscriptions, subscription+":"+topic)
	}
	if e.Priority != "" {
		add(strings.Replace(e.Priority, "/subscriptions/", "/topics/", 1), e.Priority)
	}
	if dead := e.names().deadSubscription; e.DeadTopic != "" && dead.err == nil {
		add(e.DeadTopic, dead.full)
	}
	return topics, subscriptions
}

func (e *ClientEnv) Check() []error {
	return settings.Compact(e.RedisEnv.Check(), e.StorageEnv.Check(), e.PubSubEnv.Check())
}

func (e *PDFEnv) Check() []error { return settings.Limits(e) }

func (e *WorkerEnv) Check() []error {
	wrong := append(settings.Limits(e), settings.LogLevel(), settings.CheckName("WORKER_NAME", e.Name))
	if e.ExtendEvery != 0 && settings.Good(e, "LEASE_TTL") {
		wrong = append(wrong, settings.Within("LEASE_EXTEND_EVERY", e.ExtendEvery.String(), fmt.Sprintf("1s,%s", e.LeaseTTL*8/10)))
	}
	if settings.Good(e, "JOB_TIMEOUT") {
		wrong = append(wrong, settings.Leaving(e.MaxRuntime, e.JobTimeout, 30*24*time.Hour))
	}
	if e.HTTPAddr != "" {
		wrong = append(wrong, settings.CheckListen("HTTP_ADDR", e.HTTPAddr, "127.0.0.1:9090"))
	}
	return settings.Compact(e.ClientEnv.Check(), e.checkWorker(), e.PDFEnv.Check(), e.GPUEnv.Check(), wrong)
}
