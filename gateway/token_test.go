package gateway_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/wire"
)

func TestTokenFile(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second)
	want := gateway.Token{Gateway: "https://g", WorkerID: "w-1", Name: "lab", Token: theToken, IssuedAt: now, ExpiresAt: now.Add(time.Hour)}
	path := filepath.Join(t.TempDir(), "token")
	if err := gateway.SaveToken(path, gateway.Token{Token: "something-else"}); err != nil {
		t.Fatal(err)
	}
	if err := gateway.SaveToken(path, want); err != nil {
		t.Fatal(err)
	}
	if got, err := gateway.LoadToken(path); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if s := fmt.Sprintf("%v %+v %#v %s", want, want, want, want); strings.Contains(s, "zpw_") {
		t.Errorf("printed, it shows the secret: %s", s)
	}
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 1 {
		t.Errorf("left behind: %v %v", files, err)
	}
}

func TestTokenFileThatIsNotOneIsRefused(t *testing.T) {
	tests := []struct {
		name, text string
		mode       os.FileMode
		want       string // empty for none
	}{
		{"a bare token", " zpw_hunter2hunter2\n", 0o600, ""},
		{"read-only", "zpw_hunter2hunter2", 0o400, ""},
		{"others may read it", "zpw_hunter2hunter2", 0o644, "chmod 600"},
		{"the group may read it", "zpw_hunter2hunter2", 0o640, "chmod 600"},
		{"empty", "", 0o600, "holds no token"},
		{"two lines", "zpw_hunter2hunter2\nX: y", 0o600, "holds no token"},
		{"half of the JSON", `{"token":"zpw_hunter2hu`, 0o600, "not the JSON of a token"},
		{"a number", `{"token":1}`, 0o600, "not the JSON of a token"},
		{"no token", `{"worker_id":"w"}`, 0o600, "holds no token"},
		{"a token for two headers", `{"token":"zpw_hunter2\r\nX: y"}`, 0o600, "holds no token"},
		{"the shortest", strings.Repeat("x", 8), 0o600, ""},
		{"too short", strings.Repeat("x", 7), 0o600, "holds no token"},
		{"the longest", strings.Repeat("x", 1000), 0o600, ""},
		{"too long", strings.Repeat("x", 1001), 0o600, "holds no token"},
		{"huge", strings.Repeat("x", 5000), 0o600, "longer than"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, tt.mode); err != nil {
				t.Fatal(err)
			}
			_, err := gateway.LoadToken(path)
			if (err == nil) != (tt.want == "") || err != nil && (!strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := gateway.LoadToken(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "register") {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := gateway.LoadToken(t.TempDir()); err == nil || !strings.Contains(err.Error(), "regular") {
		t.Errorf("a directory: %v", err)
	}
}

func TestTokenFileIsForPeople(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	want := gateway.Token{Name: "R&D <lab>", Token: theToken}
	if err := gateway.SaveToken(path, want); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), "\n  \"name\": \"R&D <lab>\",\n") {
		t.Errorf("got %s, %v", text, err)
	}
	if got, err := gateway.LoadToken(path); err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
}

// current returns the token on disk.
func (r *rig) current() gateway.Token {
	r.t.Helper()
	tok, err := gateway.LoadToken(r.token)
	if err != nil {
		r.t.Fatal(err)
	}
	return tok
}

func TestZ36TokenIsRenewedInTimeAndTheWorkerStaysWhoItIs(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.patient()
		r.handler = r.lasting(20 * time.Hour)
		r.plane.submit("j1")
		_ = r.work(func() { time.Sleep(20*time.Hour + 30*time.Minute) })
		r.wantSaid("lease j1", "register w-1", "register w-1", "register w-1", "result j1")
		life := tokenLife
		for i, at := range r.plane.times("register") {
			if want := time.Duration(i+1) * life / 4 * 3; at < want || at > want+time.Duration(i+1)*time.Second {
				t.Errorf("renewed after %s, want %s", at, want)
			}
		}
		if tok := r.current(); tok.WorkerID != "w-1" || tok.Token == theToken || tok.Gateway == "" || !time.Now().Before(tok.ExpiresAt) {
			t.Errorf("on disk: %+v", tok)
		}
	})
}

func TestZ36RenewalIsTriedAgain(t *testing.T) {
	for _, wrong := range []string{"500", "cut", "html", "lost", "truncated", "401"} {
		t.Run(wrong, func(t *testing.T) {
			test(t, func(t *testing.T, r *rig) {
				r.patient()
				due := tokenLife / 4 * 3
				r.plane.broken("register", wrong, due+8*time.Minute)
				_ = r.work(func() { time.Sleep(due + time.Hour) })
				if tok := r.current(); tok.Token == theToken {
					t.Errorf("not renewed\n%s", r.log)
				}
				if r.plane.calls["register"] > 16 {
					t.Errorf("%d calls", r.plane.calls["register"])
				}
				r.wantLogged("cannot get a new token")
			})
		})
	}
}

func TestZ36KilledWhileItRenewsAWorkerStillHasAToken(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.patient()
		// The gateway has given a new token, and nothing is on disk: the answer was
		// lost, or the process was killed before it could write. The old token holds
		// for ten minutes more, and the next process uses it.
		due := tokenLife / 4 * 3
		r.plane.brokenAt("register", "lost", 1)
		_ = r.work(func() { time.Sleep(due + 10*time.Second) })
		if tok := r.current(); tok.Token != theToken {
			t.Fatalf("on disk: %+v", tok)
		}
		time.Sleep(5 * time.Minute)
		r.plane.submit("j1")
		_ = r.work(func() { time.Sleep(20 * time.Minute) })
		if said := r.plane.said(); len(r.plane.times("register w-1")) != 2 || !slices.Contains(said, "result j1") {
			t.Errorf("the control plane saw %q", said)
		}
		if tok := r.current(); tok.Token == theToken || tok.WorkerID != "w-1" {
			t.Errorf("on disk: %+v", tok)
		}
	})
}

// moveToken keeps the worker's token in a directory of its own, and returns where that
// can be put out of reach.
func (r *rig) moveToken() (away string) {
	r.t.Helper()
	r.token = filepath.Join(filepath.Dir(r.dir), "tokens", "token")
	if err := errors.Join(os.Mkdir(filepath.Dir(r.token), 0o700), r.saveToken()); err != nil {
		r.t.Fatal(err)
	}
	return filepath.Join(filepath.Dir(r.dir), "away")
}

func TestZ36NewTokenIsUsedOnlyWhenItIsOnDisk(t *testing.T) {
	t.Parallel()
	test(t, func(t *testing.T, r *rig) {
		r.plane.waits = true
		away := r.moveToken()
		due := tokenLife / 4 * 3
		_ = r.work(func() {
			time.Sleep(due - time.Second)
			if err := os.Rename(filepath.Dir(r.token), away); err != nil {
				t.Error(err)
			}
			time.Sleep(2 * time.Minute)
			r.plane.do(func() { r.plane.headers = nil })
			time.Sleep(time.Minute)
			r.plane.do(func() {
				if len(r.plane.headers) == 0 {
					t.Error("no calls to look at")
				}
				for _, h := range r.plane.headers {
					if got := h.Get("Authorization"); got != "Bearer "+theToken {
						t.Errorf("used %q while it was not on disk", got)
					}
				}
			})
			if err := os.Rename(away, filepath.Dir(r.token)); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute)
		})
		if n := r.plane.calls["register"]; n != 1 || r.current().Token == theToken {
			t.Errorf("%d calls, on disk %+v", n, r.current())
		}
	})
}

func TestZ36TokenThatCannotBeWrittenIsUsedAndNotThrownAway(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.patient()
		r.plane.waits = true
		away := r.moveToken()
		due := tokenLife / 4 * 3
		r.handler = r.lasting(20 * time.Hour)
		r.plane.submit("j1")
		_ = r.work(func() {
			time.Sleep(due - time.Second)
			if err := os.Rename(filepath.Dir(r.token), away); err != nil {
				t.Error(err)
			}
			time.Sleep(7 * time.Minute) // longer than the new token waits for its file
			if err := os.Rename(away, filepath.Dir(r.token)); err != nil {
				t.Error(err)
			}
			time.Sleep(20*time.Hour + 30*time.Minute - due - 7*time.Minute)
		})
		r.wantLogged("could not be written, it is used all the same")
		r.wantSaid("lease j1", "register w-1", "register w-1", "register w-1", "result j1")
		if tok := r.current(); tok.Token == theToken || !time.Now().Before(tok.ExpiresAt) {
			t.Errorf("on disk: %+v", tok)
		}
	})
}

func TestZ36TokenThatSomebodyElseHasRenewedIsTaken(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.patient()
		const theirs = "zpw_" + "somebody-was-faster-than-this-worker-0000000"
		due := tokenLife / 4 * 3
		_ = r.work(func() {
			time.Sleep(due - time.Minute)
			now := time.Now().UTC()
			r.plane.do(func() { r.plane.tokens[theirs] = now.Add(tokenLife) })
			if err := gateway.SaveToken(r.token, gateway.Token{WorkerID: "w-1", Token: theirs, IssuedAt: now, ExpiresAt: now.Add(tokenLife)}); err != nil {
				t.Error(err)
			}
			time.Sleep(2 * time.Minute)
			r.plane.submit("j1")
			time.Sleep(12 * time.Minute)
		})
		r.wantSaid("lease j1", "result j1")
		if got := r.plane.headers[len(r.plane.headers)-1].Get("Authorization"); got != "Bearer "+theirs {
			t.Errorf("the last call was made with %q", got)
		}
	})
}

func TestZ32RegisterWithAnEnrollToken(t *testing.T) {
	p := newPlane()
	p.enroll["zpe_hunter2-of-the-admin"] = true
	srv := serveHandler(t, p)
	client, err := gateway.NewClient(gateway.ClientConfig{URL: srv})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	tok, err := gateway.Register(t.Context(), client, "zpe_hunter2-of-the-admin", "lab")
	if err != nil || tok.Name != "lab" || tok.WorkerID == "" || tok.Gateway != srv || tok.ExpiresAt.Sub(tok.IssuedAt) != tokenLife {
		t.Fatalf("got %+v, %v", tok, err)
	}
	_, err = gateway.Register(t.Context(), client, "zpe_hunter2-of-the-admin", "lab")
	e := (*gateway.Error)(nil)
	if !errors.As(err, &e) || e.Code != wire.InvalidEnrollToken || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a second time: %v", err)
	}
	if n := p.calls["register"]; n != 2 {
		t.Errorf("%d calls: an enroll token is good once and must not be sent again by itself", n)
	}
}
