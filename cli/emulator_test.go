package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apiv1 "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/pubsub"
)

// An emulatorProcess is a real `batchfleet emulator` with the fleet's topic and
// subscription.
type emulatorProcess struct {
	*process
	addr   string
	topics *apiv1.TopicAdminClient
	subs   *apiv1.SubscriptionAdminClient
}

func startEmulator(t *testing.T, dir string) *emulatorProcess {
	t.Helper()
	return launchEmulator(t, nil, "--data-dir", dir, "--topic", "pdf-processing-topic", "--subscription", "pdf-processing-subscription")
}

// launchEmulator starts an emulator with the given environment and flags.
func launchEmulator(t *testing.T, env []string, flags ...string) *emulatorProcess {
	t.Helper()
	env = append(env, "HOME="+t.TempDir())
	p := &emulatorProcess{process: launch(t, batchfleet(t, env, append([]string{"emulator", "--addr", "127.0.0.1:0", "--ack-deadline", "60s"}, flags...)...))}
	const said = "emulator listens on "
	p.untilLogged(said)
	_, addr, _ := strings.Cut(p.log.String(), said)
	p.addr, _, _ = strings.Cut(addr, "\n")
	opts, err := pubsub.Options(p.addr)
	if err != nil {
		t.Fatal(err)
	}
	if p.topics, err = apiv1.NewTopicAdminClient(t.Context(), opts...); err != nil {
		t.Fatal(err)
	}
	if p.subs, err = apiv1.NewSubscriptionAdminClient(t.Context(), opts...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = p.topics.Close(), p.subs.Close() })
	return p
}

func getSubscription(name string) *pubsubpb.GetSubscriptionRequest {
	return &pubsubpb.GetSubscriptionRequest{Subscription: name}
}

func (p *emulatorProcess) publish(ctx context.Context, texts ...string) error {
	req := &pubsubpb.PublishRequest{Topic: testTopic}
	for _, text := range texts {
		req.Messages = append(req.Messages, &pubsubpb.PubsubMessage{Data: []byte(text)})
	}
	_, err := p.topics.Publish(ctx, req)
	return err
}

// pull returns what is there, ack ids by text.
func (p *emulatorProcess) pull(most int32) map[string]string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	got := map[string]string{}
	for len(got) < int(most) {
		resp, err := p.subs.Pull(ctx, &pubsubpb.PullRequest{
			Subscription: testSubscription, MaxMessages: min(most-int32(len(got)), 1000), ReturnImmediately: true, //nolint:staticcheck // what is there now
		})
		if err != nil {
			p.t.Fatal(err)
		}
		if len(resp.GetReceivedMessages()) == 0 {
			break
		}
		for _, m := range resp.GetReceivedMessages() {
			text := string(m.GetMessage().GetData())
			if got[text] != "" {
				p.t.Errorf("message %s was handed out twice", text)
			}
			got[text] = m.GetAckId()
		}
	}
	return got
}

func (p *emulatorProcess) ack(ids ...string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	if err := p.subs.Acknowledge(ctx, &pubsubpb.AcknowledgeRequest{Subscription: testSubscription, AckIds: ids}); err != nil {
		p.t.Fatal(err)
	}
}

// Four publishers send for as long as the process lives. What they were told is
// published must be there afterwards; what was leased must still be, under the
// same ack id; what was acked must be gone.
func TestE06AcknowledgedPublishesAndLeasesSurviveKill9(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	p := startEmulator(t, dir)
	var all sync.Map // text → nothing, of acknowledged publishes
	var publishing sync.WaitGroup
	told := make(chan struct{}, 1<<20)
	// The client would go on trying for a minute after the server is gone.
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	for n := range 4 {
		publishing.Go(func() {
			for i := 0; ; i++ {
				texts := []string{fmt.Sprintf("%d-%d-a", n, i), fmt.Sprintf("%d-%d-b", n, i)}
				if p.publish(ctx, texts...) != nil {
					return
				}
				for _, text := range texts {
					all.Store(text, nil)
				}
				told <- struct{}{}
			}
		})
	}
	for range 100 {
		<-told
	}
	leased := p.pull(20)
	acked := map[string]string{}
	for text, id := range leased {
		if len(acked) < 10 {
			acked[text] = id
			p.ack(id)
			delete(leased, text)
		}
	}
	for range 100 {
		<-told
	}
	p.kill()
	giveUp()
	publishing.Wait()

	p = startEmulator(t, dir)
	p.untilLogged("state restored")
	back := p.pull(1 << 30)
	for text := range leased {
		if back[text] != "" {
			t.Errorf("message %s is leased and was handed out", text)
		}
	}
	count := 0
	all.Range(func(key, _ any) bool {
		count++
		text := key.(string)
		if there := back[text] != "" || leased[text] != "" || acked[text] != ""; !there {
			t.Errorf("message %s is lost", text)
		}
		if acked[text] != "" && back[text] != "" {
			t.Errorf("message %s was acked and came back", text)
		}
		return true
	})
	if count < 400 {
		t.Errorf("only %d messages were published", count)
	}
	for part := range slices.Chunk(slices.Concat(slices.Collect(maps.Values(leased)), slices.Collect(maps.Values(back))), 1000) {
		p.ack(part...)
	}
	if code, _ := p.terminate(); code != 0 {
		t.Errorf("exit code %d after SIGTERM:\n%s", code, p.log)
	}

	p = startEmulator(t, dir)
	resp, err := http.Get("http://" + p.addr + "/stats") //nolint:noctx // a test on loopback
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	stats, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(stats), `"undelivered":0,"leased":0`) {
		t.Errorf("after all was acked: %s, %v", stats, err)
	}
}

func TestE06TornFileIsRepairedWithALineInTheLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startEmulator(t, dir)
	for _, text := range []string{"a", "b"} {
		if err := p.publish(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	p.kill()
	segments, err := filepath.Glob(filepath.Join(dir, "segment.*.v1"))
	if err != nil || len(segments) != 1 {
		t.Fatalf("segments %v, %v; want one", segments, err)
	}
	info, err := os.Stat(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(segments[0], info.Size()-3); err != nil {
		t.Fatal(err)
	}

	p = startEmulator(t, dir)
	p.untilLogged(filepath.Base(segments[0]))
	if got := p.pull(10); len(got) != 1 || got["a"] == "" {
		t.Errorf("got %v, want a alone: b was torn", got)
	}
	if err := p.publish(t.Context(), "c"); err != nil {
		t.Errorf("publish after the repair: %v", err)
	}
}

func TestE06QueuesAndDirectoryFromTheEnvironment(t *testing.T) {
	t.Parallel()
	env := []string{
		"EMULATOR_TOPICS=pdf-processing-topic,dead-letters",
		"EMULATOR_SUBSCRIPTIONS=pdf-processing-subscription,dead-letters:dead-letters",
		"EMULATOR_DATA_DIR=" + t.TempDir(),
	}
	p := launchEmulator(t, env)
	if err := p.publish(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	sub, err := p.subs.GetSubscription(t.Context(), getSubscription("projects/local-dev/subscriptions/dead-letters"))
	if err != nil || sub.GetTopic() != "projects/local-dev/topics/dead-letters" {
		t.Errorf("the second subscription is %v, %v", sub, err)
	}
	p.kill()
	if got := launchEmulator(t, env).pull(10); len(got) != 1 || got["a"] == "" {
		t.Errorf("after kill -9 got %v, want a", got)
	}
}

func TestE06DataDirBelongsToOneEmulator(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := startEmulator(t, dir)
	second := batchfleet(t, []string{"HOME=" + t.TempDir()}, "emulator", "--addr", "127.0.0.1:0", "--data-dir", dir)
	out, err := second.CombinedOutput()
	if second.ProcessState.ExitCode() != program.Usage || !strings.Contains(string(out), fmt.Sprint(first.Process.Pid)) {
		t.Errorf("second emulator on one directory: %v, %s; want exit code %d and the first one's process id", err, out, program.Usage)
	}
}
