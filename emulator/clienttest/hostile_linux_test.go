package clienttest

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

const (
	streamingPull = "/google.pubsub.v1.Subscriber/StreamingPull"
	publishMethod = "/google.pubsub.v1.Publisher/Publish"
	megabyte      = 1 << 20
)

// A siege is a process under attack and how it was before.
type siege struct {
	*process
	before, files int
}

// besiege starts a process. Sieges that take all the CPU there is run one after
// the other, before the tests that run in parallel: those wait for real time.
func besiege(t *testing.T) *siege {
	t.Helper()
	p := startProcess(t)
	s := &siege{process: p, before: p.memory(t)}
	s.serves(t) // opens what it opens only once
	s.before, s.files = p.memory(t), p.files(t)
	return s
}

// serves wants other clients to be served at a pace they can bear.
func (s *siege) serves(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(soon(t), 20*time.Second)
	defer cancel()
	conn := s.connectGRPC(t)
	defer closeIt(t, conn)
	pub, sub := pubsubpb.NewPublisherClient(conn), pubsubpb.NewSubscriberClient(conn)
	topic := fmt.Sprintf("projects/test/topics/t%d", time.Now().UnixNano())
	name := strings.Replace(topic, "topics", "subscriptions", 1)
	begun := time.Now()
	must(pub.CreateTopic(ctx, &pubsubpb.Topic{Name: topic}))(t)
	must(sub.CreateSubscription(ctx, &pubsubpb.Subscription{Name: name, Topic: topic}))(t)
	must(pub.Publish(ctx, &pubsubpb.PublishRequest{Topic: topic, Messages: []*pubsubpb.PubsubMessage{{Data: []byte("x")}}}))(t)
	resp := must(sub.Pull(ctx, &pubsubpb.PullRequest{Subscription: name, MaxMessages: 1}))(t)
	if len(resp.GetReceivedMessages()) != 1 {
		t.Error("another client did not get its message")
	}
	if code, body := s.http(t, "GET", "/v1/"+topic, ""); code != 200 {
		t.Errorf("another client got %d %s", code, body)
	}
	t.Logf("another client was served in %v; memory has grown by %d MB", time.Since(begun).Round(time.Millisecond), (s.memory(t)-s.before)/megabyte)
}

// holds wants the process to serve others and to have grown by less than limit.
func (s *siege) holds(t *testing.T, limit int) {
	t.Helper()
	s.serves(t)
	if grown := s.memory(t) - s.before; grown > limit {
		t.Errorf("memory has grown by %d MB, want less than %d MB", grown/megabyte, limit/megabyte)
	}
}

// recovers wants all connections and goroutines of the attack to be gone soon.
// It ends the process.
func (s *siege) recovers(t *testing.T) {
	t.Helper()
	for ctx := soon(t); s.process.files(t) > s.files+2; {
		select {
		case <-ctx.Done():
			t.Fatalf("%d files are open, %d were before", s.process.files(t), s.files)
		case <-time.After(50 * time.Millisecond):
		}
	}
	s.serves(t)
	s.rest(t)
	if n, origins := s.goroutines(t); n == 0 || n > 40 {
		t.Errorf("%d goroutines are left:\n%s", n, origins)
	}
}

// grpcFrame returns m as gRPC sends it.
func grpcFrame(tb testing.TB, m proto.Message) []byte {
	tb.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...)
}

func TestE07TenThousandHalfOpenConnections(t *testing.T) {
	t.Parallel()
	const count = 10_000
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < count+500 {
		t.Fatalf("%d open files are allowed, %v: this test needs %d (ulimit -n)", limit.Cur, err, count+500)
	}
	s := besiege(t)
	for i := range count {
		c := s.connect(t)
		var err error
		switch i % 4 {
		case 1:
			_, err = io.WriteString(c, "PRI * HTTP")
		case 2:
			_, err = io.WriteString(c, http2.ClientPreface)
		case 3:
			_, err = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s.holds(t, 250*megabyte)
	s.recovers(t) // the server hangs up: we keep them all open
}

func TestE07TenThousandStreams(t *testing.T) {
	s := besiege(t)
	c := s.connect2(t)
	c.discard()
	for i := range uint32(10_000) {
		c.check(t, c.open(2*i+1, streamingPull))
	}
	c.check(t, c.out.Flush())
	s.holds(t, 250*megabyte)
	closeIt(t, c.Conn)
	s.recovers(t)
}

func TestE07GiantHeaders(t *testing.T) {
	s := besiege(t)
	c := s.connect2(t)
	c.discard()
	giant := strings.Repeat("x", megabyte)
	for i := range uint32(100) {
		// The server may hang up: an error is no failure.
		if c.open(2*i+1, streamingPull, hpack.HeaderField{Name: "x-giant", Value: giant, Sensitive: true}) != nil {
			break
		}
	}
	_ = c.out.Flush()
	s.holds(t, 50*megabyte)
	closeIt(t, c.Conn)
	s.recovers(t)
}

func TestE07GiantBodies(t *testing.T) {
	s := besiege(t)
	t.Run("a body of a gigabyte over REST", func(t *testing.T) {
		c := s.connect(t)
		chunk := fmt.Appendf(nil, "%x\r\n%s\r\n", megabyte, make([]byte, megabyte))
		_, err := fmt.Fprintf(c, "POST /v1/%s:publish HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", topicName)
		sent := 0
		for ; err == nil && sent < 1024; sent++ {
			_, err = c.Write(chunk)
		}
		if sent > 100 {
			t.Errorf("%d MB were taken", sent)
		}
	})
	t.Run("a message of 64 MB over gRPC", func(t *testing.T) {
		_, err := pubsubpb.NewPublisherClient(s.dial(t)).Publish(soon(t), &pubsubpb.PublishRequest{
			Topic: topicName, Messages: []*pubsubpb.PubsubMessage{{Data: make([]byte, 64*megabyte)}},
		})
		wantError(t, err, codes.ResourceExhausted, "larger than max")
	})
	s.holds(t, 200*megabyte)
}

// Bodies that stop before their end are kept until they time out, so all of them
// together have a limit.
func TestE07UnfinishedBodiesOverREST(t *testing.T) {
	s := besiege(t)
	chunk := fmt.Appendf(nil, "%x\r\n%s\r\n", megabyte, make([]byte, megabyte))
	var writing sync.WaitGroup
	for range 100 {
		c := s.connect(t)
		writing.Go(func() {
			_, err := fmt.Fprintf(c, "POST /v1/%s:publish HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", topicName)
			for i := 0; err == nil && i < 15; i++ {
				_, err = c.Write(chunk) // until the server has had enough
			}
		})
	}
	writing.Wait()
	s.holds(t, 700*megabyte)
}

func TestE07UnfinishedMessagesOverGRPC(t *testing.T) {
	s := besiege(t)
	// Each of 20 connections sends the begin of 100 messages of 12 MB.
	head := binary.BigEndian.AppendUint32([]byte{0}, 12_000_000)
	part := make([]byte, 16<<10)
	var writing sync.WaitGroup
	for range 20 {
		c := s.connect2(t)
		c.discard()
		writing.Go(func() {
			for i := range uint32(100) {
				if c.open(2*i+1, publishMethod) != nil || c.WriteData(2*i+1, false, head) != nil {
					return
				}
			}
			for range 60 {
				for i := range uint32(100) {
					if c.WriteData(2*i+1, false, part) != nil {
						return // the server has had enough
					}
				}
			}
			_ = c.out.Flush()
		})
	}
	writing.Wait()
	s.holds(t, 700*megabyte)
}

func TestE07SlowReaders(t *testing.T) {
	t.Parallel()
	s := besiege(t)
	pub := pubsubpb.NewPublisherClient(s.dial(t))
	for range 100 {
		must(pub.Publish(soon(t), &pubsubpb.PublishRequest{
			Topic: topicName, Messages: []*pubsubpb.PubsubMessage{{Data: make([]byte, 1_000_000)}},
		}))(t)
	}
	first := grpcFrame(t, &pubsubpb.StreamingPullRequest{Subscription: subName, StreamAckDeadlineSeconds: 10})
	for range 100 { // never reads
		c := s.connect2(t)
		c.check(t, c.open(1, streamingPull))
		c.check(t, c.WriteData(1, false, first))
		c.check(t, c.out.Flush())
	}
	// Every lease ends, and the messages go from one that does not read to the
	// next.
	for begun := time.Now(); time.Since(begun) < 25*time.Second; {
		s.serves(t)
		<-time.After(5 * time.Second)
	}
	s.holds(t, 600*megabyte)
}

func TestE07FrameFloods(t *testing.T) {
	s := besiege(t)
	floods := map[string]func(c *h2, n uint32) error{
		"pings":         func(c *h2, _ uint32) error { return c.WritePing(false, [8]byte{}) },
		"settings":      func(c *h2, _ uint32) error { return c.WriteSettings() },
		"windows":       func(c *h2, _ uint32) error { return c.WriteWindowUpdate(0, 1) },
		"resets":        func(c *h2, _ uint32) error { return c.WriteRSTStream(1, http2.ErrCodeCancel) },
		"priorities":    func(c *h2, _ uint32) error { return c.WritePriority(1, http2.PriorityParam{Weight: 1}) },
		"empty data":    func(c *h2, _ uint32) error { return c.WriteData(1, false, nil) },
		"unknown kinds": func(c *h2, _ uint32) error { return c.WriteRawFrame(77, 0, 1, make([]byte, 100)) },
		"rapid resets": func(c *h2, n uint32) error {
			if err := c.open(2*n+3, streamingPull); err != nil {
				return err
			}
			return c.WriteRSTStream(2*n+3, http2.ErrCodeCancel)
		},
	}
	var flooding sync.WaitGroup
	var conns []*h2
	for name, flood := range floods {
		c := s.connect2(t)
		conns = append(conns, c)
		flooding.Go(func() {
			if err := c.open(1, streamingPull); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			// An error says that the server has hung up, which it may.
			for n := range uint32(50_000) {
				if err := flood(c, n); err != nil {
					return
				}
			}
			_ = c.out.Flush()
		})
	}
	s.holds(t, 100*megabyte)  // while they go on
	for _, c := range conns { // some server waits for us to read what it answers
		_ = c.SetWriteDeadline(time.Now().Add(10 * time.Second))
	}
	flooding.Wait()
	s.holds(t, 100*megabyte)
	for _, c := range conns {
		closeIt(t, c.Conn)
	}
	s.recovers(t)
}
