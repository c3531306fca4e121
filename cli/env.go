package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/pubsub"
)

// StorageEnv says where inputs and results are.
type StorageEnv struct {
	Type    string   `envconfig:"STORAGE_TYPE" default:"LOCAL"` // LOCAL or GCP
	Path    string   `envconfig:"LOCAL_STORAGE_PATH" default:"./local_storage"`
	Bucket  string   `envconfig:"GCS_BUCKET_NAME"` // required for GCP
	Allowed []string `envconfig:"ALLOWED_BUCKETS"` // further buckets to read inputs from, separated by commas
}

// PubSubEnv says which queue to use.
type PubSubEnv struct {
	Emulator     string `envconfig:"PUBSUB_EMULATOR_HOST"` // host:port; Google's Pub/Sub when empty
	Project      string `envconfig:"GCP_PROJECT_ID"`       // required unless the names below are full
	Subscription string `envconfig:"PUBSUB_SUBSCRIPTION" default:"pdf-processing-subscription"`
	Topic        string `envconfig:"PUBSUB_TOPIC" default:"pdf-processing-topic"` // where submit, redrive and repair publish
	Priority     string `envconfig:"PUBSUB_PRIORITY_SUBSCRIPTION"`                // asked first; none when empty
	DeadTopic    string `envconfig:"DEAD_LETTER_TOPIC"`                           // where what failed is kept; nowhere when empty
	DeadLetters  string `envconfig:"DEAD_LETTER_SUBSCRIPTION"`                    // what dlq reads; the topic's name when empty
}

// ClientEnv is what the commands need that talk to a fleet from outside.
type ClientEnv struct {
	RedisEnv
	StorageEnv
	PubSubEnv
}

// PDFEnv says how documents are read.
type PDFEnv struct {
	Engine         string           `envconfig:"PDF_ENGINE" default:"builtin"` // builtin or poppler
	MaxInputBytes  int64            `envconfig:"MAX_INPUT_BYTES" default:"1073741824"`
	MaxPages       int              `envconfig:"MAX_PAGES" default:"100000"`
	WorkDir        string           `envconfig:"WORK_DIR"`                            // the system's place for temporary files when empty
	PDFMemory      int64            `envconfig:"PDF_MAX_MEMORY" default:"1073741824"` // bytes
	PDFTimeout     settings.Seconds `envconfig:"PDF_TIMEOUT" default:"15m"`
	PDFPageTimeout settings.Seconds `envconfig:"PDF_PAGE_TIMEOUT" default:"60s"`
	PDFOnDamage    string           `envconfig:"PDF_ON_DAMAGE" default:"warn"` // warn or fail
}

// WorkerEnv is what a worker needs.
type WorkerEnv struct {
	ClientEnv
	PDFEnv
	Kind             string           `envconfig:"PROCESSOR" default:"pdf"` // kind of jobs whose message names none: pdf or mock
	Slots            int              `envconfig:"WORKER_SLOTS" default:"1"`
	Name             string           `envconfig:"WORKER_NAME"` // the host's name and the process id when empty
	LeaseTTL         settings.Seconds `envconfig:"LEASE_TTL" default:"600s"`
	ExtendEvery      settings.Seconds `envconfig:"LEASE_EXTEND_EVERY"` // half of LEASE_TTL when empty
	Drain            settings.Seconds `envconfig:"DRAIN_TIMEOUT" default:"8s"`
	JobTimeout       settings.Seconds `envconfig:"JOB_TIMEOUT" default:"30m"`
	StallTimeout     settings.Seconds `envconfig:"STALL_TIMEOUT" default:"10m"`
	SettleTimeout    settings.Seconds `envconfig:"SETTLE_TIMEOUT" default:"10m"`
	StartTimeout     settings.Seconds `envconfig:"START_TIMEOUT" default:"2m"`
	ProgressInterval settings.Seconds `envconfig:"PROGRESS_INTERVAL" default:"100ms"`
	Checkpoint       settings.Seconds `envconfig:"CHECKPOINT_INTERVAL" default:"30s"`
	MaxCrashes       int              `envconfig:"MAX_CRASHES" default:"3"`
	PriorityShare    int              `envconfig:"PRIORITY_SHARE" default:"5"`    // one lease in so many is asked of the normal subscription first
	IdleExit         settings.Seconds `envconfig:"IDLE_EXIT"`                     // off when 0
	MaxRuntime       settings.Seconds `envconfig:"MAX_RUNTIME"`                   // off when 0
	Repair           settings.Seconds `envconfig:"REPAIR_INTERVAL" default:"10m"` // off when 0
	MockPages        settings.Numbers `envconfig:"MOCK_PAGES" default:"5-20"`
	MockPageSeconds  settings.Numbers `envconfig:"MOCK_PAGE_SECONDS" default:"3-5"`
	HTTPAddr         string           `envconfig:"HTTP_ADDR"` // health and metrics; off when empty
}

func (e *StorageEnv) Check() (wrong []error) {
	switch e.Type {
	case "LOCAL":
		if e.Path == "" {
			wrong = append(wrong, errors.New("LOCAL_STORAGE_PATH is empty"))
		}
	case "GCP":
		if e.Bucket == "" || strings.ContainsAny(e.Bucket, ":/ ") {
			wrong = append(wrong, fmt.Errorf("GCS_BUCKET_NAME is %q: STORAGE_TYPE=GCP needs the bare name of a bucket", e.Bucket))
		}
	default:
		wrong = append(wrong, fmt.Errorf("STORAGE_TYPE is %q: want LOCAL or GCP", e.Type))
	}
	return wrong
}

func (e *PubSubEnv) Check() (wrong []error) {
	if _, err := pubsub.Options(e.Emulator); err != nil {
		wrong = append(wrong, err)
	}
	if e.Project == "" {
		// A bare name needs the project only where it is used, and who uses it says so.
		some := *e
		some.Project = "unknown"
		return some.Check()
	}
	subscription, err := pubsub.SubscriptionName("PUBSUB_SUBSCRIPTION", e.Project, e.Subscription)
	topic, err2 := pubsub.TopicName("PUBSUB_TOPIC", e.Project, e.Topic)
	urgent, err3 := e.prioritySubscription()
	dead, err4 := e.deadTopic()
	letters, err5 := e.deadSubscription()
	if e.DeadLetters == "" {
		err5 = nil // the mistake is the topic's
	}
	if urgent != "" && urgent == subscription {
		wrong = append(wrong, errors.New("PUBSUB_PRIORITY_SUBSCRIPTION is PUBSUB_SUBSCRIPTION: give urgent jobs a subscription of their own"))
	}
	if dead != "" && dead == topic {
		wrong = append(wrong, errors.New("DEAD_LETTER_TOPIC is PUBSUB_TOPIC: what failed would come back at once, again and again; give dead letters a topic of their own"))
	}
	if letters != "" && (letters == subscription || letters == urgent) {
		wrong = append(wrong, errors.New("DEAD_LETTER_SUBSCRIPTION is one that workers take jobs from: give dead letters a subscription of their own"))
	}
	return append(wrong, err, err2, err3, err4, err5)
}

// checkWorker returns which of the names that a worker uses lack a project.
func (e *PubSubEnv) checkWorker() []error {
	_, err := pubsub.SubscriptionName("PUBSUB_SUBSCRIPTION", e.Project, e.Subscription)
	_, err2 := e.prioritySubscription()
	_, err3 := e.deadTopic()
	return []error{err, err2, err3}
}

// prioritySubscription returns the full name, or none when there is none.
func (e *PubSubEnv) prioritySubscription() (string, error) {
	if e.Priority == "" {
		return "", nil
	}
	return pubsub.SubscriptionName("PUBSUB_PRIORITY_SUBSCRIPTION", e.Project, e.Priority)
}

// deadTopic returns the full name, or none when there is none.
func (e *PubSubEnv) deadTopic() (string, error) {
	if e.DeadTopic == "" {
		return "", nil
	}
	return pubsub.TopicName("DEAD_LETTER_TOPIC", e.Project, e.DeadTopic)
}

// queues returns the topics and the subscriptions, each as SUBSCRIPTION:TOPIC, that
// the names call for where there are none yet. Urgent jobs get a topic named as
// their subscription.
func (e *PubSubEnv) queues() (topics, subscriptions []string) {
	topics, subscriptions = []string{e.Topic}, []string{e.Subscription + ":" + e.Topic}
	add := func(topic, subscription string) {
		topics, subscriptions = append(topics, topic), append(subscriptions, subscription+":"+topic)
	}
	if e.Priority != "" {
		add(strings.Replace(e.Priority, "/subscriptions/", "/topics/", 1), e.Priority)
	}
	if letters, err := e.deadSubscription(); e.DeadTopic != "" && err == nil {
		add(e.DeadTopic, letters)
	}
	return topics, subscriptions
}

// deadSubscription returns the full name, by default that of the topic among the
// subscriptions of its project, or none when there is neither.
func (e *PubSubEnv) deadSubscription() (string, error) {
	if e.DeadLetters != "" {
		return pubsub.SubscriptionName("DEAD_LETTER_SUBSCRIPTION", e.Project, e.DeadLetters)
	}
	topic, err := e.deadTopic()
	return strings.Replace(topic, "/topics/", "/subscriptions/", 1), err
}

func (e *ClientEnv) Check() []error {
	return settings.Compact(e.RedisEnv.Check(), e.StorageEnv.Check(), e.PubSubEnv.Check())
}

func (e *PDFEnv) Check() []error {
	wrong := []error{
		settings.Within("MAX_INPUT_BYTES", e.MaxInputBytes, 1, 1<<40),
		settings.Within("MAX_PAGES", int64(e.MaxPages), 1, 1_000_000),
		settings.Within("PDF_MAX_MEMORY", e.PDFMemory, 64<<20, 1<<40),
		settings.Span("PDF_TIMEOUT", e.PDFTimeout, settings.Second, settings.Day),
		settings.Span("PDF_PAGE_TIMEOUT", e.PDFPageTimeout, settings.Second/10, settings.Day),
	}
	if !slices.Contains(engines, e.Engine) {
		wrong = append(wrong, fmt.Errorf("PDF_ENGINE is %q: want builtin or poppler", e.Engine))
	}
	if e.PDFOnDamage != "warn" && e.PDFOnDamage != "fail" {
		wrong = append(wrong, fmt.Errorf("PDF_ON_DAMAGE is %q: want warn or fail", e.PDFOnDamage))
	}
	return settings.Compact(wrong)
}

func (e *WorkerEnv) Check() []error {
	wrong := []error{
		settings.Within("WORKER_SLOTS", int64(e.Slots), 1, 256),
		settings.Within("MAX_CRASHES", int64(e.MaxCrashes), 1, 100),
		settings.Within("PRIORITY_SHARE", int64(e.PriorityShare), 2, 1000),
		settings.Span("LEASE_TTL", e.LeaseTTL, 10*settings.Second, 600*settings.Second),
		settings.Span("DRAIN_TIMEOUT", e.Drain, 0, settings.Day),
		settings.Span("JOB_TIMEOUT", e.JobTimeout, settings.Second, 7*settings.Day),
		settings.Span("STALL_TIMEOUT", e.StallTimeout, settings.Second, 7*settings.Day),
		settings.Span("SETTLE_TIMEOUT", e.SettleTimeout, settings.Second, settings.Day),
		settings.Span("START_TIMEOUT", e.StartTimeout, 0, settings.Day),
		settings.Span("PROGRESS_INTERVAL", e.ProgressInterval, settings.Second/1000, 60*settings.Second),
		settings.Span("CHECKPOINT_INTERVAL", e.Checkpoint, settings.Second/10, 3600*settings.Second),
		settings.LogLevel(),
		settings.CheckName("WORKER_NAME", e.Name),
	}
	if e.Repair != 0 {
		wrong = append(wrong, settings.Span("REPAIR_INTERVAL", e.Repair, settings.Second, settings.Day))
	}
	if e.ExtendEvery != 0 {
		wrong = append(wrong, settings.Span("LEASE_EXTEND_EVERY", e.ExtendEvery, settings.Second, int64(e.LeaseTTL)*8/10))
	}
	if e.Kind != "pdf" && e.Kind != "mock" {
		wrong = append(wrong, fmt.Errorf("PROCESSOR is %q: want pdf or mock", e.Kind))
	}
	return settings.Compact(e.ClientEnv.Check(), e.checkWorker(), e.PDFEnv.Check(), wrong, settings.Leaving(e.IdleExit, e.MaxRuntime, e.JobTimeout, 30*settings.Day))
}
