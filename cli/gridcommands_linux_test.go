package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobapi"
)

// threeResults are what the demo prints: each job has a file "input of job N" and the argument N.
const threeResults = `(submitted [0-9a-f-]{36} to calcA\n){3}([0-9a-f-]{36} OK stdout="the sum of 2 numbers is [246]\\n" stderr="" archive=\d+ bytes\n){3}$`

func TestG69OriginalCommandLinesWork(t *testing.T) {
	t.Parallel()
	g := newTestGrid(t)
	first := g.leader("0")
	g.worker(first.host, first.port, "job.assign.gpu.>")
	g.worker(first.host, first.port, "job.assign.*")
	g.worker(first.host, first.port) // the pattern may be left out
	out := g.run(0, threeResults, "client", first.host, first.port, "clientA", "8")
	for _, sum := range []string{"is 2", "is 4", "is 6"} {
		if !strings.Contains(out, sum) {
			t.Errorf("no job has the sum that %q\n%s", sum, out)
		}
	}
	g.run(0, threeResults, "client", first.host, first.port, "clientA")

	second, third := g.leader("0"), g.leader("0")
	for _, l := range []*gridLeader{second, third} {
		g.worker(l.host, l.port, "job.assign.*")
	}
	g.run(0, threeResults, "clientx", "clientA", first.addr, second.addr, third.addr, "12")
	g.run(0, threeResults, "clientx", "clientB", first.addr, second.addr, third.addr)
	// One worker for several leaders.
	fourth, fifth := g.leader("0"), g.leader("0")
	g.worker(fourth.addr + "," + fifth.addr).untilLogged(fifth.addr)
	g.run(0, threeResults, "clientx", "clientA", fourth.addr, fifth.addr, "--policy", "least")
	fourth.stop()
}

func TestG69DemoExitCodeAfterFailedJobs(t *testing.T) {
	t.Parallel()
	g := newTestGrid(t)
	g.script("calcA", `[ "$1" != 2 ]`)
	l := g.leader("0")
	g.worker(l.host, l.port)
	for _, args := range [][]string{{"client", l.host, l.port, "clientA"}, {"clientx", "clientA", l.addr}} {
		out := g.run(1, "1 of 3 jobs have failed\n$", args...)
		if ok, failed := strings.Count(out, " OK "), strings.Count(out, " FAILED "); ok != 2 || failed != 1 {
			t.Errorf("printed was\n%s", out)
		}
	}
	for _, flags := range [][]string{{"--wait"}, {"--wait", "--json"}} {
		l.g.run(1, "failed", append(append([]string{"submit", "--leader", l.addr, "--client", "clientA"}, flags...), "calcA", "2")...)
		l.g.run(0, "", append(append([]string{"submit", "--leader", l.addr, "--client", "clientA"}, flags...), "calcA", "1")...)
	}
}

func TestG69MistakesGetClearErrors(t *testing.T) {
	t.Parallel()
	g := newTestGrid(t)
	g.write("bad.jsonl", "{\"ExecName\":\"x\",\"Files\":[{\"Name\":\"b.txt\",\"Content\":\"x\"}]}\n")
	g.write("long.jsonl", strings.Repeat("x", wire.MaxFrame+2))
	for _, tt := range []struct{ line, want string }{
		{"leader", "PORT is missing"},
		{"leader 70000", `PORT is "70000": must be from 0 to 65535`},
		{"leader x", `PORT is "x": must be from 0 to 65535`},
		{"leader 0 --sync sometimes", `--sync is "sometimes": want always, interval or none`},
		{"leader 0 --max-jobs 0", "--max-jobs is 0: must be from 1 to"},
		{"leader 0 --addr 127.0.0.1:5000", "the port is the argument"},
		{"leader 0 --tls-cert a.pem", "--tls-cert and --tls-key are given together"},
		{"leader 0 --http 0.0.0.0:8095", "give --job-tokens-file"},
		{"leader 0 --acl none.toml", "--acl: .*no such file"},
		{"worker 127.0.0.1", "PORT is missing: want HOST PORT .PATTERN., or HOST:PORT"},
		{"worker 127.0.0.1 0", `PORT is "0": must be from 1 to 65535`},
		{"worker 127.0.0.1 5000 a..b", "PATTERN: "},
		{"worker 127.0.0.1 5000 calcA", `PATTERN is "calcA", and matches no job`},
		{"worker 127.0.0.1 5000 job.assign", "matches no job"},
		{"worker 127.0.0.1 5000 job.submit.*", "matches no job"},
		{"worker 127.0.0.1:5000 5000 job.assign.*", "HOST is "},
		{"worker a:1,a:1", "twice"},
		{"worker 127.0.0.1 5000 --max-output 0", "--max-output is 0"},
		{"worker 127.0.0.1 5000 --token-file none", "--token-file: .*no such file"},
		{"worker 10.0.0.1 5000 --token-file calc.token", "unencrypted: give --tls, or --insecure"},
		{"client 127.0.0.1 5000", "CLIENTID is missing"},
		{"client 127.0.0.1 5000 client*", "ClientId"},
		{"client 127.0.0.1 5000 clientA 0", `DESIRED is "0": must be from 1 to 10000`},
		{"client 127.0.0.1 5000 clientA many", `DESIRED is "many"`},
		{"clientx clientA 12", "leaders are given"},
		{"client clientA 127.0.0.1 5000", `PORT is "127.0.0.1".*want .batchfleet grid client HOST PORT CLIENTID`},
		{"clientx clientA 127.0.0.1", "give HOST:PORT"},
		{"clientx 127.0.0.1:1 clientA", `leader "clientA": .*want .batchfleet grid clientx CLIENTID HOST:PORT… \[TOTAL\]`},
		{"clientx clientA 127.0.0.1:1 127.0.0.1:1 4", "twice"},
		{"submit calcA", "--client is missing"},
		{"submit --client a", "EXEC is missing"},
		{"submit --client a ../calcA", "ExecName"},
		{"submit --client a calcA --array 5-1", "Array"},
		{"submit --client a calcA --env X", "want NAME=VALUE"},
		{"submit --client a calcA --file none.txt", "--file: .*no such file"},
		{"submit --client a calcA --timeout -5s", "--timeout is -5s: must be 1ms or more"},
		{"submit --client a calcA --timeout 1us", "--timeout is 1µs: must be 1ms or more"},
		{"submit --client a calcA --not-after -5s", "--not-after is -5s"},
		{"submit --client a --from long.jsonl", "--from: line 1 is longer than 4194304 bytes"},
		{"submit --client a calcA -o out", "give --wait"},
		{"submit --client a calcA --from jobs", "leave out one of them"},
		{"submit --client a --from bad.jsonl", `--from: line 1: file "b.txt": Content is no base64`},
		{"list --limit 0", "--limit is 0"},
		{"dlq drop a/b", "may hold only letters"},
		{"show", "JOB is missing"},
	} {
		g.run(2, tt.want, strings.Fields(tt.line)...)
	}
}

func TestG63EnvironmentSettings(t *testing.T) {
	t.Parallel()
	g := newTestGrid(t)
	l := g.leader("0")
	for _, tt := range []struct{ set, want string }{
		{"WORKER_MAX_PAR=0", "WORKER_MAX_PAR is 0: must be from 1 to 10000"},
		{"WORKER_MAX_PAR=four", `WORKER_MAX_PAR is "four": want a whole number`},
		{"WORKER_CPU_CAP=0,75", `WORKER_CPU_CAP is "0,75": want a number with a point`},
		{"WORKER_CPU_CAP=NaN", `WORKER_CPU_CAP is "NaN": want a number with a point`},
		{"WORKER_CPU_CAP=7.5e-1", "want a number with a point"},
		{"WORKER_CPU_CAP=-1", "want a number with a point"},
	} {
		g.env = []string{tt.set}
		g.run(2, tt.want, "worker", l.host, l.port)
	}
	for _, tt := range []struct{ par, cap, slots, limit string }{
		{"", "", "4", "0.75"},
		{"2", "0.5", "2", "0.5"},
		{"7", "0.99", "7", "0.95"},
		{"1", "0", "1", "0.1"},
	} {
		g.env = []string{"WORKER_MAX_PAR=" + tt.par, "WORKER_CPU_CAP=" + tt.cap}
		w := g.worker(l.host, l.port)
		if log := w.log.String(); !strings.Contains(log, `"slots":`+tt.slots+`,"cpu_cap":`+tt.limit+",") {
			t.Errorf("with %q the worker says %s", g.env, log)
		}
		var shown jobapi.Worker
		if out := l.about(0, "", "workers", "--json"); json.Unmarshal([]byte(out), &shown) != nil || number(shown.Slots) != tt.slots {
			t.Errorf("with %q the leader shows %s", g.env, out)
		}
		w.stop()
	}
	g.env = nil
	g.worker(l.host, l.port)
	for _, bad := range []string{"0", "10001", "many", "1.5"} {
		g.env = []string{"CLIENT_DESIRED_PAR=" + bad}
		g.run(2, "CLIENT_DESIRED_PAR is ", "client", l.host, l.port, "clientA")
		g.run(0, threeResults, "client", l.host, l.port, "clientA", "2") // the argument wins
	}
	g.env = []string{"CLIENT_DESIRED_PAR=3"}
	g.run(0, threeResults, "client", l.host, l.port, "clientA")
}

func TestG60SubmitWithFiles(t *testing.T) {
	t.Parallel()
	g := newTestGrid(t)
	g.script("where", `pwd; cat known.txt; mkdir sub; echo made >sub/made.txt`)
	if err := os.MkdirAll(g.path("cache"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"cache/content-1": "from the cache\n", "input.txt": "1 2 3", "other": "10"} {
		if err := os.WriteFile(g.path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l := g.leader("0")
	g.worker(l.host, l.port)
	submit := func(code int, want string, args ...string) string {
		t.Helper()
		return g.run(code, want, append([]string{"submit", "--leader", l.addr, "--client", "clientA", "--wait"}, args...)...)
	}
	const id = "35918bc9-196d-40ea-9779-889d79b753f0"
	submit(0, "^"+g.path("jobs")+"/35918bc9196d40ea9779889d79b753f0\nfrom the cache\n$", "where", "--id", id, "--cached-file", "known.txt=content-1", "-o", "left")
	if text, err := os.ReadFile(g.path("left", "sub", "made.txt")); err != nil || string(text) != "made\n" {
		t.Errorf("what the program has left is %q, %v", text, err)
	}
	submit(0, "^the sum of 5 numbers is 26\n$", "calcA", "20", "--file", "input.txt", "--env", "X=1", "0")
	submit(0, "^the sum of 2 numbers is 30\n$", "calcA", "20", "--file", "input.txt=other")
	submit(1, "^the sum of 0 numbers is 0\nasked to fail\nbatchfleet: job [0-9a-f-]+ has failed: exit: exit status 3\n$", "--", "calcA", "-exit", "3")
	submit(1, "rejected: exec none: no file none.exe", "none")
	all := submit(1, `2 jobs failed\n$`, "--array", "0-2", "-o", "all", "--", "calcA", "-exit", "{i}", "{i}")
	for _, want := range []string{"[0] OK\n", "[1] FAILED: exit: exit status 1\n", "[2] FAILED: exit: exit status 2\n"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	if found, err := filepath.Glob(g.path("all", "*", "out.txt")); err != nil || len(found) != 3 {
		t.Errorf("the programs of an array have left %q, %v", found, err)
	}
	entries, err := filepath.Glob(g.path("jobs", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := filepath.Base(e); name != "batchfleet-scratch" && !strings.HasPrefix(name, ".") {
			t.Errorf("%s is left of jobs that have ended", e)
		}
	}
}

func TestG42DeadLetterCommands(t *testing.T) {
	t.Parallel()
	g := newTestGrid(t)
	g.script("flaky", `[ -e "`+g.path("good")+`" ] && echo well`)
	l := g.leader("0")
	g.worker(l.host, l.port)
	dead := func() string {
		t.Helper()
		id := l.submit("flaky", "--retry-on", "exit", "--max-attempts", "1")
		l.untilState(id, "failed")
		return id
	}
	one, two := dead(), dead()
	l.about(0, two+".*"+one, "dlq", "list")
	l.about(0, "1 more: raise --count", "dlq", "list", "--count", "1")
	l.about(0, `"attempts":\[\{"attempt":1,"worker":"[^"]+","reason":"[^"]+`, "dlq", "list", "--json")
	l.about(0, "DEAD_LETTER", "dlq", "show", one)
	l.about(0, one+": it is a dead letter", "explain", one)
	l.about(0, two+" is dropped", "dlq", "drop", two)
	l.about(1, "drop dead letter "+two+": NOT_FOUND: No such dead letter", "dlq", "drop", two)
	if err := os.WriteFile(g.path("good"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l.about(0, one+" is queued again", "dlq", "requeue", one)
	l.untilState(one, "succeeded")
	l.about(0, "no dead letters", "dlq", "list")
	l.about(0, "^well\n$", "logs", one)
	l.about(1, "Only a job that has failed can run again", "retry", one)
}

// Results that are kept for another process do not stand in the way of those that are waited for.
func TestG48LeaderKeepsResultsUntilFetched(t *testing.T) {
	t.Parallel()
	g := newTestGrid(t)
	g.script("large", "head -c 150000 /dev/zero | tr '\\0' x; echo kept >kept.txt")
	l := g.leader("0")
	g.worker(l.host, l.port)
	const jobs = 40 // of 150 KB each: more than a leader sends at once
	g.write("jobs.jsonl", strings.Repeat("{\"ExecName\":\"large\"}\n", jobs))
	ids := g.run(0, "", "submit", "--leader", l.addr, "--client", "clientA", "--from", "jobs.jsonl")
	if n := strings.Count(ids, "\n"); n != jobs {
		t.Fatalf("%d jobs are queued, want %d\n%s", n, jobs, ids)
	}
	for id := range strings.Lines(ids) {
		l.untilState(strings.TrimSpace(id), "succeeded")
	}
	g.run(0, "^the sum of 1 numbers is 5\n$", "submit", "--leader", l.addr, "--client", "clientA", "--wait", "calcA", "5")
	g.run(0, `(?:[0-9a-f-]{36}\[[0-2]\] OK\n){3}$`, "submit", "--leader", l.addr, "--client", "clientA", "--wait", "--array", "0-2", "calcA", "5")
	g.run(0, threeResults, "client", l.host, l.port, "clientA")
	taken := g.run(0, "", "results", "--leader", l.addr, "--client", "clientA", "-o", "results")
	kept := 0
	for id := range strings.Lines(ids) {
		id = strings.TrimSpace(id)
		if !strings.Contains(taken, id+" OK\n") {
			continue // the client that has submitted it was still there when it ended
		}
		kept++
		if text, err := os.ReadFile(g.path("results", id, "kept.txt")); err != nil || string(text) != "kept\n" {
			t.Errorf("what job %s has left is %q, %v", id, text, err)
		}
	}
	if kept == 0 {
		t.Errorf("no result was kept:\n%s", taken)
	}
	g.run(0, "^$", "results", "--leader", l.addr, "--client", "clientA", "--idle", "200ms")
}

func TestG73QueuedJobsSurviveLeaderRestart(t *testing.T) {
	t.Parallel()
	g := newTestGrid(t)
	none := g.leader("0")
	if !strings.Contains(none.log.String(), "nothing is kept") {
		t.Errorf("a leader without --dir does not say so:\n%s", none.log)
	}
	none.stop()
	for _, sync := range []string{"always", "interval", "none"} {
		l := g.leader("0", "--dir", g.path("leader-"+sync), "--sync", sync)
		if strings.Contains(l.log.String(), "nothing is kept") {
			t.Errorf("a leader with --dir says that it keeps nothing:\n%s", l.log)
		}
		id := l.submit("calcA", "7")
		l.kill()
		again := g.leader(l.port, "--dir", g.path("leader-"+sync), "--sync", sync)
		again.about(0, "no worker is connected", "explain", id)
		g.run(2, "--dir: .*process [0-9]+ is using it", "leader", "0", "--http", "", "--dir", g.path("leader-"+sync))
		w := g.worker(again.host, again.port)
		again.untilState(id, "succeeded")
		w.stop()
		again.stop()
	}
}

func TestG74HealthAndMetrics(t *testing.T) {
	t.Parallel()
	g := newTestGrid(t)
	ofLeader, ofWorker := freeAddr(t), freeAddr(t)
	l := g.leader("0", "--metrics-addr", ofLeader)
	g.worker(l.host, l.port, "--metrics-addr", ofWorker)
	g.run(0, threeResults, "client", l.host, l.port, "clientA")
	for _, url := range []string{"http://" + ofLeader + "/healthz", "http://" + ofLeader + "/readyz", "http://" + ofWorker + "/healthz", "http://" + ofWorker + "/readyz", l.url + "/healthz", l.url + "/readyz", l.url + "/api/v1/openapi.json"} {
		if status, text := g.get(url); status != 200 {
			t.Errorf("%s: %d %.200s", url, status, text)
		}
	}
	for url, names := range map[string][]string{
		ofLeader: {`batchfleet_grid_jobs_ended_total{outcome="succeeded"} 3`, `batchfleet_grid_peers{kind="worker"} 1`, "batchfleet_grid_run_seconds_count 3"},
		ofWorker: {`batchfleet_grid_assigned_total{job="new"} 3`, "batchfleet_grid_leaders_connected 1"},
	} {
		_, text := g.get("http://" + url + "/metrics")
		for _, name := range names {
			if !strings.Contains(text, name+"\n") {
				t.Errorf("no %s in the metrics:\n%s", name, text)
			}
		}
	}
}

func TestG57StoppingWorkerHandsBackJobs(t *testing.T) {
	t.Parallel()
	g := newTestGrid(t)
	g.script("hold", `echo >>"`+g.path("began")+`"; while [ ! -e "`+g.path("go")+`" ]; do sleep 0.05; done; echo done`)
	l := g.leader("0")
	first := g.worker(l.host, l.port, "--drain-timeout", "100ms", "--kill-grace", "100ms")
	id := l.submit("hold")
	begun := func(times int) func() bool {
		return func() bool {
			text, _ := os.ReadFile(g.path("began"))
			return len(text) >= times
		}
	}
	until(t, time.Minute, "it runs", begun(1))
	first.stop()
	g.worker(l.host, l.port)
	until(t, time.Minute, "another worker runs it", begun(2))
	if err := os.WriteFile(g.path("go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l.untilState(id, "succeeded")
	l.about(0, "^done\n$", "logs", id)
}
