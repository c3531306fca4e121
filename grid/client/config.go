package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// Policy says which leader gets the next job.
type Policy uint8

const (
	RoundRobin    Policy = iota // each in turn
	LeastInFlight               // the one with the fewest unfinished jobs of this client
	// Rendezvous gives a job to the leader that its id and the leaders' addresses say, as long as that takes jobs. So a job that is
	// submitted again, also by another process with the same leaders, mostly goes to the leader that has it. When the first choice has
	// many more unfinished jobs of this client than the second, the second gets the job.
	Rendezvous
)

const (
	DefaultDesired = wire.DefaultParallel
	MaxLeaders     = 64
	MaxDesired     = MaxLeaders * wire.MaxClientCap
	DefaultGrace   = 10 * time.Second
	DialTimeout    = 10 * time.Second

	leastWindow  = 64
	maxWindow    = 1 << 20
	defaultBytes = 64 << 20
)

// Config has the settings of a [Multi].
type Config struct {
	ClientID string
	Leaders  []string // host:port, 1 to MaxLeaders
	// Desired is how many jobs may run at the same time on all leaders together: DefaultDesired when 0. Each leader is told an
	// even share of it.
	Desired int
	Token   string        // shown to the leaders; empty for none
	Policy  Policy        // which leader gets the next job
	Grace   time.Duration // how long the jobs of a lost leader wait for it: DefaultGrace when 0
	// Window is how many jobs may be unfinished, and WindowBytes how many bytes their requests may have together, before Submit
	// waits. When 0 they are four times Desired, at least 64; and 64 MiB. One job is always allowed.
	Window      int
	WindowBytes int
	// OnResult is told of each result, once for each job, by one goroutine at a time. When it returns nil, the leader may forget
	// the result. When it returns an error, it is told again a little later; when that is [ErrLater], not before the leader sends the
	// result again. [ErrNotOurs] leaves the result of a job that was not submitted here with the leader. Results of jobs that an earlier
	// process has submitted come as well, at the beginning. It must be quick and not call Submit. Nil for nothing: then results are what [Job.Wait]
	// returns, and those of earlier processes stay with the leader.
	OnResult func(Result) error
	// Own means that OnResult is told only of the jobs that are submitted here, and of those of their arrays. Other results stay with the
	// leader, for another process.
	Own bool
	// Dial connects to a leader. Nil for plain TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	Log  *slog.Logger
}

// Result is the result of a job as it has come.
type Result struct {
	JobID   wire.GUID
	Payload []byte // a JobResult in JSON; not to be changed
}

// complete checks the settings and fills in defaults. The error has all that is wrong.
func (c *Config) complete() error {
	var errs []error
	if err := wire.CheckClientID(c.ClientID); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, checkLeaders(c.Leaders)...)
	number := func(name string, n *int, byDefault, least, most int) {
		if *n == 0 {
			*n = byDefault
		}
		if *n < least || *n > most {
			errs = append(errs, fmt.Errorf("%s is %d, must be %d to %d", name, *n, least, most))
		}
	}
	number("desired parallelism", &c.Desired, DefaultDesired, 1, maxDesired(len(c.Leaders)))
	number("window of jobs", &c.Window, min(max(leastWindow, 4*c.Desired), maxWindow), 1, maxWindow)
	number("window of bytes", &c.WindowBytes, defaultBytes, 1, 1<<31-1)
	if c.Grace == 0 {
		c.Grace = DefaultGrace
	}
	if c.Grace < 0 {
		errs = append(errs, fmt.Errorf("grace is %s, must not be negative", c.Grace))
	}
	if c.Policy > Rendezvous {
		errs = append(errs, fmt.Errorf("policy %d is not known", c.Policy))
	}
	if c.Dial == nil {
		c.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		}
	}
	return errors.Join(errs...)
}

// maxDesired is how many jobs so many leaders run of one client at most.
func maxDesired(leaders int) int { return min(max(leaders, 1)*wire.MaxClientCap, MaxDesired) }

// shares splits the desired parallelism over n leaders: the first ones get what is left over. Each gets at least 1, because a
// leader takes less for 1.
func shares(desired, n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = desired / n
		if i < desired%n {
			all[i]++
		}
		all[i] = max(all[i], 1)
	}
	return all
}
