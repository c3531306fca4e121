package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// idleConns is how many connections have nothing to say.
const idleConns = 10_000

// serveConns takes connections, with a goroutine for each that reads lines.
func serveConns(ctx context.Context) error {
	listener, err := listen(ctx)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	if err := serveProfiles(ctx, listener.Addr(), 0); err != nil {
		return err
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return nil //nolint:nilerr // the listener is closed at the end
		}
		go func() {
			for in := bufio.NewReader(conn); ; {
				if _, err := in.ReadString('\n'); err != nil {
					return
				}
			}
		}()
	}
}

// gridIdle measures the memory of a leader with connections that have said hello and no more, half of them clients and half workers, beside
// a server that has as many connections and nothing else.
func gridIdle(ctx context.Context, r *report) error {
	worker, err := json.Marshal(wire.Capability{Proto: 2, MaxParallel: 4, Host: "bench", Features: []string{wire.FeatureAccept, wire.FeatureResultAck}})
	if err != nil {
		return err
	}
	client, err := json.Marshal(wire.ClientConfig{DesiredParallelism: 4, Features: []string{wire.FeatureSubmitAck, wire.FeatureResultAck}})
	if err != nil {
		return err
	}
	leader, err := startLeader(ctx, "", "")
	if err != nil {
		return err
	}
	defer leader.kill()
	grid, heap, err := idleMemory(ctx, leader, func(i int) []byte {
		hello := wire.Frame{Type: wire.HelloWorker, MsgID: wire.NewGUID(), Payload: worker}
		if i%2 == 0 {
			hello = wire.Frame{Type: wire.HelloClient, Subject: fmt.Sprint("client", i), Payload: client}
		}
		return hello.Append(nil)
	})
	if err != nil {
		return err
	}
	bareServer, err := startProcess(ctx, "serve-conns", 2)
	if err != nil {
		return err
	}
	defer bareServer.kill()
	bare, bareHeap, err := idleMemory(ctx, bareServer, func(int) []byte { return []byte("hello\n") })
	if err != nil {
		return err
	}
	r.add("memory of a leader with 10 000 idle connections", grid/1e6, "MB", atMost(300))
	r.add("… its heap", heap/1e6, "MB", bar{})
	r.add("… of a server with 10 000 connections and a goroutine for each", bare/1e6, "MB", bar{})
	r.add("… its heap", bareHeap/1e6, "MB", bar{})
	return nil
}

// idleMemory connects, says hello, and returns the resident memory and the heap of a server with all connections. They are closed then.
func idleMemory(ctx context.Context, p *process, hello func(i int) []byte) (rss, heap float64, err error) {
	address := p.lines[0][strings.LastIndexByte(p.lines[0], ' ')+1:]
	conns := make([]net.Conn, 0, idleConns)
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for i := range idleConns {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return 0, 0, err
		}
		conns = append(conns, c)
		if _, err := c.Write(hello(i)); err != nil {
			return 0, 0, err
		}
	}
	pause(3 * time.Second)
	if rss, err = p.memory("VmRSS"); err != nil {
		return 0, 0, err
	}
	heap, err = p.heap(ctx)
	return rss, heap, err
}
