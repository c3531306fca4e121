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

	"github.com/alicebob/miniredis/v2"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/internal/testrun"
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

// TestF63ListOfOperationsSaysWhereTheyAreKnown if it is empty because no server was asked.
func TestF63ListOfOperationsSaysWhereTheyAreKnown(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it starts processes")
	rds := miniredis.RunT(t)
	for args, want := range map[string]string{
		"list --scope system": "batchfleet: operations are known only to the server that runs them: --api\n",
		"list --scope utils":  "batchfleet: operations are known only to the server that runs them: --api\n",
		"list --scope fleet":  "",
		"list":                "",
	} {
		code, stdout, stderr := output(t, batchfleet(t, []string{"REDIS_HOST=" + rds.Host(), "REDIS_PORT=" + rds.Port()}, strings.Fields(args)...))
		if code != 0 || stderr != want {
			t.Errorf("batchfleet %s: exit code %d, want 0 and %q\n%s%s", args, code, want, stdout, stderr)
		}
	}
}
