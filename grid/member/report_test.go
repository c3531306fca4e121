package member_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// talker is a handler that has a log.
type talker struct {
	handler
	talk func(a jobs.Attempt)
}

func (h talker) RunAttempt(ctx context.Context, a jobs.Attempt) (jobs.Result, error) {
	h.talk(a)
	return h.handler(ctx, a.Job)
}

// reports returns what the leader was told of a job, and forgets everything.
func (l *leader) reports(job, attempt int) (all []wire.ReportInfo) {
	for _, f := range l.take() {
		if f.Type != wire.Report {
			continue
		}
		if f.CorrID != id(job) || f.MsgID != id(attempt) {
			l.Errorf("a report is of job %s as %s", f.CorrID, f.MsgID)
		}
		var info wire.ReportInfo
		if err := json.Unmarshal(f.Payload, &info); err != nil {
			l.Fatal(err)
		}
		all = append(all, info)
	}
	return all
}

func TestG18ReportsCarryLines(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		l.features = append(slices.Clone(features), wire.FeatureReport)
		r.talk = func(a jobs.Attempt) {
			a.Report(jobs.Progress{Message: "half", Logged: true})
			a.Log("one")
			time.Sleep(5 * time.Second)
			a.Log("two")
			a.Log(strings.Repeat("x", jobs.MaxLine))
			time.Sleep(5 * time.Second)
			a.Log("three")
		}
		r.start(answer)
		l.assign(1, 11)
		time.Sleep(3 * time.Second)
		var lines []string
		message := ""
		add := func() {
			for _, info := range l.reports(1, 11) {
				lines, message = append(lines, info.Lines...), cmp.Or(info.Message, message)
			}
		}
		add()
		want(r, "while it runs", fmt.Sprint(message, lines), "half[one]")
		time.Sleep(time.Minute)
		add()
		if len(lines) != 4 || lines[1] != "two" || lines[3] != "three" || len(lines[2]) != jobs.MaxLine {
			r.Errorf("at the end the leader has %d lines: %.100q", len(lines), lines)
		}
	})
}

func TestG18ShortJobSendsNoReport(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		l.features = append(slices.Clone(features), wire.FeatureReport)
		r.talk = func(a jobs.Attempt) {
			a.Report(jobs.Progress{Message: "begun"})
			a.Log("a line")
		}
		r.start(answer)
		l.assign(1, 11)
		time.Sleep(time.Minute)
		want(r, "the leader", l.heard(wire.AckJob, wire.Report), "AckJob 1 as 11 OK 4")
	})
}

func TestG18ReportIsBounded(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		l.features = append(slices.Clone(features), wire.FeatureReport)
		r.talk = func(a jobs.Attempt) {
			a.Report(jobs.Progress{Message: strings.Repeat("m", 10*wire.MaxReportMessage), Logged: true})
			for n := range 30_000 {
				a.Log(strings.Repeat("\\", n%1000))
				if n%10 == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		}
		r.start(answer)
		l.assign(1, 11)
		time.Sleep(time.Minute)
		all := 0
		for _, f := range l.take() {
			var info wire.ReportInfo
			if f.Type != wire.Report {
				continue
			}
			if err := json.Unmarshal(f.Payload, &info); err != nil {
				r.Fatal(err)
			}
			if len(info.Lines) > wire.MaxReportLines || len(info.Message) > wire.MaxReportMessage || f.Len() > 1<<20 {
				r.Errorf("a report of %d bytes has %d lines and a message of %d bytes", f.Len(), len(info.Lines), len(info.Message))
			}
			all += len(info.Lines)
		}
		if all < 200 {
			r.Errorf("the leader is told %d lines", all)
		}
	})
}

func TestG18NoReportsWithoutFeature(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		r.talk = func(a jobs.Attempt) {
			a.Log("a line")
			time.Sleep(5 * time.Second)
		}
		r.start(answer)
		l.assign(1, 11)
		time.Sleep(time.Minute)
		want(r, "the leader", l.heard(wire.AckJob, wire.Report), "AckJob 1 as 11 OK 4")
	})
}
