package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestF63DoctorLooksAtTheGateway(t *testing.T) {
	t.Parallel()
	g, url := runningGateway(t)
	file := g.register(url, "pc")
	env := func(extra ...string) []string {
		return append([]string{"SOURCE=" + url, "WORKER_TOKEN_FILE=" + file, "AGENT_DIR=" + filepath.Join(g.dir, "agent"), "PROCESSOR=mock"}, extra...)
	}
	loose := g.write("loose.token", "zpw_token-that-others-may-read")
	if err := os.Chmod(loose, 0o644); err != nil {
		t.Fatal(err)
	}
	redis := fmt.Sprintf("redis://%s:%d/0", g.redis.Host, g.redis.Port)
	for _, tt := range []struct {
		name  string
		extra []string
		code  int
		want  []string
		never string
	}{
		{"all is well", nil, 0, []string{"ok    gateway  " + url + ": answers", "of worker w-", "the gateway takes it", "ok    agent", "ok    pw.x     pw.x: not needed (PROCESSOR is mock)"}, "FAIL"},
		{"nobody is there", []string{"SOURCE=http://127.0.0.1:1", "WORKER_TOKEN_FILE=" + g.write("bare.token", "zpw_token-of-no-gateway")}, 1, []string{"FAIL  gateway", "connection refused", "what to do: check SOURCE", "ok    token", "could not be asked"}, "GCP_PROJECT_ID"},
		{"a path too much", []string{"SOURCE=" + url + "/calc", "WORKER_TOKEN_FILE=" + filepath.Join(g.dir, "bare.token")}, 1, []string{"FAIL  gateway", "set SOURCE to the gateway's own address, without a path"}, ""},
		{"the token of another gateway", []string{"SOURCE=http://localhost:" + strings.TrimPrefix(url, "http://127.0.0.1:")}, 1, []string{"ok    gateway", "FAIL  token", "is for " + url, "mend what is said there"}, ""},
		{"no token", []string{"WORKER_TOKEN_FILE=" + filepath.Join(g.dir, "none")}, 1, []string{"ok    gateway", "FAIL  token", "or register this machine: batchfleet worker register"}, ""},
		{"a token that others may read", []string{"WORKER_TOKEN_FILE=" + loose}, 1, []string{"FAIL  token", "what to do: chmod 600 " + loose}, ""},
		{"a token that the gateway does not know", []string{"WORKER_TOKEN_FILE=" + g.write("unknown.token", "zpw_token-nobody-knows")}, 1, []string{"ok    gateway", "FAIL  token", "UNAUTHORIZED", "ask the gateway's operator for an enroll token (`batchfleet workers enroll` makes one)", "batchfleet worker register"}, ""},
		{"no place for leases", []string{"AGENT_DIR=" + loose}, 1, []string{"FAIL  agent", "make AGENT_DIR a directory"}, ""},
		{"no pw.x", []string{"PROCESSOR=zpe", "QE_PW=nopw.x"}, 1, []string{"ok    token", "FAIL  pw.x     nopw.x: QE_PW: exec:", "1 of 4 checks failed"}, "configuration:"},
		{"no CA file", []string{"GATEWAY_CA_FILE=nope"}, 1, []string{"FAIL  gateway", "GATEWAY_CA_FILE: read CA file: open nope", "set GATEWAY_CA_FILE to a file"}, ""},
		{"two mistakes in the settings", []string{"WORKER_SLOTS=0"}, 2, []string{"ok    gateway", "WORKER_SLOTS is 0: must be from 1 to 256"}, ""},
		{"Redis", []string{"SOURCE=" + redis, "WORKER_NAME=inside"}, 0, []string{"ok    redis    " + redis + ": answers and accepts writes", "ok    agent"}, "token"},
		{"Redis and no name", []string{"SOURCE=" + redis}, 2, []string{"ok    redis", "WORKER_NAME must be set with SOURCE=redis://"}, "FAIL"},
		{"mistakes of both kinds", []string{"SOURCE=" + redis, "WORKER_NAME=inside", "WORKER_SLOTS=0", "LEASE_TTL=0"}, 2, []string{"WORKER_SLOTS is 0", "LEASE_TTL is 0s"}, ""},
		{"no Redis", []string{"SOURCE=redis://127.0.0.1:1/0", "WORKER_NAME=inside"}, 1, []string{"FAIL  redis", "connection refused", "or set SOURCE to where the gateway's is"}, ""},
		{"Redis with a port that is none", []string{"SOURCE=redis://127.0.0.1:0/0", "WORKER_NAME=inside"}, 1, []string{"FAIL  redis", "mend what is said there"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := g.runCommand(env(tt.extra...), "doctor")
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			for _, want := range tt.want {
				if !strings.Contains(stdout+stderr, want) {
					t.Errorf("lacks %q:\n%s%s", want, stdout, stderr)
				}
			}
			if tt.never != "" && strings.Contains(stdout+stderr, tt.never) {
				t.Errorf("has %q:\n%s%s", tt.never, stdout, stderr)
			}
			if strings.Contains(stdout+stderr, "zpw_") {
				t.Errorf("shows a token:\n%s%s", stdout, stderr)
			}
		})
	}
}

func TestRedisHelp(t *testing.T) {
	for says, want := range map[string]string{
		"NOAUTH Authentication required.":                               "set REDIS_PASSWORD",
		"WRONGPASS invalid username-password pair or user is disabled.": "set REDIS_PASSWORD",
		"READONLY You can't write against a read only replica.":         "point SOURCE at the primary",
		"OOM command not allowed when used memory > 'maxmemory'.":       "raise maxmemory",
		"ERR DB index is out of range":                                  "lower REDIS_DB, or the number at the end of SOURCE",
		"dial tcp 127.0.0.1:1: connect: connection refused":             "",
	} {
		if got := redisHelp(errors.New(says), "SOURCE"); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: %q, want %q", says, got, want)
		}
	}
}

func TestF63DoctorFindsQuantumESPRESSO(t *testing.T) {
	t.Parallel()
	needQE(t)
	g := newTestGateway(t)
	source := fmt.Sprintf("SOURCE=redis://%s:%d/0", g.redis.Host, g.redis.Port)
	code, stdout, stderr := g.runCommand([]string{source, "WORKER_NAME=inside"}, "doctor")
	if code != 0 || !strings.Contains(stdout, "ok    pw.x     pw.x: version ") || !strings.Contains(stdout, "pseudopotentials in /usr/share/espresso/pseudo") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	code, stdout, stderr = g.runCommand([]string{source, "WORKER_NAME=inside", "QE_PSEUDO_DIR=/nowhere"}, "doctor")
	if code != 1 || !strings.Contains(stdout, "set QE_PSEUDO_DIR to a directory with pseudopotentials") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}
