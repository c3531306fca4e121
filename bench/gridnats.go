package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"
)

// The grid is compared with NATS: a server, a member of a queue group that answers requests, and this process, which makes them. Requests and
// answers have the sizes of a job and its result. NATS keeps nothing, and a request whose answerer goes away is lost.

const natsSubject = "job.assign." + gridExec

// serveNATS is a NATS server.
func serveNATS(ctx context.Context) error {
	s, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoLog: true, NoSigs: true})
	if err != nil {
		return err
	}
	go s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		return errors.New("the NATS server does not start")
	}
	fmt.Println("listening on", s.Addr())
	<-ctx.Done()
	s.Shutdown()
	return nil
}

// answerNATS answers requests: answer-nats SERVER.
func answerNATS(ctx context.Context) error {
	conn, err := nats.Connect(os.Args[2])
	if err != nil {
		return err
	}
	defer conn.Close()
	answer := nullResult(nullSubmit(gridClient)).Payload
	if _, err := conn.QueueSubscribe(natsSubject, "workers", func(m *nats.Msg) { _ = m.Respond(answer) }); err != nil {
		return err
	}
	if err := conn.Flush(); err != nil {
		return err
	}
	fmt.Println("connected to", os.Args[2])
	<-ctx.Done()
	return nil
}

// natsRig is a server, one that answers, and a connection that asks.
type natsRig struct {
	server, answerer *process
	conn             *nats.Conn
	request          []byte
}

func startNATS(ctx context.Context) (n *natsRig, err error) {
	n = &natsRig{request: nullSubmit(gridClient).Payload}
	if n.server, err = startProcess(ctx, "serve-nats", 1); err != nil {
		return nil, err
	}
	if n.answerer, err = spawn(ownCommand(ctx, "answer-nats", n.server.address()), 1); err != nil {
		n.server.kill()
		return nil, err
	}
	if n.conn, err = nats.Connect(n.server.address()); err != nil {
		n.stop()
		return nil, err
	}
	return n, nil
}

func (n *natsRig) stop() {
	if n.conn != nil {
		n.conn.Close()
	}
	n.answerer.kill()
	n.server.kill()
}

func (n *natsRig) processes() []*process { return []*process{n.server, n.answerer} }

func (n *natsRig) ask() error {
	_, err := n.conn.Request(natsSubject, n.request, 30*time.Second)
	return err
}

// repeat has so many callers call f until it was called n times.
func repeat(callers, n int, f func() error) error {
	var all errgroup.Group
	for i := range callers {
		share := n / callers
		if i < n%callers {
			share++
		}
		all.Go(func() error {
			for range share {
				if err := f(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return all.Wait()
}
