package pubsub

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

var died = worker.DeadLetterInfo{Cause: worker.CauseFailed, At: time.Date(2026, 11, 21, 12, 0, 0, 5000, time.UTC), Reason: "not a PDF", Attempt: 2}

func TestF13LetterTellsWhatDiedAndWhy(t *testing.T) {
	data := `{"job_id":"a","pdf_path":"uploads/a/x.pdf","pages":3}`
	lease := jobs.Lease{
		ID: "ack", Job: jobs.Job{ID: "a", Kind: "pdf"}, Delivery: 4,
		Raw: jobs.Raw{ID: "17", Queue: subName, Data: []byte(data), Attributes: map[string]string{"traceparent": goodTrace}},
	}
	m := deadLetter(lease, died)
	want := map[string]string{
		"traceparent": goodTrace, "dead_cause": "failed", "dead_reason": "not a PDF", "dead_job_id": "a", "dead_kind": "pdf",
		"dead_failed_at": "2026-11-21T12:00:00.000005Z", "dead_subscription": subName, "dead_message_id": "17", "dead_attempts": "2", "dead_delivery": "4",
	}
	if diff := cmp.Diff(want, m.GetAttributes()); diff != "" || string(m.GetData()) != data {
		t.Errorf("dead letter of %s (-want +got):\n%s", m.GetData(), diff)
	}
	wantRead := DeadLetter{
		Job:  jobs.Job{ID: "a", Kind: "pdf", Input: "uploads/a/x.pdf", Pages: 3, Trace: goodTrace},
		Data: []byte(data), Message: map[string]string{"traceparent": goodTrace},
		Cause: "failed", Reason: "not a PDF", At: died.At, Queue: subName, MessageID: "17", Attempt: 2,
	}
	got := Rules{}.decodeDeadLetter(m)
	if diff := cmp.Diff(wantRead, got, cmpopts.IgnoreUnexported(DeadLetter{})); diff != "" || got.Name() != "a" {
		t.Errorf("dead letter %s read (-want +got):\n%s", got.Name(), diff)
	}
}

func TestF13LetterOfAMessageThatNamesNoJob(t *testing.T) {
	lease := jobs.Lease{Raw: jobs.Raw{ID: "17", Queue: subName, Data: []byte("\xff\x00noise")}}
	m := deadLetter(lease, worker.DeadLetterInfo{Cause: worker.CauseMalformed, At: died.At, Reason: "malformed message: \xff"})
	if diff := cmp.Diff(map[string]string{
		"dead_cause": "malformed", "dead_reason": "malformed message: \uFFFD", "dead_failed_at": "2026-11-21T12:00:00.000005Z",
		"dead_subscription": subName, "dead_message_id": "17", "dead_attempts": "0",
	}, m.GetAttributes()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if l := (Rules{}).decodeDeadLetter(m); l.Name() != "message:17" || l.Cause != "malformed" || string(l.Data) != "\xff\x00noise" {
		t.Errorf("read as %s: %+v", l.Name(), l)
	}
}

// publishable fails the test unless Pub/Sub would take m.
func publishable(t *testing.T, m *pubsubpb.PubsubMessage) {
	t.Helper()
	size := len(m.GetData())
	for name, value := range m.GetAttributes() {
		size += len(name) + len(value)
		if name == "" || len(name) > 256 || len(value) > 1024 || strings.HasPrefix(name, "goog") || !utf8.ValidString(value) {
			t.Errorf("attribute %.40q has %d bytes: %.40q", name, len(value), value)
		}
	}
	if size > 10_000_000-1000 || len(m.GetAttributes()) > 100 {
		t.Errorf("%d attributes, %d bytes in all", len(m.GetAttributes()), size)
	}
}

func TestF13LetterKeepsWithinTheLimitsOfPubSub(t *testing.T) {
	many := map[string]string{"googclient_schemaname": "x", "dead_reason": "an earlier death"}
	for i := range 98 {
		many[fmt.Sprintf("a%02d", i)] = strings.Repeat("v", 1024)
	}
	lease := jobs.Lease{
		Job: jobs.Job{ID: jobs.ID(strings.Repeat("j", jobs.MaxIDLength)), Kind: "pdf"}, Delivery: 1 << 30,
		Raw: jobs.Raw{
			ID: strings.Repeat("1", 2000), Queue: "projects/p/subscriptions/" + strings.Repeat("s", 2000),
			Data: []byte(strings.Repeat("d", 10_000_000)), Attributes: many,
		},
	}
	m := deadLetter(lease, worker.DeadLetterInfo{Cause: worker.CauseFailed, At: died.At, Reason: strings.Repeat("é", 5000), Attempt: 1 << 30})
	publishable(t, m)
	if len(m.GetAttributes()) != 100 || m.GetAttributes()["dead_attributes_omitted"] != "11" || m.GetAttributes()["a00"] == "" {
		t.Errorf("%d attributes, %s omitted; want 100 and 11", len(m.GetAttributes()), m.GetAttributes()["dead_attributes_omitted"])
	}
	l := Rules{}.decodeDeadLetter(m)
	if l.Cut != 10_000_000 || len(l.Data) < 9_800_000 || l.Job.ID != lease.Job.ID || l.Job.Kind != "pdf" || !strings.HasSuffix(l.Reason, "é …") {
		t.Errorf("cut at %d of %d bytes, job %.20q of kind %q, reason %.20q", len(l.Data), l.Cut, l.Job.ID, l.Job.Kind, l.Reason)
	}
	if err := new(Publisher).Resend(t.Context(), l); err == nil || !strings.Contains(err.Error(), "of its 10000000 bytes were kept") {
		t.Errorf("resend of a part: %v", err)
	}
}

func TestF13LettersOfOthersAreReadAsFarAsTheyGo(t *testing.T) {
	published := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	tests := []struct {
		name string
		data string
		attr map[string]string
		want DeadLetter
	}{
		{
			"Pub/Sub's own policy", `{"job_id":"a"}`,
			map[string]string{"CloudPubSubDeadLetterSourceSubscription": "jobs", "CloudPubSubDeadLetterSourceDeliveryCount": "5", "x": "y"},
			DeadLetter{
				Job: jobs.Job{ID: "a"}, Cause: "unknown", Reason: "given up by the dead letter policy of the subscription", Queue: "jobs",
				Message: map[string]string{"x": "y"}, At: published, MessageID: "99",
			},
		},
		{"nothing but data", `{"job_id":"a"}`, nil, DeadLetter{Job: jobs.Job{ID: "a"}, Cause: "unknown", At: published, MessageID: "99"}},
		{
			"lies", `{"job_id":"a"}`,
			map[string]string{"dead_job_id": "b", "dead_attempts": "-1", "dead_failed_at": "yesterday", "dead_cause": "boredom", "dead_kind": "KIND!", "dead_data_bytes": "x"},
			DeadLetter{Job: jobs.Job{ID: "a"}, Cause: "unknown", At: published, MessageID: "99"},
		},
		{"a name that cannot be typed", "noise", map[string]string{"dead_message_id": "17\x1b[2J \u202e"}, DeadLetter{Cause: "unknown", At: published, MessageID: "99"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Rules{}.decodeDeadLetter(&pubsubpb.PubsubMessage{Data: []byte(tt.data), Attributes: tt.attr, MessageId: "99", PublishTime: timestamppb.New(published)})
			tt.want.Data = []byte(tt.data)
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreUnexported(DeadLetter{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestF13LetterNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "message:17": true, "message:": false, "message:1 7": false, "message:1\n": false, "message:1\u009b": false, "": false, "../x": false, "a:b": false,
		"message:" + strings.Repeat("1", 1025): false,
	} {
		if err := CheckDeadLetterName(name); (err == nil) != ok {
			t.Errorf("CheckDeadLetterName(%.20q) = %v; want ok=%t", name, err, ok)
		}
	}
}

// FuzzDeadLetter decodes any message and makes a dead letter of the result.
func FuzzDeadLetter(f *testing.F) {
	f.Add([]byte(`{"job_id":"a","kind":"mock"}`), "dead_reason", "broken", "dead_data_bytes", "12")
	f.Add([]byte("\xff"), "dead_attempts", "9223372036854775808", "goog", "x")
	f.Add([]byte(`{"job_id":"b"}`), "dead_job_id", "a..b", "dead_kind", "pdf")
	f.Fuzz(func(t *testing.T, data []byte, name1, value1, name2, value2 string) {
		attributes := map[string]string{name1: value1, name2: value2}
		before := maps.Clone(attributes)
		l := Rules{}.decodeDeadLetter(&pubsubpb.PubsubMessage{Data: data, Attributes: attributes, MessageId: "1"})
		if !maps.Equal(before, attributes) {
			t.Error("the message was changed")
		}
		if l.Job.ID != "" {
			if _, err := jobs.ParseID(string(l.Job.ID)); err != nil {
				t.Error(err)
			}
		}
		if err := CheckDeadLetterName(l.Name()); err != nil {
			t.Error(err)
		}
		if l.Attempt < 0 || l.Cut < 0 {
			t.Errorf("%d attempts, cut at %d", l.Attempt, l.Cut)
		}
		// What Pub/Sub let in as attributes is all that can come back out of it.
		if len(name1) > 256 || len(name2) > 256 || len(value1) > 1024 || len(value2) > 1024 || name1 == "" || name2 == "" || !utf8.ValidString(value1) || !utf8.ValidString(value2) {
			return
		}
		publishable(t, deadLetter(jobs.Lease{Job: l.Job, Raw: jobs.Raw{ID: l.MessageID, Queue: l.Queue, Data: l.Data, Attributes: attributes}}, worker.DeadLetterInfo{Cause: l.Cause, At: l.At, Reason: l.Reason, Attempt: l.Attempt}))
	})
}
