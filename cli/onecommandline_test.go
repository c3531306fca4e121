package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/internal/testrun"
)

// TestF63OneCommandLine gives every command about jobs to a gateway twice: through its address,
// and directly to its Redis. Both must say the same, but for how long ago something was.
func TestF63OneCommandLine(t *testing.T) {
	t.Parallel()
	testrun.Once(t, "what the commands ask of the gateway has race tests of its own")
	f := newTestFleet(t)
	g := &testGateway{t: t, redis: f.redis, rdb: f.rdb, queue: queue.New(f.rdb, queue.DefaultRules), dir: t.TempDir()}
	admin := g.write("admin.token", testAdmin+"\n")
	addr := freeAddr(t)
	g.startProcess(f.environment("REAP_INTERVAL=1s"), "gateway", "--addr", addr, "--admin-token-file", admin)
	g.untilReadyz(addr, 200)
	url := "http://" + addr
	remote := []string{"BATCHFLEET_API=" + url, "BATCHFLEET_TOKEN_FILE=" + admin}
	direct := f.environment()
	run := func(env []string, code int, pattern string, args ...string) string {
		t.Helper()
		got, out, said := g.runCommand(env, args...)
		if got != code || !regexp.MustCompile(pattern).MatchString(out+said) {
			t.Fatalf("batchfleet %s: exit code %d, want %d and %s\n%s%s", strings.Join(args, " "), got, code, pattern, out, said)
		}
		return out
	}
	// Times, which are not the same at two moments, and how wide their columns are.
	times, blanks := regexp.MustCompile(`\b(\d+(\.\d+)?(ms|[smh]))+\b`), regexp.MustCompile(` +`)
	timeless := func(out string) string { return blanks.ReplaceAllString(times.ReplaceAllString(out, "TIME"), " ") }
	both := func(code int, pattern string, args ...string) {
		t.Helper()
		here, there := run(direct, code, pattern, args...), run(remote, code, pattern, args...)
		if timeless(here) != timeless(there) {
			t.Errorf("batchfleet %s says directly\n%s\nand through the server\n%s", strings.Join(args, " "), here, there)
		}
	}
	payload := g.write("h2.json", h2Payload)
	broken := g.write("broken.json", `{"structure":7}`)

	// Nothing is queued that could not be waited for: submission is open here, the Job API is not.
	run(nil, 2, `--wait looks at jobs through the Job API, which refuses this caller .*, so nothing was queued`, "submit", "--kind", "zpe", "--wait", "--api", url, payload)
	if found := run(direct, 0, ``, "list", "--kind", "zpe", "--json"); found != "" {
		t.Errorf("queued: %s", found)
	}

	// A gateway's jobs, submitted both ways, run by a worker that was let in by these commands.
	one := strings.TrimSpace(run(remote, 0, `^[0-9A-Z]{26}\n$`, "submit", "--kind", "zpe", payload))
	two := strings.TrimSpace(run(direct, 0, `^[0-9A-Z]{26}\n$`, "submit", "--kind", "zpe", payload))
	run(remote, 2, `submit .*broken.json: .*INVALID_PAYLOAD`, "submit", "--kind", "zpe", broken)
	run(direct, 2, `submit .*broken.json: .*INVALID_PAYLOAD`, "submit", "--kind", "zpe", broken)
	both(0, `(?m)^`+two+` +zpe +queued`, "list", "--kind", "zpe")
	run(remote, 1, `(?s)[0-9A-Z]{26} +h2.json +queued.*gave up waiting after 1s`, "submit", "--kind", "zpe", "--wait", "--timeout", "1s", payload)
	waiting := launch(t, batchfleet(t, direct, "submit", "--kind", "zpe", "--wait", payload))
	watching := launch(t, batchfleet(t, remote, "watch", two))
	for _, p := range []*process{waiting, watching} {
		p.untilLogged("no worker is registered with the gateway: `batchfleet workers enroll`")
	}
	watching.kill()
	if code, _ := waiting.terminate(); code != 130 || !strings.Contains(waiting.log.String(), "interrupted; the job goes on: ") {
		t.Errorf("interrupted, it ends with exit code %d, want 130 and that the job goes on\n%s", code, waiting.log)
	}
	both(1, `(?s)get job nope1: no such job.*get job nope2: no such job`, "get", "nope1", "nope2")
	both(0, `(?m)^`+two+`\tzpe, queued`, "__complete", "get", "")
	enroll, token := filepath.Join(g.dir, "enroll.token"), filepath.Join(g.dir, "worker.token")
	run(remote, 0, `^the token is in `, "workers", "enroll", "--label", "lab", "--out", enroll)
	run(nil, 0, `.`, "worker", "register", "--gateway", url, "--enroll-token-file", enroll, "--token-file", token, "--name", "lab-1")
	both(0, `(?m)^\S+ \(lab-1\) +registered +0 *$`, "workers") // it does not run
	both(0, `"state":"registered"`, "workers", "--json")
	g.startAgent("lab-1", url, token)
	run(remote, 0, "succeeded 1/1", "watch", one)
	run(direct, 0, "succeeded 1/1", "watch", two)
	for _, id := range []string{one, two} {
		both(0, `(?s)state +succeeded.*files +batchfleet result -o `+id+` `+id, "get", id)
		both(0, `"status":"succeeded"`, "get", "--json", id)
		both(0, `(?m)^submitted`, "logs", id)
		both(0, `^\{`, "result", id)
		both(0, `.`, "result", "--text", id)
		both(0, `(?m)^freqs.csv +\d+ +text/csv`, "result", "--list", id)
	}
	into := filepath.Join(g.dir, "into")
	run(remote, 0, `(?m)^`+regexp.QuoteMeta(filepath.Join(into, "summary.txt"))+`$`, "result", "-o", into, one)
	for _, name := range []string{"result.json", "summary.txt", "freqs.csv"} {
		if info, err := os.Stat(filepath.Join(into, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s is not saved: %v", name, err)
		}
	}
	both(1, `CONFLICT: Only a job that has failed can run again; this one has succeeded`, "retry", one)
	both(1, `CONFLICT: The job has ended already: succeeded`, "cancel", one)

	// Dead letters of the gateway.
	worker := regexp.MustCompile(`"workerId":"([^"]+)"`).FindStringSubmatch(run(remote, 0, `.`, "workers", "--json"))[1]
	dead := strings.TrimSpace(run(remote, 0, `.`, "submit", "--kind", "zpe", g.write("odd.json", strings.Replace(h2Payload, "6.5", "6.25", 1))))
	run(remote, 0, "succeeded", "watch", dead)
	run(remote, 0, worker+` is revoked`, "workers", "revoke", worker)
	both(0, `(?m)^`+worker+` \(lab-1\) +revoked`, "workers")
	run(remote, 1, `NOT_FOUND|no such worker|WORKER_NOT_FOUND`, "workers", "revoke", "nobody")
	lost := strings.TrimSpace(run(direct, 0, `.`, "submit", "--kind", "zpe", payload))
	g.fail(lost)
	both(0, `(?m)^`+lost+` +zpe +\d+s +1 +INVALID_INPUT`, "dlq", "list", "--scope", "zpe")
	both(0, `"name":"`+lost+`"`, "dlq", "list", "--scope", "zpe", "--json")
	both(0, `(?s)^job +`+lost+`\n.*reason +INVALID_INPUT.*\n\n\{.*"structure".*\n\ntraceback\nline 1\nline 2\n$`, "dlq", "show", "--scope", "zpe", lost)
	both(0, `"jobId":"`+lost+`".*"data":"\{.*"traceback":"line 1\\nline 2\\n"`, "dlq", "show", "--scope", "zpe", "--json", lost)
	both(1, `no dead letter of `+one, "dlq", "show", "--scope", "zpe", one)
	both(2, `--stop-after is for dead letters of Pub/Sub`, "dlq", "redrive", "--scope", "zpe", "--stop-after", "5")
	both(0, lost+`  would be redriven`, "dlq", "redrive", "--scope", "zpe", "--dry-run")
	run(remote, 0, lost+`  redriven`, "dlq", "redrive", lost)
	both(0, `(?m)^`+lost+` +zpe +queued`, "list", "--scope", "zpe", "--state", "queued")
	g.fail(lost)
	run(direct, 0, lost+` is queued again`, "retry", lost)
	run(remote, 0, lost+` is canceled`, "cancel", lost)
	third := strings.TrimSpace(run(direct, 0, `.`, "submit", "--kind", "zpe", payload))
	g.fail(third)
	both(0, third+`  would be purged`, "dlq", "purge", "--scope", "zpe", "--dry-run", "--all")
	run(remote, 0, third+`  purged`, "dlq", "purge", "--yes", third)
	both(0, `no dead letters`, "dlq", "list", "--scope", "zpe")

	// A fleet's jobs. Until a worker has one that was submitted without a kind, it has none.
	pdf, err := filepath.Abs("../pdf/testdata/groff.pdf")
	if err != nil {
		t.Fatal(err)
	}
	early := strings.TrimSpace(run(direct, 0, `.`, "submit", pdf))
	kept := strings.TrimSpace(run(direct, 0, `.`, "submit", "--kind", "pdf", pdf))
	both(0, `(?s)`+kept+` +pdf +queued.*`+early+` +- +queued`, "list", "--scope", "fleet")
	both(0, `(?m)^kind +-$`, "get", early)
	f.start("PROCESSOR=pdf")
	run(direct, 0, "succeeded 3/3", "watch", early)
	both(0, `(?m)^`+early+` +pdf +succeeded`, "list", "--scope", "fleet")
	id := strings.TrimSpace(run(direct, 0, `^[0-9A-Z]{26}\n$`, "submit", pdf))
	run(direct, 0, "succeeded 3/3", "watch", id)
	both(0, `(?s)kind +pdf\nstate +succeeded`, "get", id)
	both(0, `(?m)^`+id+` +pdf +succeeded`, "list", "--state", "completed", "--kind", "pdf")
	both(0, `attempt 1 completed`, "logs", id)
	both(0, `^20\d\d-\S+Z  attempt 1 started`, "logs", "--times", id)
	both(0, `"text":"attempt 1 completed"`, "logs", "--json", id)
	both(0, `"pages": 2`, "result", id)
	both(0, `Slow Machines`, "result", "--text", id)
	both(1, `no such job`, "get", "nobody")
	bad := strings.TrimSpace(run(direct, 0, `.`, "submit", g.write("bad.pdf", "no PDF")))
	run(direct, 1, "input is not a PDF", "watch", bad)
	both(1, `input is not a PDF`, "result", bad)
	run(remote, 0, `is queued again`, "retry", bad)
	run(direct, 1, "input is not a PDF", "watch", bad)
	run(direct, 0, `"status":"(queued|running|failed)"`, "retry", "--json", bad)
	run(remote, 1, "input is not a PDF", "watch", bad)
	// Whoever retries need not have the workers' storage, and what failed halfway can be done again.
	run(append(direct, "STORAGE_TYPE=GCP", "GCS_BUCKET_NAME=other", "STORAGE_EMULATOR_HOST=127.0.0.1:1"), 0, `is queued again`, "retry", bad)
	run(direct, 1, "input is not a PDF", "watch", bad)
	run(append(direct, "PUBSUB_EMULATOR_HOST=127.0.0.1:9"), 3, `recorded as queued, but its message could not be published: retry it again`, "retry", bad)
	run(direct, 0, `is queued again`, "retry", bad)
	run(direct, 1, "input is not a PDF", "watch", bad)
	gone := filepath.Join(t.TempDir(), "gone")
	run(append(direct, "LOCAL_STORAGE_PATH="+gone), 1, `LOCAL_STORAGE_PATH is "`+regexp.QuoteMeta(gone)+`", which cannot be read here`, "result", id)
	for _, looks := range [][]string{{"run", "purge", "--data", `{"olderThanDays":30}`}, {"run", "fsck"}, {"fsck"}} {
		run(append(direct, "LOCAL_STORAGE_PATH="+gone), 2, `LOCAL_STORAGE_PATH is "`+regexp.QuoteMeta(gone)+`", which cannot be read here`, looks...)
	}
	if _, err := os.Stat(gone); err == nil {
		t.Error("to look at results has made a directory for them")
	}
	both(2, `Invalid field olderThanDay: unknown; the fields are .*olderThanDays`, "run", "purge", "--data", `{"olderThanDay":30}`)
	both(2, `"Delta" is not a field of payload: it may have delta, relax, `, "submit", "--kind", "zpe", g.write("field.json", `{"Delta":0.02}`))
	both(0, `(?s)stop-leasing +run`, "run", "drain", "--dry-run")
	run(append(direct, "PUBSUB_EMULATOR_HOST=127.0.0.1:9"), 3, `^batchfleet: plan system.start: UNAVAILABLE: [^\n]*: connection refused\n`, "run", "start", "--dry-run")
	run(direct, 0, `succeeded 6/6`, "run", "start")
	const operation = "job_01ARZ3NDEKTSV4RRFFQ69G5FAV"
	run(direct, 1, `get job `+operation+": operations are known only to what runs them. `batchfleet run` without --api has printed what there was to know", "get", operation)
	run(remote, 1, `get job `+operation+": this server knows no such operation", "get", operation)

	// Kinds without a worker and topics without a subscription are said before anything is stored.
	run(direct, 2, `--kind: "pfd" is in no kinds file here, and no worker runs it: want one of mock, pdf`, "submit", "--kind", "pfd", pdf)
	run(append(direct, "PUBSUB_TOPIC=deaf"), 2, `look at topic .*; create the topic \(.batchfleet run start. does\), or set PUBSUB_TOPIC`, "submit", pdf)
	for _, command := range []string{"list", "show=x", "redrive=x", "purge=--yes=x"} {
		run(append(direct, "DEAD_LETTER_TOPIC=nowhere"), 2, `look at subscription .*/nowhere: .*; create the subscription \(.batchfleet run start. does\), or set DEAD_LETTER_SUBSCRIPTION`,
			append([]string{"dlq"}, strings.Split(command, "=")...)...)
	}
	if err := f.emulator.EnsureTopic("projects/local-dev/topics/deaf"); err != nil {
		t.Fatal(err)
	}
	run(append(direct, "PUBSUB_TOPIC=deaf"), 2, `topics/deaf has no subscription, .*run start`, "submit", pdf)
	run(append(direct, "PUBSUB_TOPIC=deaf"), 1, `FAIL  pub/sub  projects/local-dev/topics/deaf: it has no subscription`, "doctor")
	run(append(direct, "PUBSUB_TOPIC=deaf"), 1, `"result":"FAIL","found":"it has no subscription`, "doctor", "--json")
}

// fail has a worker without a process lease the only job that waits, and fail it for good.
func (g *testGateway) fail(id string) {
	g.t.Helper()
	ghost := queue.Caller{Worker: "ghost"}
	until(g.t, time.Minute, "job "+id+" has failed", func() bool {
		got, err := g.queue.Lease(g.t.Context(), ghost, queue.LeaseRequest{Renews: true})
		if err != nil || string(got.Job) != id {
			return false
		}
		_, err = g.queue.Fail(g.t.Context(), ghost, got.Job, got.LeaseID, queue.Failure{Code: "INVALID_INPUT", Message: "no such atom", Traceback: "line 1\nline 2\n", RetryPolicy: queue.Final})
		return err == nil
	})
}
