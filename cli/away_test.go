package cli

import (
	"regexp"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/internal/testnet"
)

// TestF15WorkerWithoutPubSubIsNotReadyAndReadyAgainOnceItAnswers though no job comes, and shows both where
// people look: /readyz, workers and who waits for a job.
func TestF15WorkerWithoutPubSubIsNotReadyAndReadyAgainOnceItAnswers(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	var stop func()
	f.addr, stop = testnet.Serve(t, testnet.AnyPort, f.emulator.Serve)
	http := freeAddr(t)
	f.start("WORKER_NAME=w1", "HTTP_ADDR="+http)
	says := func(pattern string, args ...string) {
		t.Helper()
		var out []byte
		until(t, time.Minute, pattern, func() bool {
			out, _ = f.command(args...).CombinedOutput()
			return regexp.MustCompile(pattern).Match(out)
		})
	}
	says(`^ready\b`, "healthcheck", "http://"+http+"/readyz")
	says(`(?m)^w1 +idle `, "workers")
	stop()
	const why = `cannot lease a job: pull from \S+: cannot reach Pub/Sub at \S+: connection refused`
	says(`503.*cannot lease a job: .*: connection refused`, "healthcheck", "http://"+http+"/readyz")
	says(`(?m)^w1 +not ready (?s:.*)^batchfleet: w1 is not ready: `+why+`$`, "workers")
	if got := noWorker(t.Context(), f.status, "mock"); !regexp.MustCompile(`^no worker takes jobs of kind mock: w1 is not ready: ` + why + `$`).MatchString(got) {
		t.Errorf("who waits is told %q", got)
	}
	testnet.Serve(t, f.addr, f.emulator.Serve)
	says(`^ready\b`, "healthcheck", "http://"+http+"/readyz")
	says(`(?m)^w1 +idle `, "workers")
	f.submit("a", 3)
	f.untilState(time.Minute, "a", "completed")
}
