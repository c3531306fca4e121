package member_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/member"
	"github.com/batchfleet/batchfleet/grid/wire"
)

func TestG11G34HelloHasPatternAndCredits(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		r.member.Token, r.member.Version = "secret", "v1"
		r.start(answer)
		hello := l.firstSaid()
		var c wire.Capability
		if err := json.Unmarshal(hello.Payload, &c); err != nil {
			r.Fatal(err)
		}
		if hello.MsgID != r.member.ID || hello.MsgID.IsZero() || !hello.CorrID.IsZero() || c.Proto != 2 || c.Host != "test" || c.Version != "v1" || c.Token != "secret" {
			r.Errorf("hello %+v with %+v", hello, c)
		}
		want(r, "features", strings.Join(c.Features, " "), "accept cancel ping error resultack drain array attempt report blob")
		want(r, "hello", l.heard(wire.HelloWorker, wire.Credit), "HelloWorker job.assign.* of 2; Credit 2")
		l.assign(1, 11)
		want(r, "the end of a job", l.heard(wire.AckJob, wire.Credit, wire.Accept), "AckJob 1 as 11 OK 4; Credit 1")
		time.Sleep(time.Minute)
		want(r, "while nothing happens", l.heard(wire.AckJob, wire.Credit, wire.Accept), "")
	})
}

func TestG11BadPatternIsRefused(t *testing.T) {
	for _, pattern := range []string{"job.assign.>", "job.*.gpu", "job..a", "job.>.a", "a b"} {
		m := &member.Member{Leaders: []string{"h:1"}, MaxParallel: 1, Dir: t.TempDir(), Pattern: pattern, Log: slog.New(slog.DiscardHandler)}
		err := m.Open(t.Context())
		if err == nil {
			_ = m.Close()
		}
		if valid := !strings.ContainsAny(pattern, " ") && !strings.Contains(pattern, "..") && !strings.Contains(pattern, ">."); valid != (err == nil) {
			t.Errorf("pattern %q: %v", pattern, err)
		}
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for _, test := range []struct {
		leaders  []string
		parallel int
		keep     time.Duration
		want     string
	}{
		{nil, 1, 0, "no leader is given"},
		{[]string{"a"}, 1, 0, `"a" must be host:port`},
		{[]string{"a:1", ":2"}, 1, 0, `":2" must be host:port`},
		{[]string{"a:1", "a:1"}, 1, 0, "a:1 is there twice"},
		{[]string{"a:1"}, 0, 0, "0 jobs at once"},
		{[]string{"a:1"}, 10_001, 0, "10001 jobs at once"},
		{[]string{"a:1"}, 1, -1, "must be more than 0"},
		{[]string{strings.Repeat("a", 255) + ":1"}, 1, 0, "at most 255"},
	} {
		m := &member.Member{Leaders: test.leaders, MaxParallel: test.parallel, KeepRunning: test.keep, Dir: t.TempDir()}
		if err := m.Open(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("leaders %q, %d jobs, %s: %v; want %q in it", test.leaders, test.parallel, test.keep, err, test.want)
		}
	}
}
