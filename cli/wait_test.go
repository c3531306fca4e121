package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
	"github.com/batchfleet/batchfleet/status"
)

// The text of a job or a dead letter must not reach a terminal as commands.
func TestF63JSONHoldsNothingThatATerminalActsOn(t *testing.T) {
	const evil = "\x1b[2J\u009b31m\x7f\u202e\u2028\U000e0001<&é\r\n\t"
	if got, want := oneLine(evil), `\x1b[2J\u009b31m\x7f\u202e\u2028\U000e0001<&é  `; got != want {
		t.Errorf("as a line it is %q, want %q", got, want)
	}
	var out bytes.Buffer
	if err := printJSON(&out, map[string]string{evil: evil}); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(out.String(), "\n") {
		t.Errorf("%q does not end its line", out.String())
	}
	for _, r := range strings.TrimSuffix(out.String(), "\n") {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			t.Errorf("%q holds %U", out.String(), r)
		}
	}
	var got map[string]string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got[evil] != evil {
		t.Errorf("%q is read as %q, %v", out.String(), got, err)
	}
}

// TestF63WhoWaitsIsToldThatNothingRunsTheJob in each case with the command that helps, and nothing
// where a worker takes such jobs.
func TestF63WhoWaitsIsToldThatNothingRunsTheJob(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	want := func(kind jobs.Kind, want string) {
		t.Helper()
		if got := noWorker(t.Context(), f.status, kind); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("of kind %q it says %q, want %q", kind, got, want)
		}
	}
	want("", "no worker takes jobs: `batchfleet worker` starts one")
	want("pdf", "no worker takes jobs of kind pdf: `batchfleet worker` starts one")
	f.status.Worker = "w1"
	w := f.status.Member(status.Worker{Kinds: []jobs.Kind{"mock"}, Slots: 1})
	pulse := func(draining bool, unready string) {
		t.Helper()
		if err := w.Pulse(t.Context(), 1, draining, unready); err != nil {
			t.Fatal(err)
		}
	}
	pulse(true, "")
	want("", "no worker takes jobs")
	pulse(false, "storage: no space left on device")
	want("mock", "no worker takes jobs of kind mock: w1 is not ready: storage: no space left on device")
	want("pdf", "no worker takes jobs of kind pdf: `batchfleet worker` starts one")
	pulse(false, "")
	want("", "")
	want("mock", "")
	want("pdf", "no worker takes jobs of kind pdf")
	if _, err := f.status.SetDraining(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	want("mock", "the fleet is drained, so its workers take no jobs: `batchfleet run start` lets them")
}

// TestF63WhoWaitsForAServersJobIsToldThatNothingRunsIt as far as the server knows, and what to do there.
func TestF63WhoWaitsForAServersJobIsToldThatNothingRunsIt(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	g := &testGateway{t: t, redis: f.redis, rdb: f.rdb, queue: queue.New(f.rdb, queue.DefaultRules), dir: t.TempDir()}
	addr := freeAddr(t)
	c := &connection{api: "http://" + addr, tokenFile: g.write("admin.token", testAdmin+"\n")}
	g.startGateway(addr)
	if err := c.open(t.Context(), needRedis, t.Output()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	// What a server has just answered to others may be given again for a moment.
	want := func(say func() string, want string) {
		t.Helper()
		until(t, time.Minute, "it says "+want, func() bool {
			got := say()
			return strings.Contains(got, want) && (want == "") == (got == "")
		})
	}
	f.status.Worker = "w1"
	member := f.status.Member(status.Worker{Kinds: []jobs.Kind{"mock"}, Slots: 1})
	pulse := func(draining bool, unready string) {
		t.Helper()
		if err := member.Pulse(t.Context(), 1, draining, unready); err != nil {
			t.Fatal(err)
		}
	}
	want(func() string { return c.whyFleetQueued(t.Context(), "mock") }, "no worker takes jobs of kind mock: `batchfleet worker` starts one, `batchfleet workers"+c.given()+"` lists them")
	pulse(false, "storage: no space left on device")
	want(func() string { return c.whyFleetQueued(t.Context(), "mock") }, "no worker takes jobs of kind mock: w1 is not ready: storage: no space left on device")
	want(func() string { return c.whyFleetQueued(t.Context(), "pdf") }, "no worker takes jobs of kind pdf: `batchfleet worker` starts one")
	pulse(true, "")
	want(func() string { return c.whyFleetQueued(t.Context(), "mock") }, "no worker takes jobs of kind mock: they are draining; if `run drain` has stopped them, `batchfleet run start"+c.given()+"` lets them")
	want(func() string { return c.whyFleetQueued(t.Context(), "pdf") }, "no worker takes jobs of kind pdf: `batchfleet worker` starts one")
	pulse(false, "")
	want(func() string { return c.whyFleetQueued(t.Context(), "mock") }, "")
	want(func() string { return c.whyFleetQueued(t.Context(), "") }, "")

	want(func() string { return c.whyGatewayQueued(t.Context()) }, "no worker is registered with the gateway: `batchfleet workers enroll"+c.given()+"` makes a token")
	g.register(c.api, "lab-1")
	want(func() string { return c.whyGatewayQueued(t.Context()) }, "")
	if _, err := g.queue.SetOps(t.Context(), nil, new(false)); err != nil {
		t.Fatal(err)
	}
	want(func() string { return c.whyGatewayQueued(t.Context()) }, "the gateway is drained, so its workers get no jobs: `batchfleet run start"+c.given()+"` lets them")
}

func TestK13SubmitSaysAtOnceThatNoWorkerHasTheKind(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	file := filepath.Join(t.TempDir(), "x.pdf")
	if err := os.WriteFile(file, []byte("%PDF-"), 0o600); err != nil {
		t.Fatal(err)
	}
	const note = "batchfleet: no worker of the fleet has kind pdf yet: `batchfleet worker` starts one\n"
	says := func(args ...string) bool {
		t.Helper()
		out, err := batchfleet(t, f.environment(), append(append([]string{"submit"}, args...), file)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.Contains(string(out), note)
	}
	if !says("--kind", "pdf") {
		t.Error("nothing is said of a kind that no worker has")
	}
	if says() {
		t.Error("something is said of a job without a kind")
	}
	f.start()
	until(t, time.Minute, "a worker has it", func() bool { return !says("--kind", "pdf") })
}

// TestF63SubmitWaitGoesOnAfterItHasSaidThatNoWorkerRuns until there is one.
func TestF63SubmitWaitGoesOnAfterItHasSaidThatNoWorkerRuns(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	file := filepath.Join(t.TempDir(), "x.pdf")
	if err := os.WriteFile(file, []byte("%PDF-"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := launch(t, batchfleet(t, f.environment(), "submit", "--wait", "--kind", "mock", file))
	two := launch(t, batchfleet(t, f.environment(), "submit", "--wait", "--kind", "mock", file, file))
	const note = "batchfleet: no worker takes jobs of kind mock: `batchfleet worker` starts one"
	p.untilLogged(note)
	two.untilLogged(note)

	// Whoever is interrupted is told that the jobs go on.
	if code, _ := two.terminate(); code != 130 || !strings.Contains(two.log.String(), "interrupted; the jobs that have not ended go on: `batchfleet list` shows them, `batchfleet cancel JOB…` stops them") {
		t.Errorf("exit code %d, want 130 and what to do:\n%s", code, two.log)
	}
	id := strings.Fields(two.log.String()[strings.Index(two.log.String(), "TOOK"):])[1]
	watch := launch(t, batchfleet(t, f.environment(), "watch", id))
	watch.untilLogged(note)
	watch.untilLogged("queued")
	if code, _ := watch.terminate(); code != 130 || !strings.Contains(watch.log.String(), "interrupted; the job goes on: `batchfleet get "+id+"` shows it, `batchfleet cancel "+id+"` stops it") {
		t.Errorf("exit code %d, want 130 and what to do:\n%s", code, watch.log)
	}
	if got, err := f.command("get", id).Output(); err != nil || !strings.Contains(string(got), "why queued  no worker takes jobs of kind mock: `batchfleet worker` starts one") {
		t.Errorf("get: %v\n%s", err, got)
	}
	f.start()
	if code := p.exitCode(time.Minute); code != 0 || strings.Count(p.log.String(), note) != 1 {
		t.Errorf("exit code %d, want 0 and the note once:\n%s", code, p.log)
	}
}

func TestF63WhoStopsWaitingForARunningJobIsToldWhatItDoes(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	a, err := f.status.Claim(t.Context(), jobs.Job{ID: "a", Kind: "mock"}, time.Hour, jobs.Claim{})
	if err == nil {
		err = f.status.Report(t.Context(), a, time.Hour, nil, jobs.Lines{Text: []string{"it began"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	logs := launch(t, f.command("logs", "-f", "a"))
	logs.untilLogged("it began")
	if code, _ := logs.terminate(); code != 130 || !strings.Contains(logs.log.String(), "interrupted; the job goes on: `batchfleet get a` shows it, `batchfleet cancel a` stops it") {
		t.Errorf("logs: exit code %d, want 130 and that the job goes on:\n%s", code, logs.log)
	}
	stop := launch(t, f.command("cancel", "--wait", "a"))
	until(t, time.Minute, "it has asked", func() bool { return f.rdb.Exists(t.Context(), "{job:a}:cancel").Val() == 1 })
	if code, _ := stop.terminate(); code != 130 || !strings.Contains(stop.log.String(), "interrupted; the job has been asked to stop: `batchfleet get a` shows whether it has") {
		t.Errorf("cancel: exit code %d, want 130 and that it has asked:\n%s", code, stop.log)
	}
}

// TestF63JSONNamesAreOfOneStyle in all that --json prints: jobId and failedAt. What a message or a result
// says keeps the names of its contract.
func TestF63JSONNamesAreOfOneStyle(t *testing.T) {
	pattern := regexp.MustCompile(`^[a-z][a-z0-9]*([A-Z][a-z0-9]+)*$`)
	var look func(reflect.Type)
	look = func(of reflect.Type) {
		if k := of.Kind(); (k == reflect.Slice || k == reflect.Pointer) && of.Elem().PkgPath() != "" {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct {
			return
		}
		for f := range of.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name != "" && name != "-" && !pattern.MatchString(name) {
				t.Errorf("%s.%s is %q in JSON", of, f.Name, name)
			}
			look(f.Type)
		}
	}
	for _, row := range []any{
		jobapi.Job{},
		jobapi.Item{},
		jobapi.Artifact{},
		jobapi.Planned{},
		workerRow{},
		revokedRow{},
		deadRow{},
		wholeDeadRow{},
		submitted{},
		endedJob{},
		doneRow{},
		savedFile{},
		logRow{},
		checked{},
		configRow{},
		tokenRow{},
		documentLine{},
		redisdb.Audit{},
		queue.Report{},
	} {
		look(reflect.TypeOf(row))
	}
}
