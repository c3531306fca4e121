package router_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/batchfleet/batchfleet/grid/access"
	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/router"
	"github.com/batchfleet/batchfleet/grid/wire"
	tokens "github.com/batchfleet/batchfleet/jobapi/access"
)

// rules writes a file of rules with one principal, which has the token of a hash.
func rules(t *testing.T, path, hash string) {
	t.Helper()
	text := "[team]\ntokens = [\"sha256:" + hash + "\"]\nclients = [\"team-*\"]\nexecs = [\"calcA\"]\nmax_cap = 2\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestG75RouterEnforcesRules(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, "a:1")
		r.router.kill()
		token, hash := tokens.NewToken()
		path := filepath.Join(t.TempDir(), "acl.toml")
		rules(t, path, hash)
		file, err := access.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		to := &router.Router{Access: file}
		r.startRouter(to)
		r.client("team-1", "", all...).checkRefused(wire.CodeForbidden, "token")
		r.client("team-1", "wrong", all...).checkRefused(wire.CodeForbidden, "token")
		r.client("other", token, all...).checkRefused(wire.CodeForbidden, "other")
		c := r.client("team-1", token, all...)
		c.next(wire.Welcome)
		forbidden := c.jobOf("calcB")
		c.send(forbidden)
		c.checkJobRefused(forbidden, wire.CodeForbidden)
		var jobs []wire.Frame
		for range 5 {
			jobs = append(jobs, c.job())
		}
		c.send(jobs...)
		c.queued(jobs...)
		w := r.dial("a:1")
		w.send(wire.Frame{Type: wire.HelloWorker, MsgID: wire.NewGUID()}, wire.Frame{Type: wire.Credit, Payload: wire.AppendCredit(nil, 5)})
		if n, _ := r.numbers("a:1"); n.Running != 2 { // of the 1000 that it wants
			t.Errorf("%d jobs run, want max_cap", n.Running)
		}
		if err := to.Reload(); err != nil {
			t.Fatal(err)
		}
		c.send(forbidden) // it is still there
		c.checkJobRefused(forbidden, wire.CodeForbidden)
		_, hash = tokens.NewToken()
		rules(t, path, hash)
		if err := to.Reload(); err != nil {
			t.Fatal(err)
		}
		c.checkRefused(wire.CodeForbidden, "token")
	})
}

func TestG75ClientLearnsOfRefusalByLeaders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, "none:1")
		r.serve("strict:1", func(_ context.Context, l net.Listener) error {
			conn, err := l.Accept()
			if err != nil {
				return nil //nolint:nilerr // the test has ended
			}
			c := link.New(conn, link.Options{})
			if _, err := c.Receive(); err != nil {
				return err
			}
			text, _ := json.Marshal(wire.ErrorInfo{Code: wire.CodeForbidden, Message: "no token"})
			_ = c.Send(wire.Frame{Type: wire.Error, Payload: text})
			_ = c.Close()
			c.Abort(io.EOF)
			return nil
		})
		r.startRouter(&router.Router{Leaders: []string{"strict:1"}})
		c := r.client("clientA", "", all...)
		c.next(wire.Welcome)
		c.checkRefused(wire.CodeForbidden, "the leaders of this router refuse")
	})
}

func TestG75OpenChecksLeaders(t *testing.T) {
	for _, leaders := range [][]string{nil, {"a"}, {"a:1", "a:1"}} {
		if err := (&router.Router{Leaders: leaders, Log: quiet}).Open(); err == nil {
			t.Errorf("leaders %q are taken", leaders)
		}
	}
}
