package sim

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/batchfleet/batchfleet/redisdb"
)

// redisServer is a Redis in the time of the bubble. Commands are carried out while they are
// written, so nobody waits for a socket, and one at a time, as in Redis.
type redisServer struct {
	w *world
	// wrote is told, still under mu, that a command of a process may have changed keys.
	wrote func(from string, keys []string)
	// moved is told that a replica has taken over.
	moved func()

	mu     sync.Mutex
	db     *miniredis.Miniredis
	run    int           // counts the servers there have been
	ahead  time.Duration // of its clock
	down   bool
	done   []command // since the world began
	waited int       // how many of them somebody has waited for a replica with

	forgetful bool // a planted bug: nothing is on the replica when somebody has waited for it

	clients []redis.UniversalClient // to be closed at the end
}

// command is one that was carried out, so that a replica can be made.
type command struct {
	at    time.Time
	clock time.Time
	conn  int
	args  []string
}

func newRedis(w *world) *redisServer {
	s := &redisServer{w: w, run: 1}
	s.db = s.open()
	return s
}

// open returns an empty server that does not listen.
func (s *redisServer) open() *miniredis.Miniredis {
	db := miniredis.NewMiniRedis()
	if c, err := db.Dial(); err == nil { // the commands are there from now on
		_ = c.Close()
	}
	db.SetTime(s.clock())
	db.ClockTTL(true)
	return db
}

// clock is what the server takes for the time.
func (s *redisServer) clock() time.Time { return time.Now().Add(s.ahead).UTC() }

func (s *redisServer) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		_ = c.Close()
	}
	s.db.Close()
}

// setDown makes the server unreachable, or reachable again. Connections break.
func (s *redisServer) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
	s.run++
}

// leap moves the server's clock.
func (s *redisServer) leap(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
}

// failover makes a replica the server: one that lacks what was written in the last moments.
func (s *redisServer) failover(lag time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := time.Now().Add(-lag)
	kept, _ := slices.BinarySearchFunc(s.done, since, func(c command, t time.Time) int { return c.at.Compare(t) })
	kept = max(kept, s.waited)
	old := s.db
	s.db, s.done = s.open(), s.done[:kept:kept]
	s.run++
	peers := map[int]*server.Peer{}
	for _, c := range s.done {
		p := peers[c.conn]
		if p == nil {
			p = server.NewPeer(bufio.NewWriter(new(bytes.Buffer)))
			peers[c.conn] = p
		}
		s.db.SetTime(c.clock)
		s.db.Server().Dispatch(p, slices.Clone(c.args))
		p.Flush()
	}
	s.db.SetTime(s.clock())
	old.Close()
	if s.moved != nil {
		s.moved()
	}
}

// view calls f with the data, between two commands.
func (s *redisServer) view(f func(db *miniredis.Miniredis)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.db.SetTime(s.clock())
	f(s.db)
}

// client returns a client of this server for a process, as the program makes it, but for
// the number of its connections: a call that waits for one takes a timer from a pool that
// all bubbles share, and that ends the test.
func (s *redisServer) client(l *link) redis.UniversalClient {
	c := redisdb.Connect(redisdb.Options{Host: "127.0.0.1", Port: 6379, Pool: 1000})
	if one, ok := c.(*redis.Client); ok {
		// To ask for these, connections wait for each other on a lock, and virtual time
		// stands still while a goroutine waits for a lock.
		one.Options().MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	}
	c.AddHook(dialHook{func(ctx context.Context) (net.Conn, error) { return s.dial(ctx, l) }})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients = append(s.clients, c)
	return c
}

// dialHook replaces how a client dials.
type dialHook struct {
	dial func(context.Context) (net.Conn, error)
}

func (h dialHook) DialHook(redis.DialHook) redis.DialHook {
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return h.dial(ctx) }
}
func (dialHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (dialHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s *redisServer) dial(ctx context.Context, l *link) (net.Conn, error) {
	if err := l.call(ctx); err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errCut}
	}
	s.w.conns++
	c := &redisConn{s: s, l: l, run: s.run, id: s.w.conns, done: make(chan struct{})}
	c.peer = server.NewPeer(bufio.NewWriter(&c.reply))
	c.close = sync.OnceFunc(func() { close(c.done) })
	return c, nil
}

// redisConn is a connection to the server.
type redisConn struct {
	s     *redisServer
	l     *link
	run   int
	id    int
	peer  *server.Peer
	done  chan struct{}
	close func()

	mu       sync.Mutex
	request  []byte       // not yet whole
	reply    bytes.Buffer // not yet read
	deadline time.Time
	broken   bool // the reply is lost
}

// Write carries out the commands in b.
func (c *redisConn) Write(b []byte) (int, error) {
	if err := c.l.pass(c.done, c.until()); err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	commands, err := c.commands(b)
	if err != nil || len(commands) == 0 {
		return len(b), err
	}
	fate := c.l.dice.roll(kindOf(commands[0]))
	if fate == lostRequest {
		c.l.p.hiccup("a request to redis is lost")
		c.close()
		return 0, errCut
	}
	for _, args := range commands {
		if err := c.s.do(c, args); err != nil {
			c.close()
			return 0, err
		}
	}
	if fate == lostReply && c.reply.Len() > 0 {
		c.l.p.hiccup("a reply of redis is lost")
		c.broken = true
	}
	return len(b), nil
}

// commands returns those that are whole with b. c.mu is held.
func (c *redisConn) commands(b []byte) (list [][]string, err error) {
	c.request = append(c.request, b...)
	for {
		args, rest, err := parseCommand(c.request)
		if err != nil || args == nil {
			return list, err
		}
		list, c.request = append(list, args), rest
	}
}

// kindOf tells a command from others: by its name, and a script by its first key.
func kindOf(args []string) string {
	name := strings.ToUpper(args[0])
	if keys := keysOf(name, args); len(keys) > 0 {
		return "script " + keys[0]
	}
	return name
}

// Read returns what was replied. A process that was frozen or cut off after its request
// gets it later, or not at all.
func (c *redisConn) Read(b []byte) (int, error) {
	if err := c.l.pass(c.done, c.until()); err != nil {
		return 0, err
	}
	c.mu.Lock()
	broken, n := c.broken, 0
	if !broken {
		n, _ = c.reply.Read(b)
	}
	c.mu.Unlock()
	switch {
	case broken:
		c.close()
		return 0, errCut
	case n > 0:
		return n, nil
	}
	return 0, waitFor(c.done, nil, nil, c.until())
}

func (c *redisConn) until() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deadline
}

// Close implements [net.Conn].
func (c *redisConn) Close() error { c.close(); return nil }

// LocalAddr implements [net.Conn].
func (c *redisConn) LocalAddr() net.Addr { return &net.TCPAddr{} }

// RemoteAddr implements [net.Conn].
func (c *redisConn) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// SetDeadline implements [net.Conn].
func (c *redisConn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return nil
}

// SetReadDeadline implements [net.Conn].
func (c *redisConn) SetReadDeadline(t time.Time) error { return c.SetDeadline(t) }

// SetWriteDeadline implements [net.Conn].
func (c *redisConn) SetWriteDeadline(t time.Time) error { return c.SetDeadline(t) }

// do carries out one command. c.mu is held.
func (s *redisServer) do(c *redisConn, args []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down || c.run != s.run || c.l.p.isDead() {
		return os.NewSyscallError("write", errCut)
	}
	name := strings.ToUpper(args[0])
	if s.about(c.peer, name) {
		return nil
	}
	s.done = append(s.done, command{time.Now(), s.clock(), c.id, args})
	s.db.SetTime(s.clock())
	s.db.Server().Dispatch(c.peer, slices.Clone(args))
	c.peer.Flush()
	if keys := keysOf(name, args); keys != nil && s.wrote != nil {
		s.wrote(c.l.p.name, keys)
	}
	return nil
}

// about replies to what miniredis cannot say of itself: it has one replica, which gets all
// as soon as somebody waits for it.
func (s *redisServer) about(p *server.Peer, name string) bool {
	switch name {
	case "INFO":
		p.WriteBulk(fmt.Sprintf("# Server\r\nrun_id:%d\r\n", s.run))
	case "ROLE":
		p.Block(func(w *server.Writer) {
			w.WriteLen(3)
			w.WriteBulk("master")
			w.WriteInt(0)
			w.WriteLen(1)
			w.WriteStrings([]string{"replica", "6379", "0"})
		})
	case "WAIT":
		if !s.forgetful {
			s.waited = len(s.done)
		}
		p.WriteInt(1)
	default:
		return false
	}
	p.Flush()
	return true
}

// keysOf returns the keys of a script.
func keysOf(name string, args []string) []string {
	if name != "EVALSHA" && name != "EVAL" || len(args) < 3 {
		return nil
	}
	n, _ := strconv.Atoi(args[2])
	return args[3:min(len(args), 3+n)]
}

// parseCommand returns the first command of b and what follows it; nil if it is not whole.
func parseCommand(b []byte) (args []string, rest []byte, err error) {
	n, rest, ok, err := parseLength(b, '*')
	if err != nil || !ok {
		return nil, nil, err
	}
	for range n {
		var size int
		if size, rest, ok, err = parseLength(rest, '$'); err != nil || !ok {
			return nil, nil, err
		}
		if len(rest) < size+2 {
			return nil, nil, nil
		}
		args, rest = append(args, string(rest[:size])), rest[size+2:]
	}
	return args, rest, nil
}

// parseLength reads a line such as "*3".
func parseLength(b []byte, mark byte) (n int, rest []byte, whole bool, err error) {
	line, rest, whole := bytes.Cut(b, []byte("\r\n"))
	if !whole {
		return 0, nil, false, nil
	}
	if len(line) < 2 || line[0] != mark {
		return 0, nil, false, fmt.Errorf("redis was sent %.40q, want %q and a number", line, mark)
	}
	n, err = strconv.Atoi(string(line[1:]))
	return n, rest, true, err
}
