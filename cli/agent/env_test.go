package agent

import (
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/cli/settings"
)

func TestOnlyWhatIsWrongIsReported(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  map[string]string
		want string
	}{
		{"SOURCE is empty", map[string]string{"SOURCE": ""}, "SOURCE must be set: the gateway's address, https://HOST"},
		{"SOURCE is no address", map[string]string{"SOURCE": "gateway.example"}, "SOURCE is no address: want https://HOST, http://HOST on loopback, or redis://HOST:PORT/DB"},
		{
			"WORKER_NAME would disorder a terminal",
			map[string]string{"SOURCE": "https://g.example", "WORKER_NAME": "lab\x1b[2J\u202e"},
			`WORKER_NAME is "lab\x1b[2J\u202e": it must not hold control characters, invisible formatting characters (such as right-to-left marks) or bytes that are not UTF-8`,
		},
		{
			"WORKER_NAME is longer than a gateway takes it",
			map[string]string{"SOURCE": "https://g.example", "WORKER_NAME": strings.Repeat("n", 201)},
			"WORKER_NAME is 201 bytes long, at most 200 are allowed",
		},
		{
			"pw.x would not start with QE_MAX_MEMORY",
			map[string]string{"SOURCE": "https://g.example", "QE_MAX_MEMORY": "268435455"},
			"QE_MAX_MEMORY is 268435455: must be from 268435456 to 17592186044416",
		},
		{
			"MAX_RUNTIME is too short for a job",
			map[string]string{"SOURCE": "https://g.example", "MAX_RUNTIME": "1h"},
			"MAX_RUNTIME is 1h0m0s: must be from 24h2m0s to 1440h0m0s, because no job is taken in the last JOB_TIMEOUT (24h0m0s) and 1m0s of it",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("PROCESSOR", "mock") // pw.x need not be here
			for name, value := range tt.env {
				t.Setenv(name, value)
			}
			var e Env
			err := settings.Read(&e)
			if err == nil || err.Error() != tt.want {
				t.Errorf("got %v\nwant %s", err, tt.want)
			}
		})
	}
}
