package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	_ "net/http/pprof" //nolint:gosec // on loopback, in a process of the bench
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/grid/leader"
	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/wire"
)

// serveGrid is a leader: serve-grid [DIR [SYNC]].
func serveGrid(ctx context.Context) error {
	l := &leader.Leader{Log: quietLog()}
	if len(os.Args) > 2 {
		l.Dir = os.Args[2]
	}
	if len(os.Args) > 3 && os.Args[3] == "interval" {
		l.Sync = leader.SyncInterval
	}
	began := time.Now()
	if err := l.Open(ctx); err != nil {
		return err
	}
	listener, err := listen(ctx)
	if err != nil {
		return err
	}
	if err := serveProfiles(ctx, listener.Addr(), time.Since(began)); err != nil {
		return err
	}
	var serving sync.WaitGroup
	var served error
	serving.Go(func() { served = l.Serve(ctx, listener) })
	err = l.Run(ctx)
	serving.Wait()
	return errors.Join(err, served, l.Close())
}

// serveProfiles says where a server is and where its profiles are.
func serveProfiles(ctx context.Context, at net.Addr, took time.Duration) error {
	profiles, err := listen(ctx)
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(profiles, nil) }() //nolint:gosec // it ends with the process
	fmt.Printf("opened in %s, listening on %s\nprofiles on %s\n", took, at, profiles.Addr())
	return nil
}

// heap collects the garbage of a server and returns the bytes that are left.
func (p *process) heap(ctx context.Context) (float64, error) {
	at := p.lines[1][strings.LastIndexByte(p.lines[1], ' ')+1:]
	body, err := get(ctx, http.DefaultClient, "http://"+at+"/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return 0, err
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	if err != nil {
		return 0, err
	}
	_, after, ok := strings.Cut(string(text), "# HeapAlloc = ")
	if !ok {
		return 0, fmt.Errorf("no HeapAlloc in the profile of %s", at)
	}
	n, _, _ := strings.Cut(after, "\n")
	return strconv.ParseFloat(n, 64)
}

const (
	gridExec   = "null"
	gridClient = "bench"
	gridHeld   = "held" // a client whose jobs never end
)

// workGridNull is a worker whose jobs do nothing: work-grid-null LEADER SLOTS MOST FEATURES.
func workGridNull(ctx context.Context) error {
	slots, err1 := strconv.Atoi(os.Args[3])
	most, err2 := strconv.Atoi(os.Args[4])
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	conn, err := dialGrid(ctx, os.Args[2])
	if err != nil {
		return err
	}
	hello := wire.Frame{Type: wire.HelloWorker, MsgID: wire.NewGUID()}
	if os.Args[5] == "all" {
		c := wire.Capability{Proto: 2, MaxParallel: slots, Host: "bench", Features: []string{wire.FeatureAccept, wire.FeatureResultAck, wire.FeaturePing}}
		if hello.Payload, err = json.Marshal(c); err != nil {
			return err
		}
	}
	if most == 0 || most > slots {
		err = conn.Send(hello, gridCredit(slots))
	} else {
		err = conn.Send(hello, gridCredit(most))
	}
	if err != nil {
		return err
	}
	fmt.Println("connected to", os.Args[2])
	return answerNull(conn, most-slots, most > 0)
}

// answerNull answers each job, and asks for as many again: left ones at most if that is bounded.
func answerNull(conn *link.Conn, left int, bounded bool) error {
	var out []wire.Frame
	for {
		f, err := conn.Receive()
		if err != nil {
			return nil //nolint:nilerr // the leader has ended
		}
		switch {
		case f.Type == wire.Welcome:
			conn.Ping()
		case f.Type == wire.AssignJob && !bytes.Contains(f.Payload, []byte(`"ClientId":"`+gridHeld+`"`)):
			out = append(out, nullResult(f))
			if left--; !bounded || left >= 0 {
				out = append(out, gridCredit(1))
			}
		}
		if len(out) > 0 && !conn.Ready() {
			if err := conn.Send(out...); err != nil {
				return nil //nolint:nilerr // so it has
			}
			out = out[:0]
		}
	}
}

func nullResult(assign wire.Frame) wire.Frame {
	text := make([]byte, 0, 160)
	text = fmt.Appendf(text, `{"JobId":%q,"ClientId":%q,"ExecName":%q,"Status":"OK","Stdout":"","Stderr":""}`, assign.MsgID, gridClient, gridExec)
	return wire.Frame{Type: wire.AckJob, MsgID: assign.CorrID, CorrID: assign.MsgID, Payload: text}
}

func gridCredit(n int) wire.Frame {
	return wire.Frame{Type: wire.Credit, MsgID: wire.NewGUID(), Payload: wire.AppendCredit(nil, n)}
}

func dialGrid(ctx context.Context, address string) (*link.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return link.New(conn, link.Options{Dialed: true, MaxUnsent: 64 << 20}), nil
}

// dialGridClient connects a client that is no more than a connection.
func dialGridClient(ctx context.Context, address, name string, most int, features ...string) (*link.Conn, error) {
	conn, err := dialGrid(ctx, address)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(wire.ClientConfig{ClientID: name, DesiredParallelism: most, Features: features})
	if err != nil {
		return nil, err
	}
	return conn, conn.Send(wire.Frame{Type: wire.HelloClient, Subject: name, Payload: text})
}

// nullSubmit is a new job that does nothing.
func nullSubmit(client string) wire.Frame {
	id := wire.NewGUID()
	text := make([]byte, 0, 120)
	text = fmt.Appendf(text, `{"JobId":%q,"ClientId":%q,"ExecName":%q,"Args":["1"],"Files":[]}`, id, client, gridExec)
	return wire.Frame{Type: wire.SubmitJob, MsgID: id, Subject: wire.SubmitSubject(gridExec), Payload: text}
}
