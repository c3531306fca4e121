package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kelseyhightower/envconfig"

	"github.com/batchfleet/batchfleet/worker"
)

// RedisEnv says which Redis to use.
type RedisEnv struct {
	Host     string `envconfig:"REDIS_HOST" default:"localhost"`
	Port     int    `envconfig:"REDIS_PORT" default:"6379"`
	DB       int    `envconfig:"REDIS_DB" default:"0"`
	Username string `envconfig:"REDIS_USERNAME"` // none by default
	Password string `envconfig:"REDIS_PASSWORD"` // none by default
	TLS      bool   `envconfig:"REDIS_TLS"`
}

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
	Topic        string `envconfig:"PUBSUB_TOPIC" default:"pdf-processing-topic"` // where submit and redrive publish
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
	Engine         string  `envconfig:"PDF_ENGINE" default:"builtin"` // builtin or poppler
	MaxInputBytes  int64   `envconfig:"MAX_INPUT_BYTES" default:"1073741824"`
	MaxPages       int     `envconfig:"MAX_PAGES" default:"100000"`
	WorkDir        string  `envconfig:"WORK_DIR"`                            // the system's place for temporary files when empty
	PDFMemory      int64   `envconfig:"PDF_MAX_MEMORY" default:"1073741824"` // bytes
	PDFTimeout     seconds `envconfig:"PDF_TIMEOUT" default:"15m"`
	PDFPageTimeout seconds `envconfig:"PDF_PAGE_TIMEOUT" default:"60s"`
}

// WorkerEnv is what a worker needs.
type WorkerEnv struct {
	ClientEnv
	PDFEnv
	Kind             string  `envconfig:"PROCESSOR" default:"pdf"` // kind of jobs whose message names none: pdf or mock
	Slots            int     `envconfig:"WORKER_SLOTS" default:"1"`
	Name             string  `envconfig:"WORKER_NAME"` // the host's name and the process id when empty
	LeaseTTL         seconds `envconfig:"LEASE_TTL" default:"600s"`
	ExtendEvery      seconds `envconfig:"LEASE_EXTEND_EVERY"` // half of LEASE_TTL when empty
	Drain            seconds `envconfig:"DRAIN_TIMEOUT" default:"8s"`
	JobTimeout       seconds `envconfig:"JOB_TIMEOUT" default:"30m"`
	StallTimeout     seconds `envconfig:"STALL_TIMEOUT" default:"10m"`
	SettleTimeout    seconds `envconfig:"SETTLE_TIMEOUT" default:"10m"`
	StartTimeout     seconds `envconfig:"START_TIMEOUT" default:"2m"`
	ProgressInterval seconds `envconfig:"PROGRESS_INTERVAL" default:"100ms"`
	Checkpoint       seconds `envconfig:"CHECKPOINT_INTERVAL" default:"30s"`
	MaxCrashes       int     `envconfig:"MAX_CRASHES" default:"3"`
	PriorityShare    int     `envconfig:"PRIORITY_SHARE" default:"5"` // one lease in so many is asked of the normal subscription first
	IdleExit         seconds `envconfig:"IDLE_EXIT"`                  // off when 0
	MaxRuntime       seconds `envconfig:"MAX_RUNTIME"`                // off when 0
	MockPages        numbers `envconfig:"MOCK_PAGES" default:"5-20"`
	MockPageSeconds  numbers `envconfig:"MOCK_PAGE_SECONDS" default:"3-5"`
	HTTPAddr         string  `envconfig:"HTTP_ADDR"` // health and metrics; off when empty
}

// seconds is a duration that may be given as 90s, 5m, or as a bare number.
type seconds time.Duration

// Decode implements [envconfig.Decoder].
func (s *seconds) Decode(value string) error {
	d, err := time.ParseDuration(value)
	if err != nil {
		n, bad := strconv.ParseFloat(value, 64)
		if bad != nil || n < 0 || n > 1e9 {
			return fmt.Errorf("give a duration such as 90s or 5m, or a number of seconds")
		}
		d = time.Duration(n * float64(time.Second))
	}
	*s = seconds(d)
	return nil
}

func (s seconds) d() time.Duration { return time.Duration(s) }

// numbers is a range such as 5-20, or one number.
type numbers struct{ low, high float64 }

// Decode implements [envconfig.Decoder].
func (n *numbers) Decode(value string) error {
	low, high, isRange := strings.Cut(value, "-")
	if !isRange {
		high = low
	}
	var err, err2 error
	n.low, err = strconv.ParseFloat(strings.TrimSpace(low), 64)
	n.high, err2 = strconv.ParseFloat(strings.TrimSpace(high), 64)
	if err != nil || err2 != nil || !(0 <= n.low && n.low <= n.high && n.high <= worker.MaxMockPages) {
		return fmt.Errorf("give a number or a range such as 5-20, from 0 to %d", worker.MaxMockPages)
	}
	return nil
}

// readEnv fills conf, a pointer to one of the structs above, from the
// environment, to which main has added the file .env, and reports all mistakes
// at once.
func readEnv(conf interface{ check() []error }) error {
	// Empty means not set: compose writes ${VAR:-} for what nobody has set.
	for _, pair := range os.Environ() {
		if name, value, _ := strings.Cut(pair, "="); value == "" {
			if err := os.Unsetenv(name); err != nil {
				return err
			}
		}
	}
	var mistakes []error
	for {
		err := envconfig.Process("", conf)
		wrong := (*envconfig.ParseError)(nil)
		if !errors.As(err, &wrong) {
			if err != nil {
				mistakes = append(mistakes, err)
			}
			break
		}
		mistakes = append(mistakes, fmt.Errorf("%s is %q: %w", wrong.KeyName, wrong.Value, plainCause(wrong)))
		// Without the bad value its default applies, and the next one shows.
		if err := os.Unsetenv(wrong.KeyName); err != nil {
			return err
		}
	}
	if mistakes = compact(mistakes, conf.check()); len(mistakes) > 0 {
		return exitError{exitUsage, fmt.Errorf("configuration:\n%w", errors.Join(mistakes...))}
	}
	return nil
}

// plainCause drops what strconv says of its own functions.
func plainCause(e *envconfig.ParseError) error {
	if n := (*strconv.NumError)(nil); errors.As(e.Err, &n) {
		kind := "whole number"
		if e.TypeName == reflect.Bool.String() {
			kind = "true or false"
		}
		return fmt.Errorf("want a %s", kind)
	}
	return e.Err
}

func (e *RedisEnv) check() (wrong []error) {
	wrong = append(wrong, within("REDIS_PORT", int64(e.Port), 1, 65535), within("REDIS_DB", int64(e.DB), 0, 1<<20))
	if e.Host == "" || strings.ContainsAny(e.Host, "/@ ") {
		// Not quoted: it may be a URL with a password.
		wrong = append(wrong, errors.New("REDIS_HOST is not a host name or address alone; port and password have variables of their own"))
	}
	return wrong
}

func (e *StorageEnv) check() (wrong []error) {
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

func (e *PubSubEnv) check() (wrong []error) {
	if _, err := worker.PubSubOptions(e.Emulator); err != nil {
		wrong = append(wrong, err)
	}
	subscription, err := worker.SubscriptionName("PUBSUB_SUBSCRIPTION", e.Project, e.Subscription)
	topic, err2 := worker.TopicName("PUBSUB_TOPIC", e.Project, e.Topic)
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
		wrong = append(wrong, errors.New("DEAD_LETTER_TOPIC is PUBSUB_TOPIC: what failed would come back at once, for ever"))
	}
	if letters != "" && (letters == subscription || letters == urgent) {
		wrong = append(wrong, errors.New("DEAD_LETTER_SUBSCRIPTION is one that workers take jobs from: give dead letters a subscription of their own"))
	}
	return append(wrong, err, err2, err3, err4, err5)
}

// prioritySubscription returns the full name, or none when there is none.
func (e *PubSubEnv) prioritySubscription() (string, error) {
	if e.Priority == "" {
		return "", nil
	}
	return worker.SubscriptionName("PUBSUB_PRIORITY_SUBSCRIPTION", e.Project, e.Priority)
}

// deadTopic returns the full name, or none when there is none.
func (e *PubSubEnv) deadTopic() (string, error) {
	if e.DeadTopic == "" {
		return "", nil
	}
	return worker.TopicName("DEAD_LETTER_TOPIC", e.Project, e.DeadTopic)
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
		return worker.SubscriptionName("DEAD_LETTER_SUBSCRIPTION", e.Project, e.DeadLetters)
	}
	topic, err := e.deadTopic()
	return strings.Replace(topic, "/topics/", "/subscriptions/", 1), err
}

func (e *ClientEnv) check() []error {
	return compact(e.RedisEnv.check(), e.StorageEnv.check(), e.PubSubEnv.check())
}

// The limits of spans in checks.
const (
	second = int64(time.Second)
	day    = 24 * int64(time.Hour)
)

func (e *PDFEnv) check() []error {
	wrong := []error{
		within("MAX_INPUT_BYTES", e.MaxInputBytes, 1, 1<<40),
		within("MAX_PAGES", int64(e.MaxPages), 1, 1_000_000),
		within("PDF_MAX_MEMORY", e.PDFMemory, 64<<20, 1<<40),
		span("PDF_TIMEOUT", e.PDFTimeout, second, day),
		span("PDF_PAGE_TIMEOUT", e.PDFPageTimeout, second/10, day),
	}
	if !slices.Contains(engines, e.Engine) {
		wrong = append(wrong, fmt.Errorf("PDF_ENGINE is %q: want builtin or poppler", e.Engine))
	}
	return compact(wrong)
}

func (e *WorkerEnv) check() []error {
	wrong := []error{
		within("WORKER_SLOTS", int64(e.Slots), 1, 256),
		within("MAX_CRASHES", int64(e.MaxCrashes), 1, 100),
		within("PRIORITY_SHARE", int64(e.PriorityShare), 2, 1000),
		span("LEASE_TTL", e.LeaseTTL, 10*second, 600*second), // Pub/Sub's own limits
		span("DRAIN_TIMEOUT", e.Drain, 0, day),
		span("JOB_TIMEOUT", e.JobTimeout, second, 7*day),
		span("STALL_TIMEOUT", e.StallTimeout, second, 7*day),
		span("SETTLE_TIMEOUT", e.SettleTimeout, second, day),
		span("START_TIMEOUT", e.StartTimeout, 0, day),
		span("PROGRESS_INTERVAL", e.ProgressInterval, second/1000, 60*second),
		span("CHECKPOINT_INTERVAL", e.Checkpoint, second/10, 3600*second),
	}
	if e.IdleExit != 0 {
		wrong = append(wrong, span("IDLE_EXIT", e.IdleExit, second, 7*day))
	}
	if shortest := int64(e.JobTimeout) + 2*int64(worker.RuntimeMargin); e.MaxRuntime != 0 && (int64(e.MaxRuntime) < shortest || int64(e.MaxRuntime) > 30*day) {
		wrong = append(wrong, fmt.Errorf("MAX_RUNTIME is %s: must be from %s to %s, because no job is taken in the last JOB_TIMEOUT (%s) and %s of it",
			e.MaxRuntime.d(), time.Duration(shortest), time.Duration(30*day), e.JobTimeout.d(), worker.RuntimeMargin))
	}
	if e.ExtendEvery != 0 {
		wrong = append(wrong, span("LEASE_EXTEND_EVERY", e.ExtendEvery, second, int64(e.LeaseTTL)*8/10))
	}
	if level := os.Getenv("LOG_LEVEL"); level != "" && new(slog.Level).UnmarshalText([]byte(level)) != nil {
		wrong = append(wrong, fmt.Errorf("LOG_LEVEL is %q: want DEBUG, INFO, WARN or ERROR", level))
	}
	if e.Kind != "pdf" && e.Kind != "mock" {
		wrong = append(wrong, fmt.Errorf("PROCESSOR is %q: want pdf or mock", e.Kind))
	}
	return compact(e.ClientEnv.check(), e.PDFEnv.check(), wrong)
}

func within(name string, value, low, high int64) error {
	if value < low || value > high {
		return fmt.Errorf("%s is %d: must be from %d to %d", name, value, low, high)
	}
	return nil
}

func span(name string, value seconds, low, high int64) error {
	if int64(value) < low || int64(value) > high {
		return fmt.Errorf("%s is %s: must be from %s to %s", name, value.d(), time.Duration(low), time.Duration(high))
	}
	return nil
}

// compact joins lists of errors and drops the nil ones.
func compact(lists ...[]error) (wrong []error) {
	for _, list := range lists {
		for _, err := range list {
			if err != nil {
				wrong = append(wrong, err)
			}
		}
	}
	return wrong
}

func duration(secs float64) time.Duration { return time.Duration(secs * float64(time.Second)) }
