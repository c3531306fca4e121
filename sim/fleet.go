package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/batchfleet/batchfleet/emulator"
	"github.com/batchfleet/batchfleet/internal/testnet"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/operations/repair"
	"github.com/batchfleet/batchfleet/processor"
	"github.com/batchfleet/batchfleet/pubsub"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/worker"
)

const (
	topicName = "projects/sim/topics/jobs"
	queueName = "projects/sim/subscriptions/jobs"
	deadTopic = "projects/sim/topics/dead"
	deadQueue = "projects/sim/subscriptions/dead"

	// client is the process that submits and cancels jobs. It has no faults of its own.
	client = "client"
)

// The services that a link leads to.
const (
	toRedis   = "redis"
	toPubSub  = "pubsub"
	toStore   = "store"
	toGateway = "gateway"
)

// fleet is the workers over a Pub/Sub emulator.
type fleet struct {
	*world
	*settings
	ledger   *ledger
	emulator *emulator.Server
	pipes    *testnet.Pipes
	jobs     []job
	byID     map[jobs.ID]job
	outsider atomic.Pointer[pubsub.Source] // hands back what workers have
	bug      Bug

	places   []*place
	stopping chan struct{}
	running  sync.WaitGroup
}

// settings are what a seed chooses for the whole run.
type settings struct {
	workers, slots int
	lease          time.Duration // of Pub/Sub
	repairEvery    time.Duration
	callsPerFault  int           // one call in so many fails; 0 for none
	faultsFor      time.Duration // after that the fleet is left in peace
}

func drawSettings(seed uint64) *settings {
	r := random(seed, "settings")
	return &settings{
		workers: 2 + r.IntN(3), slots: 1 + r.IntN(2),
		lease:       []time.Duration{20 * time.Second, time.Minute, 10 * time.Minute}[r.IntN(3)],
		repairEvery: []time.Duration{2 * time.Minute, 10 * time.Minute}[r.IntN(2)], callsPerFault: []int{0, 300, 60}[r.IntN(3)],
		faultsFor: between(r, time.Minute, 3*time.Minute),
	}
}

// fleetSource and fleetStatus are what a worker of the fleet works with; a planted bug is
// one that lies.
type (
	fleetSource interface {
		worker.Source
		worker.HandBacker
	}
	fleetStatus interface {
		worker.KindStatus
		worker.Claims
	}
)

// place is where one worker runs after the other.
type place struct {
	name string
	mu   sync.Mutex
	now  *process
	stop context.CancelFunc // as SIGTERM does

	kinds   []jobs.Kind // of a worker of the fleet
	dir     string      // of an agent
	objects *objects    // of an agent
}

func (s *place) current() (*process, context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now, s.stop
}

func newFleet(w *world, bug Bug) (*fleet, error) {
	f := &fleet{
		world: w, settings: drawSettings(w.seed), ledger: newLedger(w), pipes: testnet.NewPipes(), bug: bug,
		emulator: emulator.New(emulator.Config{Log: w.logger("emulator")}), byID: map[jobs.ID]job{}, stopping: make(chan struct{}),
	}
	f.jobs = drawJobs(w.seed, f.faultsFor)
	for _, j := range f.jobs {
		f.byID[j.id] = j
		f.ledger.open(j)
	}
	w.redis.wrote, w.redis.moved, w.objects.put = f.ledger.wrote, f.ledger.moved, f.ledger.put
	return f, errors.Join(
		f.emulator.EnsureSubscription(queueName, topicName, f.lease),
		f.emulator.EnsureSubscription(deadQueue, deadTopic, f.lease))
}

// pubsub returns the options of a client of the emulator.
func (f *fleet) pubsub(l *link) []option.ClientOption {
	opts, err := pubsub.Options("127.0.0.1:8085")
	if err != nil {
		panic(err) // a constant
	}
	return append(opts, option.WithGRPCDialOption(grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return l.dial(ctx, f.pipes.Dial)
	})))
}

// status returns the fleet's status as a process has it.
func (f *fleet) status(p *process) (*status.Store, io.Closer) {
	rdb := f.redis.client(p.link(toRedis))
	st := status.New(rdb)
	st.Worker, st.MaxCrashes = p.name, maxCrashes
	return st, rdb
}

// roll lets one in so many calls of a process fail.
func (p *process) roll(per int, services ...string) {
	for _, to := range services {
		d := p.link(to).dice
		d.per, d.off = per, p.w.isCalm
		if to == toPubSub || to == toGateway {
			d.per *= 4 // it breaks a connection
		}
	}
}

// serve runs processes at a place, one after the other, until stopping is closed.
func (w *world) serve(ctx context.Context, s *place, stopping <-chan struct{}, run func(context.Context, *place, *process)) {
	r := random(w.seed, s.name)
	time.Sleep(between(r, 0, time.Second)) // not all at one moment: who would be first is not the seed's choice
	for n := 1; ; n++ {
		p := w.add(fmt.Sprintf("%s.%d", s.name, n))
		ctx, stop := context.WithCancel(ctx)
		s.mu.Lock()
		s.now, s.stop = p, stop
		s.mu.Unlock()
		var beside sync.WaitGroup
		beside.Go(func() {
			select {
			case <-stopping:
			case <-ctx.Done():
			case <-p.died:
			}
			stop()
		})
		w.note("%s: starts", p.name)
		run(ctx, s, p)
		w.note("%s: ends", p.name)
		stop()
		beside.Wait()
		pause := time.NewTimer(between(r, 0, 20*time.Second))
		select {
		case <-stopping:
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

// run is the life of one worker.
func (f *fleet) run(ctx context.Context, at *place, p *process) {
	p.roll(f.callsPerFault, toRedis, toPubSub, toStore)
	w, r, closers, err := f.worker(ctx, at, p)
	if err != nil {
		panic(err) // nothing is reached for yet
	}
	w.ForceStop = p.died
	var beside sync.WaitGroup
	beside.Go(func() { r.Run(ctx, f.repairEvery) })
	if err := w.Run(ctx); err != nil {
		f.note("%s: ends: %v", p.name, err)
	}
	beside.Wait()
	for _, c := range closers {
		_ = c.Close()
	}
	f.ledger.left(p)
}

// worker wires a worker as the program does.
func (f *fleet) worker(ctx context.Context, at *place, p *process) (*worker.Worker, *repair.Repair, []io.Closer, error) {
	log := f.logger(p.name)
	options := f.pubsub(p.link(toPubSub))
	src, err := pubsub.OpenSource(ctx, queueName, pubsub.Rules{DefaultKind: "mock"}, log, options...)
	pub, err2 := pubsub.OpenPublisher(ctx, topicName, pubsub.Rules{}, options...)
	dead, err3 := pubsub.OpenDeadLetterTopic(ctx, deadTopic, options...)
	if err := errors.Join(err, err2, err3); err != nil {
		return nil, nil, nil, err
	}
	st, rdb := f.status(p)
	var view storage.Store = store{f.objects, p.link(toStore)}
	pages := &processor.Pages{
		Engine: engine{f.byID, func() { f.kill(p, true) }}, Store: view, Log: log, Dir: f.mkdir(p.name), Checkpoint: 5 * time.Second,
	}
	var source fleetSource = watchedSource{src, f.ledger, p}
	var claims fleetStatus = watchedStatus{st, f.ledger, p}
	if f.bug.source != nil {
		source = f.bug.source(source)
	}
	if f.bug.status != nil {
		claims = f.bug.status(f, p, claims)
	}
	if f.bug.store != nil {
		pages.Store = f.bug.store(view)
	}
	handlers := map[jobs.Kind]worker.Handler{}
	for _, kind := range at.kinds {
		handlers[kind] = again{pages, f}
	}
	w := &worker.Worker{
		Source: source, Status: claims, Claims: claims, Handlers: handlers, Log: log, DeadLetters: dead,
		Checks: map[string]func(context.Context) error{"redis": st.Check, "storage": view.Check, "dead letters": dead.Check},
		Pools:  []worker.Pool{{Slots: f.slots}}, LeaseTTL: f.lease,
	}
	r := &repair.Repair{Status: st, Store: view, Publish: pub.Publish, Log: log, Dir: f.mkdir(p.name)}
	return w, r, []io.Closer{src, pub, dead, rdb}, nil
}

// kill kills a process.
func (f *fleet) kill(p *process, power bool) {
	f.redis.mu.Lock() // what it has sent is either carried out by now, or never
	was := p.isDead()
	if !was {
		p.kill(power)
		f.note("%s: killed (the others see it: %v)", p.name, power)
		f.ledger.killed(p.name)
	}
	f.redis.mu.Unlock()
}

// submit queues the jobs at their time, and cancels those that are to be canceled.
func (f *fleet) submit(ctx context.Context) error {
	p := f.add(client)
	st, rdb := f.status(p)
	defer rdb.Close()
	pub, err := pubsub.OpenPublisher(ctx, topicName, pubsub.Rules{}, f.pubsub(p.link(toPubSub))...)
	if err != nil {
		return err
	}
	defer pub.Close()
	outsider, err := pubsub.OpenSource(ctx, queueName, pubsub.Rules{}, f.logger(client), f.pubsub(p.link(toPubSub))...)
	if err != nil {
		return err
	}
	defer outsider.Close()
	f.outsider.Store(outsider)
	var sending sync.WaitGroup
	defer func() {
		sending.Wait()
		<-ctx.Done()
	}()
	for _, j := range f.jobs {
		it := jobs.Job{ID: j.id, Kind: j.kind, Payload: `{"seed": "` + string(j.id) + `"}`, Pages: j.pages, Submitted: f.began.Add(j.submit)}
		sending.Go(func() {
			_ = jobs.Sleep(ctx, j.submit)
			for pubsub.Submit(ctx, st, pub.Publish, it, time.Minute) != nil && ctx.Err() == nil {
				_ = jobs.Sleep(ctx, time.Second)
			}
			f.note("job %s is submitted", j.id)
		})
		if j.again > 0 {
			sending.Go(func() {
				_ = jobs.Sleep(ctx, j.again)
				_, _ = pub.Publish(ctx, it)
			})
		}
		if j.cancel > 0 {
			sending.Go(func() {
				_ = jobs.Sleep(ctx, j.cancel+time.Second)
				f.ledger.canceled(j.id)
				state, err := st.Cancel(ctx, j.id)
				f.note("job %s is to be canceled: %v, %v", j.id, state, err)
			})
		}
	}
	return nil
}

// kindsOf returns the kinds of the nth place. The first has all.
func (f *fleet) kindsOf(n int) []jobs.Kind {
	switch random(f.seed, "kinds of", strconv.Itoa(n)).IntN(4) {
	case 0:
		if n > 0 {
			return []jobs.Kind{common}
		}
	case 1:
		if n > 0 {
			return []jobs.Kind{rare}
		}
	}
	return []jobs.Kind{common, rare}
}
