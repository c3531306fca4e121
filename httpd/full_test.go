package httpd

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener at which there is always somebody.
type pipes struct{ net.Listener }

func (pipes) Accept() (net.Conn, error) {
	c, _ := net.Pipe()
	return c, nil
}

func TestFewOpenFilesAreSaidWhenSomebodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &Server{MaxConns: 36_000, Log: slog.New(slog.NewTextHandler(&log, nil))}
		warnings := func() int { return strings.Count(log.String(), "to 36256 at the most") }
		l := s.limit(pipes{}, sparedFiles+100)
		accept := func(n int) (last net.Conn) {
			for range n {
				var err error
				if last, err = l.Accept(); err != nil {
					t.Fatal(err)
				}
			}
			return last
		}
		accept(99)
		if log.Len() > 0 {
			t.Errorf("with 99 of 100 connections: %s", &log)
		}
		for range 3 { // one closes, and the next one is there at once
			accept(1).Close()
		}
		if warnings() != 1 {
			t.Errorf("with 100 connections within a minute: %s", &log)
		}
		time.Sleep(time.Minute)
		accept(1)
		if warnings() != 2 {
			t.Errorf("after a minute: %s", &log)
		}
	})
}

func TestEnoughOpenFilesAreNotSaid(t *testing.T) {
	var log bytes.Buffer
	s := &Server{MaxConns: 2, Log: slog.New(slog.NewTextHandler(&log, nil))}
	l := s.limit(pipes{}, 1<<20)
	for range 2 {
		if _, err := l.Accept(); err != nil {
			t.Fatal(err)
		}
	}
	if log.Len() > 0 {
		t.Error(&log)
	}
}
