package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestF63ARetryIsSaidOnceUntilItsReasonChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		say := sayRetrying(&out)
		for _, why := range []string{"EOF", "EOF", "connection refused", "EOF", "EOF"} {
			say(fmt.Errorf("%w: %s", jobs.ErrUnavailable, why))
			time.Sleep(20 * time.Second)
		}
		time.Sleep(time.Hour) // it has answered
		say(errors.New("EOF"))
		line := func(why string) string { return "batchfleet: " + why + "; retrying\n" }
		if want := line("EOF") + line("connection refused") + line("EOF") + line("EOF"); out.String() != want {
			t.Errorf("it says\n%swant\n%s", &out, want)
		}
	})
}

// TestF63DeadLettersOfAServerThatIsNoGateway are those of Pub/Sub, which no server reads.
func TestF63DeadLettersOfAServerThatIsNoGateway(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	for args, want := range map[string]string{
		"dlq list":                "dead letters of Pub/Sub are read directly: leave out --api (or BATCHFLEET_API)",
		"dlq redrive":             "dead letters of Pub/Sub are read directly",
		"dlq redrive a":           "dead letters of Pub/Sub are read directly",
		"dlq purge --all --yes":   "dead letters of Pub/Sub are read directly",
		"dlq list --scope zpe":    "it is no gateway",
		"workers enroll --ttl 1h": "it is no gateway",
	} {
		root := rootCommand()
		root.SetArgs(append(strings.Fields(args), "--api", s.URL))
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		err := root.ExecuteContext(t.Context())
		if coded, _ := errors.AsType[program.ExitError](err); coded.Code != program.Usage || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("batchfleet %s: exit code %d, %v; want %s", args, coded.Code, err, want)
		}
	}
}
