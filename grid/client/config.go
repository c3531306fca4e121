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
	// Rendezvous chooses by the job's id and the leaders' addresses, among the leaders that take jobs. So a job that is submitted again,
	// also by another process with the same leaders, mostly goes to the leader that has it. When the first choice has many more
	// unfinished jobs of this client than the second, the second gets the job.
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
	// Desired is how many jobs may run at once on all leaders together: DefaultDesired when 0. Each leader gets an even share.
	Desired int
	Token   string        // for the leaders; empty for none
	Policy  Policy        // which leader gets the next job
	Grace   time.Duration // how long the jobs of a lost leader wait for it: DefaultGrace when 0
	// Window is how many jobs may be unfinished, and WindowBytes how many bytes their requests may have together, before Submit
	// waits. When 0 they are four times Desired, at least 64; and 64 MiB. One job is always allowed.
	Window      int
	WindowBytes int
	// OnResult is called with each result, once for each job, by one goroutine at a time. It must be quick, and must not call Submit.
	// Results of jobs that an earlier process has submitted come as well, at the beginning.
	//
	// When it returns nil, the leader may forget the result. [ErrLater] means that [Multi.Acknowledge] will be called. [ErrNotOurs] leaves the
	// result of a job that was not submitted here with the leader. After any other error it is called again a little later.
	//
	// If OnResult is nil, only [Job.Wait] returns results, and those of earlier processes stay with the leader.
	OnResult func(Result) error
	// Own limits OnResult to jobs that are submitted here, and the jobs of their arrays. Other results stay with the leader, for another
	// process.
	Own bool
	// Dial connects to a leader. Nil for plain TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	Log  *slog.Logger
}

// Result is the result of a job as a leader has sent it.
type Result struct {
	JobID   wire.GUID
	Payload []byte // a JobResult in JSON; not to be changed
}

// complete fills in defaults and checks the settings. The error has all mistakes.
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

// maxDesired returns how many jobs of one client may run at once on some leaders together.
func maxDesired(leaders int) int { return min(max(leaders, 1)*wire.MaxClientCap, MaxDesired) }

// shares splits the desired parallelism over n leaders; the first ones get the remainder. Each gets at least 1, because a leader treats
// less as 1.
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
