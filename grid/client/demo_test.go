package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/wire"
)

func TestG69DemoRunsThreeJobs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1")
		l := n.leaders["a:1"]
		l.reply = runAll
		var out strings.Builder
		cfg := Config{ClientID: "clientA", Leaders: []string{"a:1"}, Dial: n.dial, Log: slog.New(slog.DiscardHandler)}
		if err := Demo(t.Context(), cfg, &out); err != nil {
			t.Error(err)
		}
		n.stop()
		if got := strings.Count(out.String(), ` OK stdout="a:1"`); got != DemoJobs {
			t.Errorf("printed was\n%s", out.String())
		}
		for _, f := range l.frames() {
			if f.Type != wire.SubmitJob {
				continue
			}
			var r wire.JobRequest
			if err := json.Unmarshal(f.Payload, &r); err != nil {
				t.Fatal(err)
			}
			if f.Subject != "job.submit.calcA" || len(r.Args) != 1 || len(r.Files) != 1 || r.Files[0].Name != "input.txt" ||
				string(r.Files[0].Content) != "input of job "+r.Args[0]+"\n" || r.JobID != f.MsgID || r.ClientID != "clientA" {
				t.Errorf("submitted was %s %s", f.Subject, f.Payload)
			}
		}
	})
}

func TestG69TheDemoTellsThatJobsHaveFailed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, "a:1")
		n.leaders["a:1"].reply = func(l *fakeLeader, c *link.Conn, f wire.Frame) {
			if f.Type != wire.SubmitJob || !bytes.Contains(f.Payload, []byte(`"Args":["2"]`)) {
				runAll(l, c, f)
				return
			}
			failed := resultOf(f.MsgID, "a:1")
			failed.Payload = bytes.Replace(failed.Payload, []byte(`"OK"`), []byte(`"FAILED"`), 1)
			_ = c.Send(failed)
		}
		var out strings.Builder
		cfg := Config{ClientID: "clientA", Leaders: []string{"a:1"}, Dial: n.dial, Log: slog.New(slog.DiscardHandler)}
		err := Demo(t.Context(), cfg, &out)
		n.stop()
		if !errors.Is(err, ErrFailed) || err.Error() != "1 of 3 jobs have failed" {
			t.Errorf("the error is %v", err)
		}
		if ok, failed := strings.Count(out.String(), " OK "), strings.Count(out.String(), " FAILED "); ok != 2 || failed != 1 {
			t.Errorf("printed was\n%s", out.String())
		}
	})
}
