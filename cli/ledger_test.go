package cli

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
)

// TestZ41LedgerHoldsUnderFire has agents run 1600 jobs, 200 for each of eight, or LEDGER_JOBS, from two
// gateways while agents are killed and frozen, gateways killed, Redis killed and
// its scripts flushed, and bad agents drop leases, report twice, race a result
// with a failure and report under leases they do not have. In the end every job
// has ended once, as finished or as a dead letter, and is in one place.
func TestZ41LedgerHoldsUnderFire(t *testing.T) {
	t.Parallel()
	count := 1600
	if n, err := strconv.Atoi(os.Getenv("LEDGER_JOBS")); err == nil {
		count = n
	}
	agents := min(6+count/500, 50)
	g := newTestGateway(t)
	addrs := []string{freeAddr(t), freeAddr(t)}
	urls := []string{"http://" + addrs[0], "http://" + addrs[1]}
	f := &fire{testGateway: g, addrs: addrs, urls: urls}
	for _, addr := range addrs {
		f.gateways = append(f.gateways, g.startGateway(addr))
	}
	for i := range agents {
		name := fmt.Sprintf("agent%02d", i)
		f.tokens = append(f.tokens, g.enrolled(name))
		f.agents = append(f.agents, f.agent(i))
	}
	stop := make(chan struct{})
	var mischief, submitting sync.WaitGroup
	for i := range 4 {
		token := g.tokenOf(f.tokens[i])
		mischief.Go(func() { f.misbehave(stop, urls[i%2], token) })
	}
	ids := make([]string, count)
	submitting.Go(func() { f.submitAll(ids) })
	f.disturb(30*time.Second, func() bool { return g.ended() >= count*3/4 })
	submitting.Wait()
	close(stop)
	mischief.Wait()
	until(g.t, 240*time.Second, "all jobs have ended", func() bool {
		if err := g.hastenRetries(); err != nil {
			return false
		}
		return g.ended() >= count
	})
	f.account(ids)
}

// fire is a gateway under attack.
type fire struct {
	*testGateway
	addrs, urls, tokens []string
	gateways, agents    []*process
	races, drops        atomic.Int64
}

// enrolled registers a worker without a process and returns its token file.
func (g *testGateway) enrolled(name string) string {
	g.t.Helper()
	enroll, _, err := g.queue.Enroll(g.t.Context(), name, time.Hour)
	if err != nil {
		g.t.Fatal(err)
	}
	r, err := g.queue.Register(g.t.Context(), queue.Registration{EnrollToken: enroll, Name: name})
	if err != nil {
		g.t.Fatal(err)
	}
	return g.write(name+".token", r.Token+"\n")
}

func (f *fire) agent(i int) *process {
	return f.startAgent(fmt.Sprintf("agent%02d", i), f.urls[i%2], f.tokens[i], "LOG_LEVEL=ERROR")
}

// submitAll queues jobs over both gateways, each until it is answered: the
// Idempotency-Key keeps one that is sent again from being two.
func (f *fire) submitAll(ids []string) {
	var all sync.WaitGroup
	for k := range 8 {
		all.Go(func() {
			for i := k; i < len(ids) && f.t.Context().Err() == nil; i += 8 {
				for n := i; ids[i] == "" && f.t.Context().Err() == nil; n++ {
					ids[i] = f.trySubmit(f.urls[n%2], fmt.Sprintf("job-%d", i))
				}
			}
		})
	}
	all.Wait()
}

// trySubmit returns the id of the job, or nothing while the gateway or its Redis
// is away.
func (f *fire) trySubmit(url, key string) string {
	var a wire.SubmitResponse
	r, err := f.request(http.MethodPost, url+wire.PathJobs, "", h2Payload, "Idempotency-Key", key)
	if err == nil && r.status == http.StatusOK && json.Unmarshal(r.body, &a) == nil {
		return a.JobID
	}
	if err == nil && r.status < 500 {
		f.t.Errorf("submit: %d %s", r.status, r.body)
	}
	<-time.After(50 * time.Millisecond)
	return ""
}

// disturb does damage until enough has ended and at least once each.
func (f *fire) disturb(atLeast time.Duration, enough func() bool) {
	f.t.Helper()
	began, limit := time.Now(), 150*time.Second
	for n := 0; time.Since(began) < limit && (time.Since(began) < atLeast || !enough()); n++ {
		switch n % 10 {
		case 0, 2, 5, 7: // an agent dies and is started again
			i := rand.IntN(len(f.agents))
			f.agents[i].kill()
			f.agents[i] = f.agent(i)
		case 1, 6: // an agent stands still for longer than its lease
			frozen := f.agents[rand.IntN(len(f.agents))]
			_ = frozen.Process.Signal(syscall.SIGSTOP)
			time.AfterFunc(8*time.Second, func() { _ = frozen.Process.Signal(syscall.SIGCONT) })
		case 3: // a gateway dies; the other goes on
			i := n / 10 % 2
			f.gateways[i].kill()
			f.gateways[i] = f.startGateway(f.addrs[i])
		case 4:
			f.rdb.ScriptFlush(f.t.Context())
		case 8: // Redis dies and comes back with its data
			f.redis.Kill()
			f.redis.Start()
		case 9: // Redis stands still
			f.redis.Freeze()
			<-time.After(time.Second)
			f.redis.Resume()
		}
		if err := f.hastenRetries(); err != nil {
			f.t.Log("hasten retries:", err)
		}
		<-time.After(300 * time.Millisecond)
	}
}

// misbehave is an agent with a good token and bad manners.
func (f *fire) misbehave(stop <-chan struct{}, url, token string) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
		asked := time.Now()
		r, err := f.request(http.MethodPost, url+wire.PathLease, token, `{"features":["renew"]}`)
		var lease wire.LeaseResponse
		if err != nil || r.status != http.StatusOK || json.Unmarshal(r.body, &lease) != nil {
			continue // a gateway or Redis is away, or there is nothing to do
		}
		path := url + "/calc/zpe/compute/jobs/" + lease.JobID
		result := `{"lease_id":"` + lease.LeaseID + `","result":{"bad":"manners"},"summary_text":"","freqs_csv":"","meta":{}}`
		failure := `{"lease_id":"` + lease.LeaseID + `","error_code":"BAD_MANNERS","error_message":"on purpose"}`
		switch n % 5 {
		case 0: // takes the job and never says a word
			f.drops.Add(1)
		case 1: // a result and a failure race for one lease; one wins
			var both sync.WaitGroup
			var won atomic.Int64
			for _, report := range [][2]string{{"/result", result}, {"/failed", failure}} {
				both.Go(func() {
					r, err := f.request(http.MethodPost, path+report[0], token, report[1])
					if err == nil && r.status == http.StatusOK {
						won.Add(1)
					}
				})
			}
			both.Wait()
			f.races.Add(1)
			if won.Load() > 1 {
				f.t.Errorf("job %s: both the result and the failure of one lease were taken", lease.JobID)
			}
		case 2: // repeats itself
			for range 3 {
				if r, err := f.request(http.MethodPost, path+"/failed", token, failure); err == nil && r.status != http.StatusOK && r.status < 500 && time.Since(asked) < gatewayLease {
					f.t.Errorf("a repeated failure of job %s: %d %s", lease.JobID, r.status, r.body)
				}
			}
		case 3: // forges a lease, then does its job
			forged := `{"lease_id":"AAAAAAAAAAAAAAAAAAAAAA","result":{},"summary_text":"","freqs_csv":"","meta":{}}`
			if r, err := f.request(http.MethodPost, path+"/result", token, forged); err == nil && r.status != http.StatusConflict && r.status < 500 {
				f.t.Errorf("a forged lease: %d %s", r.status, r.body)
			}
			_, _ = f.request(http.MethodPost, path+"/result", token, result)
		case 4: // gives up for good
			final := strings.Replace(failure, `"error_code"`, `"retryable":false,"error_code"`, 1)
			_, _ = f.request(http.MethodPost, path+"/failed", token, final)
		}
	}
}

// ended counts what needs no more work; 0 while Redis is away.
func (g *testGateway) ended() int {
	s, err := g.queue.Stats(g.t.Context())
	if err != nil {
		return 0
	}
	total, err := g.rdb.DBSize(g.t.Context()).Result()
	if err != nil || total == 0 {
		return 0
	}
	results := 0
	for it := g.rdb.Scan(g.t.Context(), 0, "zpe:result:*", 5000).Iterator(); it.Next(g.t.Context()); {
		results++
	}
	return results + s.Dead
}

// account checks the ledger.
func (f *fire) account(ids []string) {
	f.t.Helper()
	finished, dead := 0, 0
	seen := map[string]bool{}
	for _, id := range ids {
		if seen[id] {
			f.t.Fatalf("two jobs are called %s", id)
		}
		seen[id] = true
		status := f.rdb.HGetAll(f.t.Context(), "zpe:status:"+id).Val()
		result := f.rdb.Exists(f.t.Context(), "zpe:result:"+id).Val()
		switch {
		case status["outcomes"] != "1":
			f.t.Errorf("job %s has ended %q times: %v", id, status["outcomes"], status)
		case status["status"] == "finished" && result == 1:
			finished++
		case status["status"] == "failed" && result == 0:
			dead++
			if n := f.rdb.Get(f.t.Context(), "zpe:retry_count:"+id).Val(); n != "4" && status["error_code"] != "BAD_MANNERS" { // a first run and three more
				f.t.Errorf("job %s is a dead letter after %s failures: %v", id, n, status)
			}
		default:
			f.t.Errorf("job %s is %v and has %d results", id, status, result)
		}
	}
	s, err := f.queue.Stats(f.t.Context())
	if err != nil || s.Queued != 0 || s.Leased != 0 || s.Delayed != 0 || s.Dead != dead {
		f.t.Errorf("left over: %+v, %v; %d jobs have failed", s, err, dead)
	}
	code, out, stderr := f.runCommand(f.atRedis(), "gateway", "fsck")
	if code != 0 {
		f.t.Errorf("fsck: exit code %d\n%s%s", code, out, stderr)
	}
	if finished == 0 || dead == 0 || f.races.Load() == 0 || f.drops.Load() == 0 {
		f.t.Errorf("%d finished, %d dead letters, %d races, %d dropped leases: too quiet to prove anything", finished, dead, f.races.Load(), f.drops.Load())
	}
	f.t.Logf("%d finished, %d dead letters; %d races, %d dropped leases", finished, dead, f.races.Load(), f.drops.Load())
}
